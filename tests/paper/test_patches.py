"""The plan of Table 1: which methods run with which place, queries, draws and seeds."""

import pytest

from cbid.coders import ITQ, LSH
from cbid.paper import patches
from cbid.paper.base import key_of


class Learned:
    """C-BID as far as a method looks at it before it is fitted to images."""

    def __init__(self, location):
        self.location = location

    def truncate(self, n_bits):
        return self

    def fit(self, X, y):
        raise AssertionError("it is fitted")

    encode = fit


@pytest.mark.parametrize("key", [key for key in patches.METHODS if key != "bow"])
def test_every_method_has_place_in_the_classifier_or_in_the_coder_and_never_in_both(key):
    method = patches.METHODS[key]
    location = patches.LOCATION if method.placed else None
    cbid = Learned(location)
    model = method.make(0, cbid)
    model._check_params()  # refuses two locations
    if key.removesuffix(patches.PLACED) in patches.PREFIXES:
        assert model.coder is cbid
        assert model.location is None
    else:
        assert model.location == location
        assert getattr(model.coder, "location", None) is None


def test_rivals_are_with_and_without_class_factors():
    for key, coder in (("itq", ITQ), ("lsh", LSH)):
        for n_bits in (32, 128):
            plain, balanced = (
                patches.METHODS[f"{key}{kind}{n_bits}{patches.PLACED}"].make(0, None) for kind in ("", "balanced")
            )
            assert (plain.decision, balanced.decision) == ("nearest", "balanced")
            assert type(plain.coder) is type(balanced.coder) is coder
            assert plain.coder.n_bits == balanced.coder.n_bits == n_bits


def test_the_full_form_has_all_methods_with_1000_queries_and_two_seeds_for_codes():
    cells = patches.full_cells(["scene15"], False)
    assert {cell["queries"] for cell in cells} == {1000}
    for key, method in patches.METHODS.items():
        runs = {(cell["repeat"], cell["coder_seed"]) for cell in cells if cell["method"] == key}
        seeds = range(2) if method.coded else range(1)
        assert runs == {(draw, seed) for draw in range(5) for seed in seeds}, key
    assert not patches.METHODS["exact"].coded
    assert patches.METHODS["itq128"].coded


def test_the_reduced_form_compares_with_itq_in_all_draws():
    cells = patches.cells(["scene15"], False)
    draws = {key: sum(cell["method"] == key for cell in cells) for key in patches.METHODS}
    for n_bits in (32, 128):
        for kind in ("cbid", "itq", "itqbalanced", "lsh"):
            assert draws[f"{kind}{n_bits}"] == draws[f"{kind}{n_bits}{patches.PLACED}"] == 5
        assert draws[f"nearest{n_bits}"] == draws[f"lshbalanced{n_bits}"] == 5
    assert {cell["queries"] for cell in cells} == {patches.QUERIES}
    full = {key_of(cell) for cell in patches.full_cells(["scene15"], False)}
    assert not full & {key_of(cell) for cell in cells}  # 1,000 queries are other cells
