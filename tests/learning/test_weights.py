"""Optimal weights: the certificate, independent solvers, and every loss under every penalty and margin."""

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from cbid.learning.losses import LOSSES, make_loss
from cbid.learning.margins import MARGINS
from cbid.learning.penalties import make_penalty
from cbid.learning.weights import Problem, fit_weights

from .problems import blobs, columns_with_bits, make_rows

PENALTIES = ["l1", "linf", 1.1, 2, 10]


def problem_of(loss="logistic", penalty="l1", margin="shared", nu=0.02, t=6, hits="nearest"):
    X, y = blobs(n=60, seed=1)
    rng = np.random.default_rng(2)
    # Bits that say something of the classes: hyperplanes through the data.
    planes = rng.standard_normal((t, 3)).astype(np.float32)
    H = np.where(X.mean(axis=0) @ planes.T <= X @ planes.T, 1, -1).astype(np.float32).T
    columns = columns_with_bits(make_rows(X, y, hits=hits), margin, H)
    return Problem(columns, make_loss(loss), make_penalty(penalty), nu)


def fit(problem, tol=1e-4):
    return fit_weights(problem, np.zeros(problem.shape), tol=tol)


def primal(problem, W):
    rho = problem.columns.margins(W, precise=True)
    return np.mean(problem.loss.value(rho)) + problem.nu * problem.norm.value(W)


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_combination_is_certified(loss, penalty, margin):
    problem = problem_of(loss, penalty, margin)
    found = fit(problem)
    assert 0 <= found.gap <= 1e-4 * found.objective
    assert (found.W >= 0).all()
    assert found.objective == pytest.approx(primal(problem, found.W), rel=1e-6)
    # The same certificate made by hand, in float64, from the matrix itself and the dual variables returned.
    C, u = problem.columns.dense(), found.u.astype(np.float64)
    size = problem.norm.dual(C.T @ u / len(C))
    bound = -np.mean(problem.loss.conjugate(u * min(1, problem.nu / size)))
    assert bound <= found.objective * (1 + 1e-9)
    assert found.objective - bound <= 1e-3 * found.objective


@pytest.mark.parametrize("nu", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_certificate_holds_over_a_range_of_nu(penalty, nu):
    found = fit(problem_of(penalty=penalty, nu=nu, t=12))
    assert 0 <= found.gap <= 1e-4 * found.objective


@pytest.mark.parametrize("margin", ["shared", "paper"])
@pytest.mark.parametrize("penalty", ["l1", "linf", 2])
@pytest.mark.parametrize("loss", ["logistic", "exponential", "squared_hinge"])
def test_weights_equal_a_general_solver(loss, penalty, margin):
    """SLSQP on the epigraph form, from a different start, in float64 throughout."""
    problem = problem_of(loss, penalty, margin, t=4)
    found = fit(problem, tol=1e-6)
    C, size = problem.columns.dense(), int(np.prod(problem.shape))

    def objective(x):
        return np.mean(problem.loss.value(C @ x[:size])) + problem.nu * x[size]

    def slope(x):
        return np.append(C.T @ problem.loss.derivative(C @ x[:size]) / len(C), problem.nu)

    if penalty == "l1":
        within = [LinearConstraint(np.append(-np.ones(size), 1.0), 0)]
    elif penalty == "linf":
        within = [LinearConstraint(np.hstack([-np.eye(size), np.ones((size, 1))]), 0)]
    else:
        within = [{"type": "ineq", "fun": lambda x: x[size] ** 2 - x[:size] @ x[:size]}]
    start = np.append(np.full(size, 0.3), 0.3 * size)
    result = minimize(
        objective, start, jac=slope, method="SLSQP", bounds=[(0, None)] * (size + 1), constraints=within,
        options={"maxiter": 1000, "ftol": 1e-12},
    )  # fmt: skip
    other = primal(problem, result.x[:size].reshape(problem.shape))
    assert found.objective == pytest.approx(other, rel=1e-4)
    assert found.objective - found.gap <= other * (1 + 1e-9)  # no weights whatever lie below the bound


def test_a_weight_that_only_costs_is_zero():
    """A large nu: W = 0 is optimal, and the certificate closes there."""
    problem = problem_of(nu=10.0)
    found = fit(problem)
    assert (found.W == 0).all()
    assert found.objective == pytest.approx(np.log(2))
    assert found.gap == pytest.approx(0, abs=1e-6)


def test_a_start_worse_than_zero_does_not_trap_the_bound():
    problem = problem_of(penalty="linf", margin="paper", nu=0.05)
    found = fit_weights(problem, np.full(problem.shape, 50.0), tol=1e-4)
    assert found.gap <= 1e-4 * found.objective
    assert found.objective <= fit(problem).objective * (1 + 2e-4)


def test_duals_of_the_linear_program_are_feasible():
    problem = problem_of("hinge", "l1", nu=0.01)
    found = fit(problem)
    assert (found.u >= 0).all()
    assert (found.u <= 1).all()
    assert problem.columns.correlations(found.u, precise=True).max() <= 0.01 * (1 + 1e-6)


def test_whole_class_sides_are_certified_too():
    for penalty in PENALTIES:
        found = fit(problem_of(penalty=penalty, hits="whole"))
        assert 0 <= found.gap <= 1e-4 * found.objective


def test_a_loss_of_ones_own():
    class Quartic:
        """max(0, 1 - rho)^4; L*(-u) = (3/4) u (u/4)^(1/3) - u."""

        def value(self, rho):
            return np.maximum(0, 1 - rho) ** 4

        def derivative(self, rho):
            return -4 * np.maximum(0, 1 - rho) ** 3

        def conjugate(self, u):
            return np.where(u >= 0, 0.75 * u * np.cbrt(u / 4) - u, np.inf)

    found = fit(problem_of(Quartic(), "linf"))
    assert 0 <= found.gap <= 1e-4 * found.objective
