"""Labels that spread to samples without one."""

import numpy as np
import pytest

from cbid import CBID
from cbid.learning.spreading import spread_labels


def arcs(n=120, seed=0):
    """Two half circles around each other: the nearest label is often of the wrong one, the path along it is not."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, np.pi, n)
    y = np.arange(n) % 2
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    X[y == 1] = [1, 0.5] - X[y == 1]
    return (X + rng.normal(0, 0.05, X.shape)).astype(np.float32), y


def blobs(n=200, k=4, d=16, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    return (3 * rng.standard_normal((k, d))[y] + rng.standard_normal((n, d))).astype(np.float32), y


def few(y, count):
    """Keep the first labels of each class."""
    kept = np.concatenate([np.flatnonzero(y == c)[:count] for c in np.unique(y)])
    out = np.full(len(y), -1, dtype=np.int64)
    out[kept] = y[kept]
    return out


def test_labels_reach_samples_of_their_group():
    X, y = blobs()
    given = few(y, 2)
    found = spread_labels(X, given, np.random.default_rng(0))
    np.testing.assert_array_equal(found[given >= 0], given[given >= 0])
    assert np.mean(found == y) > 0.95


def test_labels_that_do_not_follow_the_groups_are_not_spread():
    X, y = blobs()
    noise = np.random.default_rng(1).integers(0, 2, len(y))
    given = np.where(np.arange(len(y)) < 100, noise, -1)
    # Chance decides a single trial: over several the rule must say no in most.
    kept = [
        np.array_equal(spread_labels(X, np.roll(given, shift), np.random.default_rng(shift)), np.roll(given, shift))
        for shift in range(10)
    ]
    assert sum(kept) >= 3


@pytest.mark.parametrize("y", [np.zeros(5, dtype=np.int64), np.full(5, -1)])
def test_nothing_to_spread(y):
    X = np.random.default_rng(0).standard_normal((5, 3))
    assert spread_labels(X, y, np.random.default_rng(0)) is y


def test_one_label_of_each_class_and_very_few_samples():
    X, y = blobs(n=6, k=2)
    found = spread_labels(X, few(y, 1), np.random.default_rng(0))
    assert set(found) <= {-1, 0, 1}


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr("cbid.learning.spreading._MOST_SAMPLES", 30)
    X, y = blobs()
    given = few(y, 3)
    found = spread_labels(X, given, np.random.default_rng(0))
    assert (found >= 0).sum() == (given >= 0).sum() + 30


def test_a_coder_gains_from_spread_labels():
    X, y = blobs(n=400, k=8, d=32, seed=3)
    given = few(y[:300], 2)
    right = {}
    for spread in (False, True):
        coder = CBID(n_bits=16, kernel="linear", spread_labels=spread, missing_label=-1).fit(X[:300], given)
        bits = coder.transform(X).astype(float)
        near = (bits[300:] @ bits[:300][given >= 0].T).argmax(axis=1)
        right[spread] = np.mean(given[given >= 0][near] == y[300:])
    assert right[True] >= right[False]


def test_arcs_need_the_graph():
    X, y = arcs()
    found = spread_labels(X, few(y, 5), np.random.default_rng(0))
    assert np.mean(found[found >= 0] == y[found >= 0]) > 0.8
