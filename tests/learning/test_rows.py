"""Rows over whole classes: which there are, and which are drawn."""

import numpy as np
import pytest

from cbid.learning import rows as rows_module
from cbid.learning.rows import rows_from_classes


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
