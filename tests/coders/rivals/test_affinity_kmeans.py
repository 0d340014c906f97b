"""K-means with cube-like centres: the objective, and what its steps do to it."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from cbid.coders.rivals import affinity_kmeans as module
from cbid.coders.rivals.affinity_kmeans import affinity_kmeans, corner_bits, move_centres, objective


@pytest.fixture
def Z():
    return np.random.default_rng(0).standard_normal((400, 5)) * [3, 2.5, 2, 1, 0.5]


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
