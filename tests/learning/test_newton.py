"""Newton's method over x >= 0: quadratics with known minima, and another solver's answer."""

import numpy as np
import pytest
from scipy.optimize import nnls

from cbid.learning.weights import newton


def minimum(objective, curvature, x, max_iter=50, tol=1e-12):
    """The point found, and the number of evaluations; stops when the projected gradient is below ``tol``."""
    seen = []

    def counted(x):
        value, gradient = objective(x)
        seen.append((value, x, gradient))
        return value, gradient

    def best():
        return min(seen, key=lambda point: point[0])

    def done():
        _, x, gradient = best()
        return np.abs(np.where(x > 0, gradient, np.minimum(gradient, 0))).max() <= tol

    found = newton(counted, lambda: curvature(best()[1]), x, max_iter=max_iter, done=done)
    return found, len(seen)


def test_a_quadratic_takes_one_step():
    """(x - 1)^2 + (y - 2)^2 has its minimum inside; the damping leaves a relative error of 1e-9."""
    centre = np.array([1.0, 2.0])
    found, evaluations = minimum(
        lambda x: (float(np.sum((x - centre) ** 2)), 2 * (x - centre)), lambda x: 2 * np.eye(2), np.zeros(2), tol=1e-7
    )
    np.testing.assert_allclose(found, centre, rtol=1e-8)
    assert evaluations == 2


def test_a_variable_that_would_be_negative_is_held_at_zero():
    """x'Ax / 2 - b.x with A = [[2, 1], [1, 2]], b = (1, -1): without bounds (1, -1); over x >= 0 it is (1/2, 0)."""
    A, b = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1.0, -1.0])
    for start in (np.zeros(2), np.array([3.0, 3.0])):
        found, _ = minimum(lambda x: (float(x @ A @ x / 2 - b @ x), A @ x - b), lambda x: A, start)
        np.testing.assert_allclose(found, [0.5, 0], atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_least_squares_equal_nnls(seed):
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((40, 12)), rng.standard_normal(40)
    found, _ = minimum(
        lambda x: (float(np.sum((A @ x - b) ** 2)) / 2, A.T @ (A @ x - b)), lambda x: A.T @ A, np.ones(12), tol=1e-9
    )
    np.testing.assert_allclose(found, nnls(A, b)[0], atol=1e-7)


def test_a_flat_direction_does_no_harm():
    """(x + y - 1)^2 + 0.1 x: the Hessian is singular, and the cheaper variable takes it all."""

    def objective(x):
        excess = x.sum() - 1
        return float(excess**2 + 0.1 * x[0]), 2 * excess + np.array([0.1, 0.0])

    found, _ = minimum(objective, lambda x: np.full((2, 2), 2.0), np.array([0.7, 0.2]), tol=1e-7)
    np.testing.assert_allclose(found, [0, 1], atol=1e-6)


def test_a_step_too_long_is_shortened():
    """sqrt(1 + x^2) far from its minimum at zero: the full step would go to -x^3."""
    found, _ = minimum(
        lambda x: (float(np.sqrt(1 + (x[0] - 9) ** 2)), (x - 9) / np.sqrt(1 + (x[0] - 9) ** 2)),
        lambda x: np.array([[(1 + (x[0] - 9) ** 2) ** -1.5]]),
        np.array([30.0]),
        tol=1e-9,
    )
    assert found[0] == pytest.approx(9, abs=1e-8)


def test_it_ends_after_the_steps_allowed():
    _, evaluations = minimum(
        lambda x: (float(np.sum((x - 3) ** 4)), 4 * (x - 3) ** 3),
        lambda x: np.diag(12 * (x - 3) ** 2),
        np.zeros(1),
        max_iter=3,
    )
    assert evaluations <= 4
