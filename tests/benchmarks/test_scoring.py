"""The four figures of a code, on a case worked by hand."""

import numpy as np
import pytest

from benchmarks.scoring import figures, hamming_rows, nearest_class


def test_distances_are_counts_or_shares_of_the_weights():
    train, test = np.array([[1, 1, -1], [-1, 1, 1]]), np.array([[1, 1, 1]])
    assert np.concatenate(list(hamming_rows(train, test))).tolist() == [[1, 1]]
    (weighted,) = hamming_rows(train, test, np.array([3.0, 1.0, 1.0]))
    np.testing.assert_allclose(weighted, [[2 * 1 / 5, 2 * 3 / 5]])  # twice the share of the weight that differs


def test_figures_by_hand():
    """Query 0 of class 0 meets its two at distance 0; query 1 of class 1 has its own last: 1/3, then 2/4 of 12."""
    y = np.array([0, 0, 1, 1, *[2] * 8])
    rows = np.array([[0, 0, 1, 1, *[2] * 8], [0, 0, 1, 1, *[2] * 8]])
    found = figures(iter([rows]), y, np.array([0, 1]))
    assert found["map"] == pytest.approx((1 + (1 / 3 + 2 / 4) / 2) / 2)
    assert found["p10"] == pytest.approx(0.2)
    assert "svm" not in found


def test_equal_distances_go_to_the_smaller_row():
    assert nearest_class(np.array([[1, 1, 1]]), np.array([2, 0, 1]), k=1).tolist() == [2]


def test_the_svm_reads_the_bits():
    bits = np.array([[1, -1], [1, 1], [-1, -1], [-1, 1]] * 10, dtype=float)
    y = (bits[:, 0] < 0).astype(int)
    distances = hamming_rows(bits, bits)
    assert figures(distances, y, y, bits, bits)["svm"] == 1
