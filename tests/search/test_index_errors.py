"""Bad input: the message names the argument, what came and what is accepted; nothing changes."""

import numpy as np
import pytest

from cbid.search import CodeIndex, UnknownIdError


@pytest.fixture
def index():
    index = CodeIndex(16, np.ones(16))
    index.add(np.arange(20, dtype=np.uint8).reshape(10, 2), labels=np.arange(10) % 3)
    return index


ONE = np.zeros((1, 2), np.uint8)
LABEL = {"labels": [0]}

ADDITIONS = {
    "width": (np.zeros((1, 3), np.uint8), LABEL, ValueError, "codes is 3 bytes wide"),
    "dtype": (np.zeros((1, 2)), LABEL, TypeError, "codes has dtype float64"),
    "dimensions": (np.zeros((1, 1, 2), np.uint8), LABEL, ValueError, r"codes has shape \(1, 1, 2\)"),
    "no labels": (ONE, {}, ValueError, "labels=None"),
    "label count": (ONE, {"labels": [1, 2]}, ValueError, "labels has 2 entries"),
    "label kind": (ONE, {"labels": ["a"]}, TypeError, "labels has values of kind str; .* kind int"),
    "label type": (ONE, {"labels": [1.5]}, TypeError, "labels has dtype float64"),
    "label kinds": (ONE, {"labels": ["q", 1]}, TypeError, "labels has values of kinds int and str; .* one kind"),
    "bools and integers": (ONE, {"labels": [True, 1]}, TypeError, "labels has values of kinds bool and int"),
    "label shape": (ONE, {"labels": np.ones((1, 1, 1))}, ValueError, r"labels has shape \(1, 1, 1\)"),
    "large label": (ONE, {"labels": [2**63]}, ValueError, "labels holds 9223372036854775808"),
    "id count": (ONE, {"ids": [50, 51], "labels": [0]}, ValueError, "ids has 2 entries"),
    "id type": (ONE, {"ids": [1.0], "labels": [0]}, TypeError, "ids has dtype float64"),
    "id shape": (ONE, {"ids": [[50]], "labels": [0]}, ValueError, r"ids has shape \(1, 1\)"),
    "negative id": (ONE, {"ids": [-1], "labels": [0]}, ValueError, "ids holds -1"),
    "large id": (ONE, {"ids": np.array([2**63], np.uint64)}, ValueError, "ids holds 9223372036854775808"),
    "id stored": (ONE, {"ids": [3]}, ValueError, "ids holds 3, already stored"),
    "id twice": (
        np.zeros((2, 2), np.uint8),
        {"ids": [50, 50], "labels": [0, 0]},
        ValueError,
        "ids holds 50 more than once",
    ),
    "some ids stored": (
        np.zeros((3, 2), np.uint8),
        {"ids": [60, 4, 5], "labels": [0, 0, 0]},
        ValueError,
        "ids holds 4 and 1 more, already stored",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ADDITIONS)
def test_add(index, case):
    codes, others, error, message = ADDITIONS[case]
    before = index.ids, index.labels, index.reconstruct(index.ids)
    with pytest.raises(error, match=message):
        index.add(codes, **others)
    for was, now in zip(before, (index.ids, index.labels, index.reconstruct(index.ids))):
        np.testing.assert_array_equal(was, now)
    assert index.add(ONE, labels=[0]).tolist() == [10]


@pytest.mark.parametrize("stored", ["tail", "sealed", "both"])
def test_duplicate_ids_wherever_they_are_stored(stored):
    index = CodeIndex(8)
    codes = np.zeros((5000, 1), np.uint8)
    if stored != "tail":
        index.add(codes, np.arange(10_000, 15_000))
    if stored != "sealed":
        index.add(codes[:10], np.arange(10))
    taken = {"tail": [5], "sealed": [12_345], "both": [3, 14_999]}[stored]
    for n in (len(taken), 5000):  # few, and more than what the tail is looked up one by one for
        ids = np.append(taken, np.arange(20_000, 20_000 + n - len(taken)))
        with pytest.raises(ValueError, match=f"ids holds {taken[0]}.*already stored"):
            index.add(codes[:n], ids)


def test_labels_where_there_were_none():
    index = CodeIndex(16)
    index.add(ONE)
    with pytest.raises(ValueError, match="labels is given"):
        index.add(ONE, labels=[1])
    with pytest.raises(ValueError, match="labels is given"):
        index.search(ONE, labels=[1])
    index.remove(0)
    index.add(ONE, labels=["now it may"])
    index.remove(1)
    index.add(ONE)
    assert index.labels is None


def test_padding_bits_must_be_zero():
    with pytest.raises(ValueError, match="codes has bits set past bit 12"):
        CodeIndex(12).add(np.array([[0, 1]], np.uint8))


@pytest.mark.parametrize("ids", [[3, 77, 99], 77, [77] * 2])
def test_unknown_ids(index, ids):
    for act in (index.remove, index.reconstruct):
        with pytest.raises(UnknownIdError, match=r"ids holds 77.*not stored"):
            act(ids)
    with pytest.raises(KeyError):
        index.remove(ids)
    assert len(index) == 10


SEARCHES = {
    "k 0": ({"k": 0}, ValueError, "k=0"),
    "k negative": ({"k": -3}, ValueError, "k=-3"),
    "k float": ({"k": 2.0}, TypeError, "k=2"),
    "k bool": ({"k": True}, TypeError, "k=True"),
    "weights NaN": ({"weights": np.full(16, np.nan)}, ValueError, "weights has NaN or infinite"),
    "weights negative": ({"weights": -np.ones(16)}, ValueError, "weights has negative entries"),
    "weights shape": ({"weights": np.ones(15)}, ValueError, r"weights has shape \(15,\)"),
    "weights twice": ({"weights": np.ones(16), "weighted": False}, ValueError, "weights is given and"),
    "weights text": ({"weights": ["a"] * 16}, TypeError, "weights has dtype <U1"),
    "both sides": ({"projections": np.ones(16)}, ValueError, "codes and projections"),
    "among": ({"among": [0.5]}, TypeError, "among has dtype float64"),
    "label kind": ({"labels": "a"}, TypeError, "labels has values of kind str"),
    "probes": ({"probes": 3}, ValueError, "probes=3"),
}  # fmt: skip


@pytest.mark.parametrize("case", SEARCHES)
def test_search(index, case):
    options, error, message = SEARCHES[case]
    with pytest.raises(error, match=message):
        index.search(ONE, **options)


def test_search_without_queries(index):
    with pytest.raises(ValueError, match="exactly one of them"):
        index.search()
    with pytest.raises(ValueError, match=r"projections has shape \(15,\)"):
        index.search(projections=np.ones(15))
    with pytest.raises(ValueError, match="projections has NaN"):
        index.search(projections=np.full(16, np.nan))


@pytest.mark.parametrize(
    ("radius", "error"), [(-1, ValueError), (np.nan, ValueError), ("far", TypeError), (None, TypeError)]
)
def test_range_search(index, radius, error):
    with pytest.raises(error, match=r"radius="):
        index.range_search(ONE, radius)


CONSTRUCTIONS = {
    "no bits": ((0,), {}, ValueError, "n_bits"),
    "bits as text": (("64",), {}, TypeError, "n_bits"),
    "weights shape": ((16, np.ones(8)), {}, ValueError, r"weights has shape \(8,\)"),
    "weights NaN": ((2, [1, np.nan]), {}, ValueError, "weights has NaN"),
    "weights negative": ((2, [1, -1]), {}, ValueError, "weights has negative"),
    "weights huge": ((2, [3e38, 3e38]), {}, ValueError, "weights sum to"),
    "weights negative in a class": ((1, [[1, -1]]), {}, ValueError, "weights has negative"),
    "no classes": ((2, np.ones((2, 0))), {}, ValueError, r"weights has shape \(2, 0\)"),
    "classes count": ((2, np.ones((2, 3))), {"classes": [0, 1]}, ValueError, "classes has 2 names"),
    "classes twice": ((2, np.ones((2, 2))), {"classes": [1, 1]}, ValueError, "classes holds a name twice"),
    "classes alone": ((2,), {"classes": [0]}, ValueError, "classes is given, but weights is not"),
    "threads": ((2,), {"n_threads": 0}, ValueError, "n_threads=0"),
    "cells": ((2,), {"cells": 1}, ValueError, "cells=1"),
    "probes alone": ((2,), {"probes": 1}, ValueError, "probes=1"),
    "probes": ((2,), {"cells": 4, "probes": 5}, ValueError, "probes=5"),
}  # fmt: skip


@pytest.mark.parametrize("case", CONSTRUCTIONS)
def test_construction(case):
    given, options, error, message = CONSTRUCTIONS[case]
    with pytest.raises(error, match=message):
        CodeIndex(*given, **options)


def test_weights_per_class_need_known_labels():
    index = CodeIndex(16, np.ones((16, 2)))
    with pytest.raises(ValueError, match="labels=None"):
        index.add(ONE)
    with pytest.raises(ValueError, match="labels holds 2"):
        index.add(ONE, labels=[2])
    index.add(ONE, labels=[1])
    assert index.search(ONE).labels[0, 0] == 1


def test_ivf_without_cells(index):
    for act in (index.train, lambda: setattr(index, "probes", 3)):
        with pytest.raises(ValueError, match="has no cells"):
            act()
    with pytest.raises(ValueError, match="sample has 0 queries"):
        index.measure_recall(np.empty((0, 2), np.uint8))
    with pytest.raises(ValueError, match="codes has 3 rows"):
        CodeIndex(16, cells=4).train(np.zeros((3, 2), np.uint8))


def test_directories_of_an_index_that_has_none(index):
    with pytest.raises(ValueError, match="path=None"):
        index.save()
    for act in (index.refresh, index.verify):
        with pytest.raises(ValueError, match="never opened or saved"):
            act()


def test_labels_of_another_kind_than_the_columns_of_weights():
    index = CodeIndex(16, np.ones((16, 2)))
    with pytest.raises(TypeError, match=r"kind str.*classes="):
        index.add(ONE, labels=["a"])


def test_more_neighbours_than_memory_holds(index):
    assert index.search(ONE, k=1000).ids.shape == (1, 1000)
    with pytest.raises(ValueError, match="k=1000000000"):
        index.search(ONE, k=10**9)


def test_whole_numbers_may_come_as_floats():
    index = CodeIndex(16)
    index.add(np.zeros((2, 2), np.uint8), labels=[1.0, 2.0])
    assert index.labels.tolist() == [1, 2]
    assert index.search(ONE, k=2, labels=2.0).ids.tolist() == [[1, -1]]
    for bad in (np.nan, np.inf, 1e300):
        with pytest.raises(TypeError, match="labels has dtype float64"):
            index.add(ONE, labels=[bad])
