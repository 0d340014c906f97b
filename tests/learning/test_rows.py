"""Rows over whole classes: which there are, and which are drawn."""

import numpy as np
import pytest

from cbid.learning import rows as rows_module
from cbid.learning.rows import rows_from_classes, rows_of_drawn_pairs


def pairs(y, n_classes):
    """The sides (sample, other class) by definition."""
    return [i * n_classes + r for i in range(len(y)) for r in range(n_classes) if r != y[i]]


@pytest.mark.parametrize("max_rows", [1000, 30, 1])
def test_rows_of_whole_classes(max_rows):
    y, k = np.arange(24) % 5, 5
    rows = rows_from_classes(y, n_classes=k, max_rows=max_rows, rng=np.random.default_rng(3))
    wanted = np.array(pairs(y, k))
    if max_rows < len(wanted):
        wanted = np.sort(np.random.default_rng(3).choice(wanted, size=max_rows, replace=False))
    np.testing.assert_array_equal(rows.miss, wanted)
    np.testing.assert_array_equal(rows.other, wanted % k)
    np.testing.assert_array_equal(rows.own, y[wanted // k])
    np.testing.assert_array_equal(rows.hit, wanted // k * k + rows.own)
    assert {a.dtype for a in (rows.hit, rows.miss, rows.own, rows.other)} == {np.dtype(np.int32)}


def test_more_sides_than_32_bits_number(monkeypatch):
    monkeypatch.setattr(rows_module, "WholeClassSides", lambda y, n_classes: None)  # a table of 10 GB
    n = k = 50_000
    y = np.arange(n)[::-1].copy()
    rows = rows_from_classes(y, n_classes=k, max_rows=1000, rng=np.random.default_rng(0))
    assert rows.miss.max() > 2**31
    np.testing.assert_array_equal(rows.own, y[rows.miss // k])
    np.testing.assert_array_equal(rows.other, rows.miss % k)
    np.testing.assert_array_equal(rows.hit, rows.miss // k * k + rows.own)
    assert (rows.own != rows.other).all()


@pytest.mark.parametrize("most", [200_000, 50])
def test_drawn_pairs_are_of_the_own_and_of_another_class(monkeypatch, most):
    """Every other class is as likely, whatever its size."""
    monkeypatch.setattr(rows_module, "_MOST_DRAWN", most)
    y = np.repeat(np.arange(5), [2, 10, 20, 40, 80])
    rows = rows_of_drawn_pairs(y, n_classes=5, rng=np.random.default_rng(0))
    anchor, hit, *_ = rows.hits.pairs()
    assert (anchor != hit).all()
    np.testing.assert_array_equal(y[anchor], y[hit])
    of_row = anchor[rows.hit]
    anchor, miss, *_ = rows.misses.pairs()
    np.testing.assert_array_equal(anchor[rows.miss], of_row)
    assert (y[anchor] != y[miss]).all()
    assert len(rows) <= min(most, 10 * len(y))
    if most > 50:
        of_the_largest = y[miss[rows.miss]][y[of_row] == 4]
        np.testing.assert_allclose(np.bincount(of_the_largest, minlength=4) / len(of_the_largest), 0.25, atol=0.05)


def test_classes_of_one_sample_have_no_drawn_pairs():
    assert not len(rows_of_drawn_pairs(np.arange(4), n_classes=4, rng=np.random.default_rng(0)))
