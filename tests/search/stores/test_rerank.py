"""Distances of candidates, and recall, by hand."""

import numpy as np

from cbid.search.stores.milvus import _recalls
from cbid.search.stores.milvus_collection import CollectionSettings, StoredRows

QUERY = np.array([0b00000000], dtype=np.uint8)
CODES = np.array([[0b10000000], [0b01000000], [0b11000000]], dtype=np.uint8)
ROWS = StoredRows(np.arange(3), CODES, np.array([7, 9, 9]))


def test_distances():
    settings = CollectionSettings(8)
    weights = np.array([4.0, 1, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(settings.distances(QUERY, ROWS, None), [1, 1, 2])
    np.testing.assert_array_equal(settings.distances(QUERY, ROWS, weights), [4, 1, 5])


def test_distances_under_the_weights_of_each_class():
    """Class 9 only weighs the second bit: the codes of class 9 are at 0.5, the code of class 7 is at 4."""
    by_class = np.zeros((8, 2))
    by_class[:2] = [[0, 4], [0.5, 1]]  # columns: class 9, class 7
    settings = CollectionSettings.checked(8, by_class, [9, 7], None, None, None, "")
    np.testing.assert_array_equal(settings.distances(QUERY, ROWS, settings.weights), [4, 0.5, 0.5])


def test_recalls():
    """Query 0: its two nearest, at 1 and 2, are the first and the third candidate. Query 1 has one code only, the
    second. So of three, one is found among the first, two among the first two, all among the first three."""
    found = [np.array([1, 3, 2, 9], dtype=np.float32), np.array([8, 1], dtype=np.float32)]
    exact = np.array([[1, 2], [1, np.inf]], dtype=np.float32)
    assert _recalls(found, exact, [1, 2, 3, 4]) == {1: 1 / 3, 2: 2 / 3, 3: 1.0, 4: 1.0}


def test_a_tie_with_the_last_counts_once():
    """Three candidates are as near as the k-th of two; two of them are wanted, and no more than all is found."""
    found = [np.array([1, 1, 1], dtype=np.float32)]
    assert _recalls(found, np.array([[1, 1]], dtype=np.float32), [1, 3]) == {1: 0.5, 3: 1.0}
