"""The Hamming weights of the bits so far: totally corrective, to a certified gap (docs/method.md, sections 5, 7).

    P(W) = (1/R) sum_q L(rho_q) + nu ||W||,  W >= 0
    D(u) = -(1/R) sum_q L*(-u_q)             with  || max(0, G(u)) ||_dual <= nu

Any u scaled into the dual's feasible set bounds the optimum from below, so P - D certifies the weights whatever
solver found them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, linprog, minimize
from scipy.sparse import csr_matrix, eye_array, hstack, vstack

from cbid.learning.losses import Hinge, Loss, SmoothedHinge
from cbid.learning.margins import Columns
from cbid.learning.penalties import Norm

__all__ = ["Problem", "WeightFit", "fit_weights"]

Array = NDArray[np.floating]

# Shrinking u by this much more keeps it feasible in spite of the rounding of G, summed in float64.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Problem:
    """min over W >= 0 of (1/R) sum_q L(<C_q, W>) + nu ||W||."""

    columns: Columns
    loss: Loss
    norm: Norm
    nu: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.columns.n_bits, self.columns.n_weights

    def dual_bound(self, u: Array, G: Array) -> float:
        """D at u scaled into the feasible set: a lower bound on the optimum."""
        size = self.norm.dual(G) * (1 + _ROUNDING)
        scaled = u * min(1.0, self.nu / size) if size > 0 else u
        return -float(np.mean(self.loss.conjugate(scaled), dtype=np.float64))


@dataclass(frozen=True)
class WeightFit:
    """Weights W (t, n_weights), dual variables u (R,), primal value and duality gap."""

    W: NDArray[np.float64]
    u: Array
    objective: float
    gap: float


def fit_weights(problem: Problem, start: NDArray[np.float64], *, tol: float, max_iter: int = 500) -> WeightFit:
    """Fit all weights, from ``start`` (t, n_weights), until gap <= tol * objective or no progress is possible."""
    if isinstance(problem.loss, Hinge):
        if problem.norm.p in (1, np.inf):
            return _linear_program(problem)
        return _smoothed(problem, start, tol, max_iter)
    return _descend(problem, start, tol, max_iter)


def _descend(problem: Problem, start: NDArray[np.float64], tol: float, max_iter: int) -> WeightFit:
    """L-BFGS-B in variables where the penalty is smooth, stopped by the certificate.

    In float32 first; then the certificate is made anew in float64, and where it does not hold there, the descent goes
    on in float64. What is returned is certified in float64 always.
    """
    variables = _BoundedBy(problem) if np.isinf(problem.norm.p) else _Direct(problem)
    trace = _Certificate(problem, tol)
    W = _off_zero(problem, start, trace)
    for precise in (False, True):
        if precise:
            W = trace.W
            trace = _Certificate(problem, tol, precise=True)
            trace.evaluate(W)

        def objective(x: NDArray[np.float64], trace: "_Certificate" = trace) -> tuple[float, NDArray[np.float64]]:
            loss, G = trace.evaluate(variables.weights(x))
            return loss + problem.nu * variables.penalty(x), variables.gradient(x, -G)

        left = max_iter
        while left > 0 and not trace.done:
            result = minimize(
                objective,
                variables.start(W),
                jac=True,
                method="L-BFGS-B",
                bounds=variables.bounds,
                callback=trace.stop,
                options={"maxiter": left, "maxcor": 20, "ftol": 0, "gtol": 0, "maxls": 40},
            )
            left -= max(result.nit, 1)
            W = variables.weights(result.x)
            if result.nit <= 1:  # even with its memory cleared it finds no descent
                break
    return trace.fit()


def _off_zero(problem: Problem, W: NDArray[np.float64], trace: "_Certificate") -> NDArray[np.float64]:
    """W where it is better than zero; else a first step away from zero, where norms have their kink.

    The step goes where the loss falls fastest per unit of the norm. If it gains nothing however short, zero is
    optimal, and the certificate, which has seen zero, says so.
    """
    at_zero = float(np.mean(problem.loss.value(np.zeros(1))))
    if W.any():
        trace.evaluate(W)
        if trace.objective < at_zero:
            return W
    _, G = trace.evaluate(np.zeros_like(W))
    direction = problem.norm.steepest(G)
    step = 1.0
    while step > 1e-12 and trace.objective >= at_zero:
        W = step * direction
        trace.evaluate(W)
        step /= 4
    return W


class _Certificate:
    """Follows a solver: the best primal point and the best lower bound met so far."""

    def __init__(self, problem: Problem, tol: float, *, precise: bool = False) -> None:
        self.problem, self.tol, self.precise = problem, tol, precise
        self.objective, self.bound = np.inf, -np.inf
        self.W: NDArray[np.float64] = np.zeros(problem.shape)
        self.u: Array = np.zeros(0)

    def evaluate(self, W: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The mean loss at W, and G at the dual variables that W implies."""
        rho = self.problem.columns.margins(W, precise=self.precise)
        u = -self.problem.loss.derivative(rho)
        G = self.problem.columns.correlations(u, precise=self.precise)
        loss = float(np.mean(self.problem.loss.value(rho), dtype=np.float64))
        self.see(W, u, G, loss + self.problem.nu * self.problem.norm.value(W))
        return loss, G

    def see(self, W: NDArray[np.float64], u: Array, G: Array, objective: float) -> None:
        if objective < self.objective:
            self.objective, self.W, self.u = objective, W.copy(), u
        self.bound = max(self.bound, self.problem.dual_bound(u, G))

    @property
    def gap(self) -> float:
        # Not negative but for the last digits of the sums.
        return max(0.0, self.objective - self.bound)

    @property
    def done(self) -> bool:
        return bool(np.isfinite(self.objective)) and self.gap <= self.tol * abs(self.objective)

    def stop(self, intermediate_result: OptimizeResult) -> None:
        if self.done:
            raise StopIteration

    def fit(self) -> WeightFit:
        return WeightFit(self.W, self.u, self.objective, self.gap)


