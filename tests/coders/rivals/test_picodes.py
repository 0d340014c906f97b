"""PiCoDes: the worth of a bit by hand, and an objective that never rises."""

import numpy as np

from cbid.coders import PiCoDes
from cbid.coders.rivals.linear_scores import gain_of_bit, losses, objective, random_half
from tests.coders.blobs import blobs


def test_the_worth_of_a_bit_is_the_difference_of_the_objectives():
    rng = np.random.default_rng(0)
    H = (rng.standard_normal((10, 4)) > 0).astype(float)
    W, b = rng.standard_normal((4, 3)), rng.standard_normal(3)
    targets = np.where(np.arange(10)[:, None] % 3 == np.arange(3), 1.0, -1.0)
    without, with_it = H.copy(), H.copy()
    without[:, 1], with_it[:, 1] = 0, 1
    expected = objective(without, W, b, targets, 1.0) - objective(with_it, W, b, targets, 1.0)
    assert np.isclose(gain_of_bit(without @ W + b, W[1], targets).sum(), expected)


def test_squared_hinge():
    np.testing.assert_allclose(losses(np.array([[2.0, 0.5, -1.0]]), np.array([[1.0, 1.0, 1.0]])), [[0, 0.25, 4]])


def test_the_objective_never_rises_and_falls():
    X, y = blobs(n=200, d=8, k=6, apart=1.0)
    trace = PiCoDes(n_bits=10, n_iter=6).fit(X, y).objective_
    assert (np.diff(trace) <= 1e-4 * trace[0]).all()
    assert trace[-1] < 0.9 * trace[0]


def test_the_start_separates_half_of_the_classes():
    rng = np.random.default_rng(0)
    for k in (2, 5, 8):
        assert abs(random_half(k, rng).sum()) == k % 2
