"""Optimal weights: the certificate, independent solvers, and every loss under every penalty and margin."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from cbid.learning import weights
from cbid.learning.likeness import likeness_rows
from cbid.learning.losses import LOSSES, make_loss
from cbid.learning.margins import MARGINS
from cbid.learning.penalties import KindNorm, make_penalty
from cbid.learning.weights import Part, Problem, fit_weights

from .problems import blobs, columns_with_bits, make_rows

PENALTIES = ["l1", "linf", 1.1, 2, 10]


def problem_of(loss="logistic", penalty="l1", margin="shared", nu=0.02, t=6, hits="nearest"):
    X, y = blobs(n=60, seed=1)
    rng = np.random.default_rng(2)
    # Bits that say something of the classes: hyperplanes through the data.
    planes = rng.standard_normal((t, 3)).astype(np.float32)
    H = np.where(X.mean(axis=0) @ planes.T <= X @ planes.T, 1, -1).astype(np.float32).T
    columns = columns_with_bits(make_rows(X, y, hits=hits), margin, H)
    return Problem([Part(columns)], make_loss(loss), make_penalty(penalty), nu)


def mixed_problem(loss="logistic", penalty="linf", nu=0.02, t=5):
    """Class rows beside rows of likeness, which have required margins, a share, a scale and a penalty."""
    X, y = blobs(n=60, seed=1)
    planes = np.random.default_rng(2).standard_normal((t, 3)).astype(np.float32)
    H = np.where(X.mean(axis=0) @ planes.T <= X @ planes.T, 1, -1).astype(np.float32).T
    rows, far = likeness_rows(X, np.random.default_rng(3))
    parts = [
        Part(columns_with_bits(make_rows(X, y, hits="whole"), "shared", H), share=0.7),
        Part(columns_with_bits(rows, "shared", H), share=0.3, scale=2.0, required=3 * far, nu_per_bit=0.01),
    ]
    norm = KindNorm(np.arange(t) % 2 == 1) if penalty == "kinds" else make_penalty(penalty)
    return Problem(parts, make_loss(loss), norm, nu)


def matrices(problem):
    """C (R, size), c (R,) and m (R,) of all rows."""
    C = np.vstack([part.scale * part.columns.dense() for part in problem.parts])
    sizes = [len(part.columns.rows) for part in problem.parts]
    c = np.concatenate([np.full(n, part.share / n) for part, n in zip(problem.parts, sizes)])
    m = np.concatenate([np.zeros(n) if p.required is None else p.required for p, n in zip(problem.parts, sizes)])
    return C, c, m


def fit(problem, tol=1e-4):
    return fit_weights(problem, np.zeros(problem.shape), tol=tol)


def primal(problem, W):
    C, c, m = matrices(problem)
    return c @ problem.loss.value(C @ W.ravel() - m) + problem.nu * problem.norm.value(W)


def check_certificate(problem, found, tol=1e-4):
    assert 0 <= found.gap <= tol * found.objective
    assert (found.W >= 0).all()
    assert found.objective == pytest.approx(primal(problem, found.W), rel=1e-6)
    # The same certificate by hand, in float64, from the matrix itself and the dual variables returned.
    C, c, m = matrices(problem)
    u = np.concatenate(found.u).astype(np.float64)
    scaled = u * min(1, problem.nu / problem.norm.dual(C.T @ (c * u)))
    bound = -c @ (problem.loss.conjugate(scaled) - scaled * m)
    assert bound <= found.objective * (1 + 1e-9)
    assert found.objective - bound <= 10 * tol * found.objective


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_combination_is_certified(loss, penalty, margin):
    problem = problem_of(loss, penalty, margin)
    check_certificate(problem, fit(problem))


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_two_kinds_of_rows_with_required_margins_are_certified(loss, penalty):
    problem = mixed_problem(loss, penalty)
    check_certificate(problem, fit(problem))


@pytest.mark.parametrize("nu", [0.3, 0.02, 1e-4])
@pytest.mark.parametrize("loss", ["logistic", "exponential", "squared_hinge"])
def test_two_levels_of_weights_are_certified(loss, nu):
    problem = mixed_problem(loss, "kinds", nu)
    check_certificate(problem, fit(problem))


@pytest.mark.parametrize("nu", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_certificate_holds_over_a_range_of_nu(penalty, nu):
    found = fit(problem_of(penalty=penalty, nu=nu, t=12))
    assert 0 <= found.gap <= 1e-4 * found.objective


@pytest.mark.parametrize("margin", ["shared", "paper", "mixed"])
@pytest.mark.parametrize("penalty", ["l1", "linf", 2])
@pytest.mark.parametrize("loss", ["logistic", "exponential", "squared_hinge"])
def test_weights_equal_a_general_solver(loss, penalty, margin):
    """SLSQP on the epigraph form, from a different start, in float64 throughout."""
    problem = mixed_problem(loss, penalty, t=4) if margin == "mixed" else problem_of(loss, penalty, margin, t=4)
    found = fit(problem, tol=1e-6)
    (C, c, m), size = matrices(problem), int(np.prod(problem.shape))

    def objective(x):
        return c @ problem.loss.value(C @ x[:size] - m) + problem.nu * x[size]

    def slope(x):
        return np.append(C.T @ (c * problem.loss.derivative(C @ x[:size] - m)), problem.nu)

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


@pytest.mark.parametrize("nu", [0.02, 1e-3, 1e-5])
@pytest.mark.parametrize("margin", ["class", "paper"])
@pytest.mark.parametrize("loss", ["logistic", "exponential", "squared_hinge"])
def test_newtons_method_and_first_order_steps_agree(loss, margin, nu, monkeypatch):
    """The same optimum, certified by both; Newton's method in a fraction of the evaluations when nu is small."""
    counts = []
    evaluate = weights._Certificate.evaluate
    monkeypatch.setattr(
        weights._Certificate, "evaluate", lambda self, W: counts.append(1) or evaluate(self, W)
    )  # fmt: skip
    problem = problem_of(loss, "l1", margin, nu, t=10)
    assert weights._suits_newton(problem)
    found = fit(problem)
    by_newton = len(counts)
    check_certificate(problem, found)
    monkeypatch.setattr(weights, "_MOST_FOR_NEWTON", 0)
    other = fit(problem)
    assert found.objective == pytest.approx(other.objective, rel=2e-4)
    if nu <= 1e-3:
        assert by_newton < (len(counts) - by_newton) / 2