class _Direct:
    """x = W >= 0: for l_1, linear there, and l_p, smooth but at zero."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.norm = problem, problem.norm
        self.bounds = [(0, None)] * int(np.prod(problem.shape))

    def start(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        return W.ravel()

    def weights(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return x.reshape(self.problem.shape).copy()

    def penalty(self, x: NDArray[np.float64]) -> float:
        return self.norm.value(x)

    def gradient(self, x: NDArray[np.float64], loss_gradient: Array) -> NDArray[np.float64]:
        penalty = 1.0 if self.norm.p == 1 else self.norm.gradient(x)
        return loss_gradient.ravel() + self.problem.nu * penalty


class _BoundedBy:
    """x = (v, Z), W = v Z with v >= 0 and 0 <= Z <= 1: for l_infinity, whose norm is then v, smooth.

    The product is not convex, but a stationary point with v > 0 satisfies the optimality conditions of the convex
    problem: those in Z give the sign of the gradient at each weight, the one in v that the gradients at the bound
    add up to -nu. And the certificate checks it.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        size = int(np.prod(problem.shape))
        self.bounds = [(1e-9, None)] + [(0, 1)] * size
        # One bound moves all weights at once: in units of 1 / sqrt(size) it is as stiff as a single weight.
        self.unit = 1 / np.sqrt(size)

    def start(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        v = float(W.max())
        return np.append(v / self.unit, (W / v if v > 0 else W).ravel())

    def weights(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return (x[0] * self.unit) * x[1:].reshape(self.problem.shape)

    def penalty(self, x: NDArray[np.float64]) -> float:
        return float(x[0]) * self.unit

    def gradient(self, x: NDArray[np.float64], loss_gradient: Array) -> NDArray[np.float64]:
        g = loss_gradient.ravel()
        return np.append((g @ x[1:] + self.problem.nu) * self.unit, g * (x[0] * self.unit))


def _smoothed(problem: Problem, start: NDArray[np.float64], tol: float, max_iter: int) -> WeightFit:
    """The hinge under an l_p norm: rounded ever less, until the true hinge's certificate holds."""
    trace = _Certificate(problem, tol)
    W, mu = start, 1.0
    while not trace.done and mu > 1e-7:
        smooth = Problem(problem.columns, SmoothedHinge(mu), problem.norm, problem.nu)
        fit = _descend(smooth, W, tol / 4, max_iter)
        W = fit.W
        rho = problem.columns.margins(W, precise=True)
        value = float(np.mean(problem.loss.value(rho))) + problem.nu * problem.norm.value(W)
        trace.see(W, fit.u, problem.columns.correlations(fit.u, precise=True), value)
        mu /= 4
    return trace.fit()


def _linear_program(problem: Problem) -> WeightFit:
    """The hinge under l_1 or l_infinity, by HiGHS: LPBoost.

    Variables W, slacks xi (R,), and for l_infinity the bound v; rows C W + xi >= 1 and W <= v.
    """
    C = csr_matrix(problem.columns.dense())
    R, size = C.shape
    bounded = np.isinf(problem.norm.p)
    blocks = [-C, -eye_array(R)]
    cost = [np.full(size, 0.0 if bounded else problem.nu), np.full(R, 1 / R)]
    if bounded:
        blocks.append(csr_matrix((R, 1)))
        cost.append(np.array([problem.nu]))
    A = hstack(blocks, format="csr")
    if bounded:
        below = hstack([eye_array(size), csr_matrix((size, R)), csr_matrix(-np.ones((size, 1)))])
        A = vstack([A, below], format="csr")
    limit = np.concatenate([-np.ones(R), np.zeros(A.shape[0] - R)])
    result = linprog(np.concatenate(cost), A_ub=A, b_ub=limit, bounds=(0, None), method="highs")
    if result.x is None:
        raise RuntimeError(f"the linear program of the weights failed: {result.message}")
    W = np.maximum(result.x[:size], 0).reshape(problem.shape)
    u = np.clip(-result.ineqlin.marginals[:R] * R, 0, 1)
    trace = _Certificate(problem, 0.0)
    rho = problem.columns.margins(W, precise=True)
    value = float(np.mean(problem.loss.value(rho))) + problem.nu * problem.norm.value(W)
    trace.see(W, u, problem.columns.correlations(u, precise=True), value)
    return trace.fit()
