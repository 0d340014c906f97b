"""Codes with labels, and an embedded Milvus in a temporary file."""

from typing import NamedTuple

import numpy as np
import pytest

from cbid.search import CodeIndex
from cbid.search.stores import MilvusStore


class Stored(NamedTuple):
    n_bits: int
    weights: np.ndarray
    ids: np.ndarray
    codes: np.ndarray
    labels: np.ndarray

    def index(self, **settings):
        index = CodeIndex(self.n_bits, settings.pop("weights", self.weights), n_threads=1, **settings)
        index.add(self.codes, self.ids, self.labels)
        return index


NAMES = np.array(["cat", 'a "quoted" name', "back\\slash", "é, 猫", "tab\tand'", ""])


@pytest.fixture(scope="session")
def stored():
    """600 codes of 61 bits around 20 centres, with labels of all kinds of characters, ids in no order."""
    rng = np.random.default_rng(0)
    bits = (rng.random((20, 61)) < 0.5)[rng.integers(0, 20, 600)] ^ (rng.random((600, 61)) < 0.2)
    ids = rng.permutation(9000)[:600]
    return Stored(61, rng.exponential(size=61), ids, np.packbits(bits, axis=1), NAMES[rng.integers(0, 6, 600)])


@pytest.fixture(scope="session")
def lite(tmp_path_factory):
    """The start of the addresses of an embedded Milvus; its process starts once, for all tests."""
    pytest.importorskip("pymilvus", reason="pymilvus is absent: pip install 'cbid[milvus]'")
    pytest.importorskip("milvus_lite", reason="milvus-lite is absent: pip install 'cbid[milvus]'")
    base = f"milvus://{tmp_path_factory.mktemp('milvus')}/codes.db/"
    with MilvusStore.create(base + "held_open", 8):
        yield base


@pytest.fixture(scope="module")
def filled(lite, stored):
    """A store of all codes, only to be read."""
    with MilvusStore.create(lite + "filled", stored.n_bits, stored.weights, labels="str") as store:
        store.add(stored.codes, stored.ids, stored.labels)
        yield store


def same(found, wanted):
    np.testing.assert_array_equal(found.ids, wanted.ids)
    np.testing.assert_array_equal(found.distances, wanted.distances)
    assert (found.labels is None) == (wanted.labels is None)
    if wanted.labels is not None:
        assert found.labels.dtype.kind == wanted.labels.dtype.kind
        np.testing.assert_array_equal(found.labels, wanted.labels)