@pytest.mark.parametrize("loss", ["logistic", "exponential", "squared_hinge"])
@pytest.mark.parametrize("make", [lambda loss: problem_of(loss, "linf"), lambda loss: mixed_problem(loss, "kinds")])
def test_even_weights_are_the_best_of_their_kind(make, loss):
    """The optimum over one value for each bound, against a general solver; its certificate is never too good."""
    problem = make(loss)
    trace = weights._even(problem, np.zeros(problem.shape), 1e-3)
    rows = problem.norm.groups(problem.shape[0]) if isinstance(problem.norm, KindNorm) else [np.arange(6)]

    def value(v):
        W = np.zeros(problem.shape)
        for of_bound, level in zip(rows, v):
            W[of_bound] = level
        return primal(problem, W)

    best = minimize(value, np.full(len(rows), 0.1), method="Nelder-Mead", bounds=[(1e-9, None)] * len(rows)).fun
    assert trace.objective == pytest.approx(best, rel=1e-3)
    assert trace.objective == pytest.approx(primal(problem, trace.W), rel=1e-9)
    assert trace.bound <= fit(problem).objective * (1 + 1e-9)


def test_two_levels_of_weights_equal_a_general_solver():
    """SLSQP over the weights and the two bounds, in float64 throughout."""
    problem = mixed_problem("logistic", "kinds", t=4)
    found = fit(problem, tol=1e-6)
    (C, c, m), size = matrices(problem), 4

    def objective(x):
        return c @ problem.loss.value(C @ x[:size] - m) + problem.nu * np.sqrt(x[size:] @ x[size:] / 2)

    below = np.zeros((size, 2))
    below[np.arange(size), np.arange(size) % 2] = 1
    result = minimize(
        objective, np.full(size + 2, 0.3), method="SLSQP", bounds=[(0, None)] * (size + 2),
        constraints=[LinearConstraint(np.hstack([-np.eye(size), below]), 0)],
        options={"maxiter": 1000, "ftol": 1e-13},
    )  # fmt: skip
    other = primal(problem, result.x[:size].reshape(problem.shape))
    assert found.objective == pytest.approx(other, rel=1e-4)
    assert found.objective - found.gap <= other * (1 + 1e-9)


@pytest.mark.parametrize("hits", ["nearest", "whole"])
@pytest.mark.parametrize(("margin", "penalty"), [("shared", "linf"), ("class", "l1"), ("paper", 2)])
def test_threads_change_nothing(margin, penalty, hits, monkeypatch):
    """The same weights to the last bit, with blocks so small that every sum has several."""
    for name in ("weights._ROWS_IN_BLOCK", "margins._ROWS_IN_BLOCK", "margins._FEW_ROWS", "sides._BLOCK"):
        monkeypatch.setattr(f"cbid.learning.{name}", 16)
    problem = problem_of(margin=margin, penalty=penalty, hits=hits)
    one, three = (fit(replace(problem, n_threads=n)) for n in (1, 3))
    np.testing.assert_array_equal(one.W, three.W)
    assert (one.objective, one.gap) == (three.objective, three.gap)
    check_certificate(problem, three)


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


def test_a_start_that_is_better_than_zero_by_rounding_alone_is_left(monkeypatch):
    problem = problem_of(penalty="linf", margin="paper", nu=0.02)
    monkeypatch.setattr(Problem, "loss_at_zero", lambda self: np.log(2) * (1 + 1e-8))
    start = np.full(problem.shape, 1e-9)
    assert weights._off_zero(problem, start, weights._Certificate(problem, 1e-4)).max() > 1e-3


def test_duals_of_the_linear_program_are_feasible():
    problem = problem_of("hinge", "l1", nu=0.01)
    found = fit(problem)
    (u,) = found.u
    assert (u >= 0).all()
    assert (u <= 1).all()
    assert problem.correlations(found.u, precise=True).max() <= 0.01 * (1 + 1e-6)


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
