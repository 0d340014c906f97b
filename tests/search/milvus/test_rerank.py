"""Distances of candidates, their order, and recall, by hand."""

import numpy as np

from cbid.search.milvus.rerank import distances_of, nearest, recalls
from cbid.search.milvus.settings import Settings

QUERY = np.array([0b00000000], dtype=np.uint8)
CODES = np.array([[0b10000000], [0b01000000], [0b11000000]], dtype=np.uint8)
LABELS = np.array([7, 9, 9])


def test_distances():
    weights = np.array([4.0, 1, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(distances_of(QUERY[0:1], CODES, LABELS, None), [1, 1, 2])
    np.testing.assert_array_equal(distances_of(QUERY[0:1], CODES, LABELS, weights), [4, 1, 5])


def test_distances_under_the_weights_of_each_class():
    """Class 9 weighs the second bit alone: the codes of class 9 are at 0.5, and that of class 7 at 4."""
    by_class = np.zeros((8, 2))
    by_class[:2] = [[0, 4], [0.5, 1]]  # columns: class 9, class 7
    settings = Settings.checked(8, by_class, [9, 7], None, None, None, "")
    np.testing.assert_array_equal(distances_of(QUERY[0:1], CODES, LABELS, settings), [4, 0.5, 0.5])


def test_ties_go_to_the_smaller_id():
    distances = np.array([2, 1, 2, 1], dtype=np.float32)
    np.testing.assert_array_equal(nearest(np.array([5, 9, 3, 4]), distances, 3), [3, 1, 2])


def test_recalls():
    """Query 0: its two nearest, at 1 and 2, are the first and the third candidate. Query 1 has one code only, the
    second. So of three, one is found among the first, two among the first two, all among the first three."""
    found = [np.array([1, 3, 2, 9], dtype=np.float32), np.array([8, 1], dtype=np.float32)]
    exact = np.array([[1, 2], [1, np.inf]], dtype=np.float32)
    assert recalls(found, exact, [1, 2, 3, 4]) == {1: 1 / 3, 2: 2 / 3, 3: 1.0, 4: 1.0}


def test_a_tie_with_the_last_counts_once():
    """Three candidates are as near as the k-th of two; two of them are wanted, and no more than all is found."""
    found = [np.array([1, 1, 1], dtype=np.float32)]
    assert recalls(found, np.array([[1, 1]], dtype=np.float32), [1, 3]) == {1: 0.5, 3: 1.0}
