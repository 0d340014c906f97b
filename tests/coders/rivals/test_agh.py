"""Anchor-graph hashing against the graph as a dense matrix."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from cbid.coders import AnchorGraphHashing


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.standard_normal((120, 4)) + rng.choice([-1.5, 1.5], (120, 1))


def dense_graph(coder, X):
    """Z, and A = Z diag(1'Z)^-1 Z', from their definitions."""
    D = cdist(X, coder.anchors_)
    Z = np.zeros_like(D)
    for i, row in enumerate(D):
        near = np.argsort(row)[: coder.n_nearest]
        weights = np.exp(-(row[near] ** 2) / coder.sigma_**2)
        Z[i, near] = weights / weights.sum()
    return Z, Z / Z.sum(axis=0) @ Z.T


def test_bits_are_eigenvectors_of_the_graph(X):
    """A y = lambda y for every one, largest eigenvalues first, mean 0 and mean square 1: against numpy's eigh."""
    coder = AnchorGraphHashing(n_bits=6, n_layers=1, n_anchors=20, n_nearest=3).fit(X)
    _, A = dense_graph(coder, X)
    values, vectors = np.linalg.eigh(A)
    assert values[-1] == pytest.approx(1)  # of the constant
    Y = coder.project(X)
    np.testing.assert_allclose(Y.mean(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(Y.T @ Y / len(X), np.eye(6), atol=1e-8)
    np.testing.assert_allclose(A @ Y, Y * values[-2:-8:-1], atol=1e-8)
    np.testing.assert_allclose(np.abs(np.sum(Y * vectors[:, -2:-8:-1], axis=0)), np.sqrt(len(X)), rtol=1e-6)


def test_the_width_is_the_mean_distance_to_the_last_of_the_nearest(X):
    coder = AnchorGraphHashing(n_bits=2, n_anchors=20, n_nearest=3).fit(X)
    assert coder.sigma_ == pytest.approx(np.sort(cdist(X, coder.anchors_), axis=1)[:, 2].mean())


def test_second_cuts_are_balanced_and_smoothest(X):
    """f = y - b+ on one side, b- - y on the other, sums to 0; moving b- either way, with b+ to match, only raises
    f'(I - A)f."""
    coder = AnchorGraphHashing(n_bits=8, n_anchors=20, n_nearest=3).fit(X)
    _, A = dense_graph(coder, X)
    P = coder.project(X)
    for k, (above, below) in enumerate(coder.thresholds_):
        y, f = P[:, 2 * k], P[:, 2 * k + 1]
        assert f.sum() == pytest.approx(0, abs=1e-8)
        n_positive, n_negative = (y >= 0).sum(), (y < 0).sum()

        def energy(step, y=y, above=above, below=below, ratio=n_negative / n_positive):
            f = np.where(y >= 0, y - above - step * ratio, below + step - y)
            return f @ f - f @ A @ f

        assert energy(0) == pytest.approx(f @ f - f @ A @ f)
        assert energy(0) < min(energy(0.05), energy(-0.05))


def test_two_layers_take_two_bits_of_each_eigenvector(X):
    one = AnchorGraphHashing(n_bits=3, n_layers=1, n_anchors=20).fit(X)
    two = AnchorGraphHashing(n_bits=5, n_layers=2, n_anchors=20).fit(X)  # an odd number leaves out the last cut
    np.testing.assert_allclose(two.project(X)[:, ::2], one.project(X))
    assert two.transform(X).shape == (120, 5)


def test_components_without_a_common_anchor_are_separated():
    """Two far clusters: the first bit is the cluster, and the second cuts both in the middle."""
    X = np.random.default_rng(0).standard_normal((100, 2)) + np.repeat([[0, 0], [100, 0]], 50, axis=0)
    bits = AnchorGraphHashing(n_bits=2, n_anchors=20, n_nearest=2).fit(X).transform(X)
    assert np.abs(bits[:50, 0].sum()) == np.abs(bits[50:, 0].sum()) == 50
    assert bits[0, 0] != bits[50, 0]


def test_bits_of_a_part_on_its_own_do_not_depend_on_the_type():
    """Two parts far from each other: the first eigenvector has one value on each, whichever way it is computed, and
    the second bit is one bit on each side, not drawn by rounding. (Of more parts eigenvectors are not unique.)"""
    rng = np.random.default_rng(0)
    part = np.repeat([0, 1], [60, 140])
    X = rng.standard_normal((200, 5)) + 50.0 * part[:, None]
    coder = AnchorGraphHashing(n_bits=2, n_anchors=30).fit(X)
    bits, values = coder.transform(X), coder.project(X)[:, 0]
    np.testing.assert_array_equal(coder.transform(X.astype(np.float32)), bits)
    for side in (0, 1):
        assert len(np.unique(values[part == side].round(9))) == 1
        assert (bits[part == side, 1] == 1).all()
    assert bits[0, 0] != bits[-1, 0]


def test_the_limit_is_the_number_of_anchors(X):
    with pytest.raises(ValueError, match=r"n_bits=20\b.*\b19\b"):
        AnchorGraphHashing(n_bits=20, n_layers=1, n_anchors=20).fit(X)
    assert AnchorGraphHashing(n_bits=38, n_anchors=20).fit(X).n_bits_ == 38
    for params, message in (
        ({"n_layers": 3}, "n_layers=3"),
        ({"n_nearest": 0}, "n_nearest=0"),
        ({"sigma": 0}, "sigma=0"),
    ):
        with pytest.raises(ValueError, match=message):
            AnchorGraphHashing(**params).fit(X)
