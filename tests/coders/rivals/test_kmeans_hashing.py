"""K-means hashing: its codes, and the k-means with cube-like centres below them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from cbid.coders import KMeansHashing
from cbid.coders.rivals import kmeans_hashing as module
from cbid.coders.rivals.kmeans_hashing import affinity_kmeans, corner_bits, deal_axes, move_centres


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.standard_normal((500, 12)) * np.linspace(3, 1, 12)


def test_bits_are_numbers_of_nearest_centres(X):
    """10 bits in subspaces of 4, 4 and 2."""
    coder = KMeansHashing(n_bits=10).fit(X)
    Z = (X - coder.mean_) @ coder.axes_.T
    expected, first = [], 0
    for m, b in enumerate([4, 4, 2]):
        part = Z[:, coder.subspace_ == m]
        centres = coder.centres_[first : first + 2**b, : part.shape[1]]
        number = np.linalg.norm(part[:, None] - centres, axis=2).argmin(axis=1)
        expected += [number >> s & 1 for s in range(b - 1, -1, -1)]
        first += 2**b
    np.testing.assert_array_equal(coder.transform(X), 2 * np.array(expected).T - 1)
    assert first == len(coder.centres_) == 36


def test_clusters_at_the_corners_of_a_cube_get_the_corners_codes():
    """Eight clusters at corners of a cube in 3 of 5 dimensions: codes of two clusters differ as their corners do."""
    rng = np.random.default_rng(0)
    corners = np.array(list(itertools.product([-1, 1], repeat=3)))
    X = np.zeros((400, 5))
    X[:, :3] = np.tile(corners, (50, 1)) * [4, 4.2, 4.4]
    X += 0.1 * rng.standard_normal(X.shape)
    bits = KMeansHashing(n_bits=3).fit(X).transform(X)
    np.testing.assert_array_equal(bits, np.tile(bits[:8], (50, 1)))
    np.testing.assert_array_equal((bits[:8, None] != bits[:8]).sum(axis=2), (corners[:, None] != corners).sum(axis=2))


@settings(deadline=None)
@given(st.lists(st.floats(1e-3, 1e3), min_size=8, max_size=40), st.sampled_from([[4, 4], [4, 4, 0], [3, 3, 2], [8]]))
def test_axes_are_all_dealt_and_no_subspace_is_too_small(variances, shares):
    shares = [b for b in shares if b]
    dealt = deal_axes(np.sort(variances)[::-1], shares)
    sizes = np.bincount(dealt, minlength=len(shares))
    assert sizes.sum() == len(variances)
    assert (sizes >= shares).all()
    assert np.abs(sizes / shares - len(variances) / sum(shares)).max() <= 1


def test_subspaces_are_balanced():
    """Variances 16, 8, 4, 2: of all ways to make pairs only 16 with 2 and 8 with 4 have the same product, 32."""
    np.testing.assert_array_equal(deal_axes(np.array([16.0, 8.0, 4.0, 2.0]), [2, 2]), [0, 1, 1, 0])


def test_limits_and_settings(X):
    with pytest.raises(ValueError, match=r"n_bits=13\b.*\b12\b"):
        KMeansHashing(n_bits=13).fit(X)
    for params, message in (({"bits_per_subspace": 9}, "bits_per_subspace=9"), ({"lam": -1}, "lam=-1")):
        with pytest.raises(ValueError, match=message):
            KMeansHashing(n_bits=2, **params).fit(X)


@pytest.fixture
def Z():
    return np.random.default_rng(0).standard_normal((400, 5)) * [3, 2.5, 2, 1, 0.5]


def objective(Z, centres, scale, lam):
    """Return E with every sample assigned to its nearest centre."""
    nearest = module._nearest(Z, centres)
    p = np.bincount(nearest, minlength=len(centres)) / len(Z)
    bits = corner_bits(int(np.log2(len(centres))))
    wanted = scale * np.sqrt(cdist(bits, bits, "cityblock"))
    affinity = np.sum(np.outer(p, p) * (cdist(centres, centres) - wanted) ** 2)
    return float(np.mean(np.sum((Z - centres[nearest]) ** 2, axis=1)) + lam * affinity)


def test_corner_bits():
    np.testing.assert_array_equal(corner_bits(2), [[0, 0], [0, 1], [1, 0], [1, 1]])


def test_it_starts_from_the_cube_whose_signs_fit_best(Z):
    """For corners at +-half, sum over (|z| - half)^2 is least at the mean of |z|; edges are 2 half long."""
    centres, scale = affinity_kmeans(Z, 3, lam=10.0, n_iter=0)
    half = np.abs(Z[:, :3]).mean()
    np.testing.assert_allclose(np.abs(centres[:, :3]), half)
    np.testing.assert_allclose(cdist(centres, centres), scale * np.sqrt(cdist(corner_bits(3), corner_bits(3)) ** 2))
    assert scale == pytest.approx(2 * half)
    # Of a cube the affinities are exact.
    assert objective(Z, centres, scale, 10.0) == pytest.approx(objective(Z, centres, scale, 0.0))


def test_rounds_lower_the_objective(Z):
    values = [objective(Z, *affinity_kmeans(Z, 3, lam=10.0, n_iter=n), 10.0) for n in range(8)]
    assert (np.diff(values) < 1e-3).all()  # but for the shares of samples, which a round takes as they are
    assert values[-1] < 0.97 * values[0]


def problem(lam):
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(8))
    centres, means = rng.standard_normal((2, 8, 3))
    bits = corner_bits(3)
    wanted = 1.5 * np.sqrt(cdist(bits, bits, "cityblock"))

    def value(flat):
        C = flat.reshape(8, 3)
        fit = np.sum(p * np.sum((C - means) ** 2, axis=1))
        return fit + lam * np.sum(np.outer(p, p) * (cdist(C, C) - wanted) ** 2)

    return centres, means, p, wanted, value


def test_every_step_of_the_centres_lowers_the_sum(monkeypatch):
    centres, means, p, wanted, value = problem(lam=10.0)
    monkeypatch.setattr(module, "_STEPS", 1)
    for _ in range(50):
        moved = move_centres(centres, means, p, wanted, lam=10.0)
        assert value(moved.ravel()) <= value(centres.ravel()) + 1e-12
        centres = moved


def test_the_steps_end_where_a_general_optimiser_finds_no_descent(monkeypatch):
    centres, means, p, wanted, value = problem(lam=2.0)
    monkeypatch.setattr(module, "_STEPS", 5_000)
    moved = move_centres(centres, means, p, wanted, lam=2.0)
    refined = minimize(value, moved.ravel(), method="L-BFGS-B")
    assert refined.fun == pytest.approx(value(moved.ravel()), rel=1e-6)


def test_without_affinities_centres_are_means():
    centres, means, p, wanted, _ = problem(lam=0.0)
    np.testing.assert_allclose(move_centres(centres, means, p, wanted, lam=0.0), means)


def test_a_centre_without_samples_stays():
    """Two clusters on one axis of two: of four corners at most two or three are near any sample."""
    Z = np.zeros((40, 2))
    Z[:, 0] = np.repeat([-5.0, 5.0], 20)
    Z[:, 1] = 1e-3 * np.tile([-1.0, 1.0], 20)
    centres, _ = affinity_kmeans(Z, 2, lam=10.0, n_iter=10)
    assert np.isfinite(centres).all()
