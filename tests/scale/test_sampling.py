"""Stratified samples: shares, floors, and that chunks do not matter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbid.scale.sampling import LEAST, Reservoir, chunks_of, quotas, stratified


@given(st.lists(st.integers(0, 500), min_size=1, max_size=20), st.integers(200, 2000))
def test_quotas_are_shares_above_a_floor(sizes, most):
    sizes = np.array(sizes)
    taken = quotas(sizes, most)
    assert taken.sum() == min(most, sizes.sum())
    assert (taken <= sizes).all()
    assert (taken >= np.minimum(sizes, LEAST)).all()
    if most < sizes.sum():
        above = sizes - np.minimum(sizes, LEAST)
        share = (most - np.minimum(sizes, LEAST).sum()) / above.sum()
        assert (np.abs(taken - np.minimum(sizes, LEAST) - share * above) <= 1).all()


def test_too_few_rows_for_the_classes():
    with pytest.raises(ValueError, match="a sample of 15 rows is too small for 2 classes: it takes 20"):
        quotas(np.array([100, 100]), 15)


def test_a_stratified_sample():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2, -1], [900, 90, 10, 50])[rng.permutation(1050)]
    rows = stratified(labels, 1050, 100, np.random.default_rng(1))
    assert np.bincount(labels[rows]).tolist() == [74, 16, 10]
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, stratified(labels, 1050, 100, np.random.default_rng(1)))
    assert len(stratified(None, 1050, 100, rng)) == 100


def passed(X, y, cuts, capacity):
    reservoir = Reservoir(capacity, X.shape[1], X.dtype, np.random.default_rng(3))
    for start, stop in zip([0, *cuts], [*cuts, len(X)]):
        reservoir.add(X[start:stop], None if y is None else y[start:stop])
    return reservoir.sample()


@given(st.lists(st.integers(1, 399), max_size=5), st.integers(40, 450))
def test_a_reservoir_holds_the_smallest_keys_whatever_the_chunks(cuts, capacity):
    """Sorted by class, as files often are; the rarest class has 12 members and keeps at least LEAST."""
    y = np.repeat(["a", "bb", "c"], [300, 88, 12])
    X = np.arange(400.0)[:, None]
    values, rows, labels = passed(X, y, sorted(cuts), capacity)
    np.testing.assert_array_equal(values[:, 0], rows)
    np.testing.assert_array_equal(labels, y[rows])
    assert len(rows) == min(capacity, 400)
    keys = np.random.default_rng(3).random(400)
    first = np.concatenate([np.flatnonzero(y == c)[np.argsort(keys[y == c])[:LEAST]] for c in ("a", "bb", "c")])
    rest = np.setdiff1d(np.argsort(keys), first, assume_unique=False)
    expected = np.concatenate([first, rest[np.argsort(keys[rest])]])[:capacity]
    if capacity >= len(first):
        np.testing.assert_array_equal(rows, np.sort(expected))


def test_chunks_must_be_alike():
    X = np.zeros((3, 2))
    assert [(a.shape, b) for a, b in chunks_of([X, X])] == [((3, 2), None)] * 2
    for second, message in (
        (np.zeros((3, 4)), "chunk 1 has vectors of 4 values without labels; the first chunk has 2"),
        ((X, np.zeros(3)), "chunk 1 has vectors of 2 values with labels"),
        ((X, np.zeros(2)), r"chunk 1 has 3 vectors and labels of shape \(2,\)"),
        (np.zeros(3), r"chunk 1 has shape \(3,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            list(chunks_of([X, second]))
