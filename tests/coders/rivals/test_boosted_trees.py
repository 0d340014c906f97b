"""Trees against scikit-learn's, and their evaluation against a walk by hand."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from cbid.coders.rivals.fasthash import Trees, boost, fit_bins, grow, sum_of_trees


def data(n=120, d=4, seed=0, values=30):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, values, (n, d)).astype(np.float32)
    z = np.where(X[:, 0] * 2 + X[:, 1] - X[:, 2] + 8 * rng.standard_normal(n) > 0.66 * values, 1, -1).astype(np.int8)
    return X, z, rng.uniform(0.5, 1.5, n)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_tree_is_that_of_scikit_learn(depth):
    """Few values, so that bins are exact; random weights, so that no two tests are equally good."""
    for seed in range(5):
        X, z, w = data(seed=seed)
        bins = fit_bins(X)
        everything = np.tile(np.arange(4), (2**depth - 1, 1))
        features, cuts, leaves = grow(bins.indices, z, w, np.arange(120), everything, depth)
        thresholds = np.where(cuts < 255, bins.edges[features, np.minimum(cuts, 254)], np.finfo(np.float32).max)
        ours = sum_of_trees(X, features[None], thresholds[None], leaves[None], np.ones(1, np.float32))
        theirs = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, z, sample_weight=w)
        np.testing.assert_array_equal(ours, theirs.predict(X))
        unseen = data(seed=seed + 100)[0]
        evaluated = sum_of_trees(unseen, features[None], thresholds[None], leaves[None], np.ones(1, np.float32))
        assert np.mean(evaluated == theirs.predict(unseen)) > 0.95  # thresholds may differ between the same values


def test_evaluation_is_a_walk_down_each_tree():
    rng = np.random.default_rng(1)
    m, depth = 6, 3
    trees = Trees(
        rng.integers(0, 4, (m, 7)).astype(np.int32),
        rng.standard_normal((m, 7)).astype(np.float32),
        np.where(rng.standard_normal((m, 8)) > 0, 1, -1).astype(np.int8),
        rng.uniform(0, 1, m).astype(np.float32),
    )
    X = rng.standard_normal((20, 4)).astype(np.float32)
    expected = np.zeros(20)
    for i, x in enumerate(X):
        for tree in range(m):
            node = 0
            for _ in range(depth):
                node = 2 * node + (1 if x[trees.features[tree, node]] <= trees.thresholds[tree, node] else 2)
            expected[i] += trees.weights[tree] * trees.leaves[tree, node - 7]
    np.testing.assert_allclose(trees(X), expected, rtol=1e-5)


def test_bins_keep_the_order_and_edges_tell_them_apart():
    X = np.random.default_rng(2).standard_normal((1000, 2)).astype(np.float32)
    X[:, 1] = np.nextafter(np.float32(1), np.float32(2)) * (X[:, 1] > 0) + (X[:, 1] <= 0)  # neighbours in float32
    bins = fit_bins(X)
    for j in range(2):
        for b in (0, 1, 100, 254):
            np.testing.assert_array_equal(bins.indices[:, j] <= b, X[:, j] <= bins.edges[j, b])
    counts = np.bincount(bins.indices[:, 0])
    assert len(counts) == 256
    assert 1 <= counts.min() <= counts.max() <= 2.5 * 1000 / 256
    assert set(bins.indices[:, 1]) == {0, 1}


def test_boosting_learns_what_one_tree_cannot():
    """The parity of two coordinates and a tilted line: errors fall as trees come."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (400, 3)).astype(np.float32)
    z = np.where(X[:, 0] * X[:, 1] + 0.1 * X[:, 2] > 0, 1.0, -1.0)
    bins = fit_bins(X)

    def errors(n_trees):
        trees = boost(X, bins, z, n_trees=n_trees, depth=2, n_features=3, trim=0.99, rng=np.random.default_rng(0))
        return np.mean(np.where(trees(X) >= 0, 1, -1) != z)

    assert errors(60) < 0.05 < errors(1)


def test_sides_that_nothing_separates_get_the_larger_one():
    X = np.zeros((10, 2), np.float32)
    for z in (np.array([1.0] * 4 + [-1.0] * 6), -np.ones(10)):
        trees = boost(X, fit_bins(X), z, n_trees=3, depth=2, n_features=2, trim=0.9, rng=np.random.default_rng(0))
        assert (trees(X) < 0).all()
    even = boost(
        X,
        fit_bins(X),
        np.sign(np.arange(10) - 4.5),
        n_trees=3,
        depth=2,
        n_features=1,
        trim=0.9,
        rng=np.random.default_rng(0),
    )
    assert (even(X) > 0).all()


def test_a_perfect_tree_ends_boosting():
    X = np.arange(8, dtype=np.float32)[:, None]
    z = np.where(X[:, 0] < 4, -1.0, 1.0)
    trees = boost(X, fit_bins(X), z, n_trees=5, depth=1, n_features=1, trim=0.9, rng=np.random.default_rng(0))
    assert (trees.weights > 0).sum() == 1
    np.testing.assert_array_equal(np.sign(trees(X)), z)
