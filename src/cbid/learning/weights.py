"""The Hamming weights of the bits so far: totally corrective, to a certified gap (docs/method.md, sections 5, 7, 9).

    P(W) = sum_q c_q L(rho_q - m_q) + nu ||W||,  W >= 0
    D(u) = -sum_q c_q [L*(-u_q) - u_q m_q]       with  || max(0, G(u)) ||_dual <= nu,  G(u) = sum_q c_q u_q C_q

Any u scaled into the dual's feasible set bounds the optimum from below, so P - D certifies the weights whatever
solver found them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import OptimizeResult, linprog, minimize
from scipy.sparse import csr_matrix, eye_array, hstack, vstack

from cbid.learning.losses import Hinge, Loss, SmoothedHinge
from cbid.learning.margins import Columns
from cbid.learning.penalties import KindNorm, Norm, OwnNorm
from cbid.threads import blocks_of, each

__all__ = ["Part", "Problem", "WeightFit", "fit_weights", "newton"]

Array = NDArray[np.floating]
Vector = NDArray[np.float64]

# Rows of which losses are computed at a time.
_ROWS_IN_BLOCK = 32_768

# Shrinking u by this much more keeps it feasible in spite of the rounding of G, summed in float64.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Part:
    """Rows of one kind: their columns, what they count for together, their scale and the margins they require.

    share : sum of c over the rows; each row counts share / R
    scale : factor of the rows' margins, rho = scale <a, w>: a loss sees differences of the size 1 / scale
    required : (R,) m, or None for zero
    samples : which samples the columns are about, or None for all
    nu_per_bit : penalty that these rows add for each bit of the code
    """

    columns: Columns
    share: float = 1.0
    scale: float = 1.0
    required: Array | None = None
    samples: NDArray[np.integer] | None = None
    nu_per_bit: float = 0.0

    def append(self, h: NDArray[np.float32]) -> None:
        """Add the bit whose values on all training samples are h."""
        self.columns.append(h if self.samples is None else h[self.samples])

    def excess(self, W: Array, *, precise: bool = False, n_threads: int = 1) -> Array:
        """Return rho - m of all rows."""
        rho = self.columns.margins(W, precise=precise, n_threads=n_threads)
        if self.scale != 1:
            rho *= self.scale
        return rho if self.required is None else rho - self.required.astype(rho.dtype)


@dataclass(frozen=True)
class Problem:
    """min over W >= 0 of sum_q c_q L(<C_q, W> - m_q) + nu ||W||, over one kind of rows or several.

    Rows may bring a penalty that grows with the code: nu = base_nu + t^(1 - 1/p) sum over parts of share nu_per_bit.
    The number of threads changes no value.
    """

    parts: Sequence[Part]
    loss: Loss
    norm: Norm | OwnNorm | KindNorm
    base_nu: float
    n_threads: int = 1

    @property
    def nu(self) -> float:
        """Return the weight of the penalty at the present length."""
        even = self.shape[0] ** (1 - 1 / self.norm.p)  # even weights then cost the same under every norm
        return self.base_nu + even * sum(part.share * part.nu_per_bit for part in self.parts)

    @property
    def shape(self) -> tuple[int, int]:
        columns = self.parts[0].columns
        return columns.n_bits, columns.n_weights

    def append(self, h: NDArray[np.float32]) -> None:
        """Add the bit whose values on all training samples are h."""
        for part in self.parts:
            part.append(h)

    def excess(self, W: Array, *, precise: bool = False) -> list[Array]:
        """Return rho - m for each kind of rows."""
        return [part.excess(W, precise=precise, n_threads=self.n_threads) for part in self.parts]

    def duals(self, excess: Sequence[Array]) -> list[Array]:
        """Return u = -L'(rho - m) for each kind of rows."""
        return [self._over_rows(lambda z: -self.loss.derivative(z), z) for z in excess]

    def mean_loss(self, excess: Sequence[Array]) -> float:
        """Return sum_q c_q L(rho_q - m_q)."""
        return sum(part.share * self._mean(self.loss.value, z) for part, z in zip(self.parts, excess))

    def loss_at_zero(self) -> float:
        """Return the loss when every weight is zero, and so every margin."""
        return sum(
            part.share * float(np.mean(self.loss.value(np.zeros(1) if part.required is None else -part.required)))
            for part in self.parts
        )

    def correlations(self, u: Sequence[Array], *, precise: bool = False) -> NDArray[np.float64]:
        """Return G(u) = sum_q c_q u_q C_q, (t, n_weights)."""
        return np.sum(
            [
                part.share * part.scale * part.columns.correlations(v, precise=precise, n_threads=self.n_threads)
                for part, v in zip(self.parts, u)
            ],
            axis=0,
        )

    def curvature(self, u: Sequence[Array]) -> NDArray[np.float64]:
        """Return the Hessian of the loss at the margins that have the duals u, over W.ravel()."""
        return np.sum(
            [
                part.share * part.scale**2 * part.columns.curvature(self.loss.curvature(v))  # type: ignore[attr-defined]
                for part, v in zip(self.parts, u)
            ],
            axis=0,
        )

    def dual_bound(self, u: Sequence[Array], G: Array) -> float:
        """Return D at u scaled into the feasible set: a lower bound on the optimum."""
        size = self.norm.dual(G) * (1 + _ROUNDING)
        factor = min(1.0, self.nu / size) if size > 0 else 1.0

        def terms(v: Array, *required: Array) -> Array:
            scaled = v * factor
            conjugate = self.loss.conjugate(scaled)
            return conjugate - scaled * required[0] if required else conjugate

        total = 0.0
        for part, v in zip(self.parts, u):
            total += part.share * self._mean(terms, v, *([] if part.required is None else [part.required]))
        return -total

    def _over_rows(self, function: Callable[..., Array], *values: Array) -> Array:
        """Return function(*values), an entry for each row, block after block."""
        blocks = blocks_of(len(values[0]), _ROWS_IN_BLOCK)
        found = each(lambda block: function(*(part[block] for part in values)), blocks, self.n_threads)
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _mean(self, function: Callable[..., Array], *values: Array) -> float:
        """Return the mean of function(*values) over the rows."""
        n = len(values[0])
        sums = each(
            lambda block: float(np.sum(function(*(part[block] for part in values)), dtype=np.float64)),
            blocks_of(n, _ROWS_IN_BLOCK),
            self.n_threads,
        )
        return sum(sums) / n


@dataclass(frozen=True)
class WeightFit:
    """Weights W (t, n_weights), dual variables u of each kind of rows, primal value and duality gap."""

    W: NDArray[np.float64]
    u: list[Array]
    objective: float
    gap: float


def fit_weights(problem: Problem, start: NDArray[np.float64], *, tol: float, max_iter: int = 500) -> WeightFit:
    """Fit all weights, from ``start`` (t, n_weights), until gap <= tol * objective or no progress is possible."""
    if isinstance(problem.loss, Hinge):
        if problem.norm.p in (1, np.inf):
            return _linear_program(problem)
        return _smoothed(problem, start, tol, max_iter)
    if np.isinf(problem.norm.p) and problem.shape[1] == 1 and hasattr(problem.loss, "curvature"):
        trace = _even(problem, start, tol)
        positive = trace.W.min() > _ZERO_BOUND * trace.W.max()  # else some weights may be zero at the optimum
        if trace.done and positive and trace.objective < problem.loss_at_zero():
            return trace.fit()
    return _descend(problem, start, tol, max_iter)


# Newton steps for even weights, at most; a step changes a weight at most by this factor, and is the last one if it
# changes it by less than this share: the next would be of the size of its square.
_MOST_EVEN_STEPS, _MOST_GROWTH, _LAST_CHANGE = 12, 4.0, 0.01


def _even(problem: Problem, start: NDArray[np.float64], tol: float) -> "_Certificate":
    """Return the trace of weights that are even under each bound, as at most optima of l_infinity.

    One variable for each bound: a few Newton steps in float32 find it, and the certificate is in float64.
    """
    norm, nu, every = problem.norm, problem.nu, np.arange(len(start))
    groups = [rows for rows in (norm.groups(len(start)) if isinstance(norm, KindNorm) else [every]) if len(rows)]
    totals = [[part.columns.total(rows) for rows in groups] for part in problem.parts]
    single = [[total.astype(np.float32) for total in of_part] for of_part in totals]

    def excess(v: Vector, of_parts: Sequence[Sequence[Array]]) -> list[Array]:
        found: list[Array] = []
        for part, of_part in zip(problem.parts, of_parts):
            kind = of_part[0].dtype.type
            rho = of_part[0] * kind(part.scale * v[0])
            for total, value in zip(of_part[1:], v[1:]):
                rho += total * kind(part.scale * value)
            found.append(rho if part.required is None else rho - part.required.astype(rho.dtype))
        return found

    v = np.array([start[rows].max() for rows in groups])
    v = np.where(v > 0, v, 1e-3)
    for _ in range(_MOST_EVEN_STEPS):
        gradient, H = np.full(len(v), nu), np.zeros((len(v), len(v)))
        if isinstance(norm, KindNorm):
            gradient, H = nu * norm.bounds_gradient(v), nu * norm.bounds_curvature(v)
        for part, of_part, u in zip(problem.parts, single, problem.duals(excess(v, single))):
            bend = problem.loss.curvature(u)  # type: ignore[attr-defined]
            share = part.share * part.scale / len(u)
            gradient -= share * np.array([total @ u for total in of_part])
            H += share * part.scale * np.array([[(a * bend) @ b for b in of_part] for a in of_part])
        H[np.diag_indices(len(H))] += 1e-9 * np.trace(H) + np.finfo(float).tiny
        new = np.clip(v - np.linalg.solve(H, gradient), v / _MOST_GROWTH, v * _MOST_GROWTH)
        change, v = np.abs(new - v).max() / v.max(), new
        if change <= _LAST_CHANGE:
            break
    W = np.empty(problem.shape)
    for rows, value in zip(groups, v):
        W[rows] = value
    trace = _Certificate(problem, tol, precise=True)
    exact = excess(v, totals)
    duals = problem.duals(exact)
    G = problem.correlations(duals, precise=True)
    trace.see(W, duals, G, problem.mean_loss(exact) + nu * norm.value(W))
    return trace


def _descend(problem: Problem, start: NDArray[np.float64], tol: float, max_iter: int) -> WeightFit:
    """L-BFGS-B in variables where the penalty is smooth, or Newton's method before it, stopped by the certificate.

    In float32 first; then the certificate is computed in float64; if it does not hold, the descent continues
    in float64. What is returned is certified in float64 always.
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

        if _suits_newton(problem) and not trace.done:
            found = newton(
                objective,
                lambda trace=trace: problem.curvature(trace.u),  # type: ignore[misc]
                variables.start(W),
                max_iter=_MOST_NEWTON_STEPS,
                done=lambda trace=trace: trace.done,  # type: ignore[misc]
            )
            W = variables.weights(found)

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
            if not trace.done and isinstance(problem.norm, KindNorm):
                before, W = W, _off_zero_bounds(problem.norm, W, trace)
                if W is not before:
                    continue
            if result.nit <= 1:  # even with its memory cleared it finds no descent
                break
    return trace.fit()


# Newton's method: steps, and the largest number of weights, whose Hessian is factored in each step.
_MOST_NEWTON_STEPS = 50
_MOST_FOR_NEWTON = 2048


def _suits_newton(problem: Problem) -> bool:
    """Whether the objective is smooth over W >= 0, its Hessian known and small, and first-order steps are many.

    These are few with one weight vector: together they cost less than one Hessian.
    """
    smooth = problem.norm.p == 1 and hasattr(problem.loss, "curvature")
    known = smooth and all(part.columns.compares for part in problem.parts)
    return known and problem.shape[1] > 1 and int(np.prod(problem.shape)) <= _MOST_FOR_NEWTON


# A step must gain this share of what the slope promises; it is halved at most so many times.
_SUFFICIENT = 1e-4
_MOST_HALVINGS = 20
# Damping, in units of the mean curvature: its limits, and its factor after a good step and after a failure.
_LEAST_DAMPING, _MOST_DAMPING = 1e-9, 1e3
_EASE, _STIFFEN = 0.1, 30.0
# Rounds in which variables that would turn negative are held at zero.
_MOST_ROUNDS = 20


def newton(
    objective: Callable[[Vector], tuple[float, Vector]],
    curvature: Callable[[], NDArray[np.float64]],
    x: Vector,
    *,
    max_iter: int,
    done: Callable[[], bool],
) -> Vector:
    """Return a point below x >= 0, for a convex function, after at most ``max_iter`` steps or when ``done()``.

    With weights for each class and a small nu, the certificate asks for a gradient of the size of nu in directions in
    which the loss is nearly flat. Methods of first order take hundreds of steps there, this one a few.

    objective : value and gradient at a point
    curvature : Hessian at the point of least value so far; it may be positive semidefinite
    """
    value, gradient = objective(x)
    damping = _LEAST_DAMPING
    for _ in range(max_iter):
        if done():
            break
        H = curvature()
        typical = float(np.trace(H)) / len(H) or 1.0
        while damping <= _MOST_DAMPING:
            try:
                step = _step(H, damping * typical, gradient, x)
            except LinAlgError:
                damping *= _STIFFEN
                continue
            found = _search(objective, x, value, gradient, step)
            if found is not None:
                break
            damping *= _STIFFEN
        else:
            break
        x, value, gradient, size = found
        damping = max(_LEAST_DAMPING, damping * (_EASE if size == 1 else 1.0))
    return x


def _step(H: NDArray[np.float64], damping: float, gradient: Vector, x: Vector) -> Vector:
    """Return the step to the minimum of the quadratic model over x >= 0, or nearly so.

    Variables at zero whose gradient is positive stay there. Those that the model would make negative are held at
    zero, and the others solved for again.
    """
    free = (x > 0) | (gradient < 0)
    step = np.zeros_like(x)
    for _ in range(_MOST_ROUNDS):
        at = np.flatnonzero(free)
        if not len(at):
            break
        held = np.flatnonzero(~free & (step != 0))
        target = -gradient[at] - H[np.ix_(at, held)] @ step[held]
        A = H[np.ix_(at, at)]
        A[np.diag_indices(len(at))] += damping
        step[at] = cho_solve(cho_factor(A, overwrite_a=True, check_finite=False), target, check_finite=False)
        below = at[x[at] + step[at] < 0]
        if not len(below):
            break
        step[below] = -x[below]
        free[below] = False
    return step


def _search(
    objective: Callable[[Vector], tuple[float, Vector]], x: Vector, value: float, gradient: Vector, step: Vector
) -> tuple[Vector, float, Vector, float] | None:
    """Return the first point along a step, cut off at zero, that gains enough; its value, gradient and step size."""
    size = 1.0
    for _ in range(_MOST_HALVINGS):
        new = np.maximum(x + size * step, 0)
        slope = float(gradient @ (new - x))
        if not slope < 0:
            return None
        new_value, new_gradient = objective(new)
        if new_value <= value + _SUFFICIENT * slope:
            return new, new_value, new_gradient, size
        size /= 2
    return None


# Weights whose objective is lower than that of zero by less than this share may be as good as zero: sums in float32.
_LEAST_LEAD = 1e-6


def _off_zero(problem: Problem, W: NDArray[np.float64], trace: "_Certificate") -> NDArray[np.float64]:
    """W where it is better than zero; else a first step away from zero, where norms have their kink.

    The step goes where the loss falls fastest per unit of the norm. If it gains nothing however short, zero is
    optimal, and the certificate, which has seen zero, says so.
    """
    if W.any():
        trace.evaluate(W)
        if trace.objective < problem.loss_at_zero() * (1 - _LEAST_LEAD):
            return W
    at_zero, G = trace.evaluate(np.zeros_like(W))
    direction = problem.norm.steepest(G)
    step, objective = 1.0, np.inf
    while step > 1e-12 and objective >= at_zero * (1 - _LEAST_LEAD):
        W = step * direction
        objective = trace.evaluate(W)[0] + problem.nu * problem.norm.value(W)
        step /= 4
    return W


def _off_zero_bounds(norm: KindNorm, W: NDArray[np.float64], trace: "_Certificate") -> NDArray[np.float64]:
    """W, or a better point with a first step for a kind of bits whose bound fell to zero.

    At a bound of zero no weight under it has a gradient, so the descent cannot tell the bits that would help.
    """
    G = trace.evaluate(W)[1]
    for rows in norm.groups(len(W)):
        if len(rows) and W[rows].max() <= _ZERO_BOUND * W.max() and (G[rows] > 0).any():
            step = 0.1 * W.max()
            while step > _ZERO_BOUND * W.max():
                moved, best = W.copy(), trace.objective
                moved[rows] = step * (G[rows] > 0)
                trace.evaluate(moved)
                if trace.objective < best:
                    return moved
                step /= 4
    return W


# A bound at this share of the largest weight counts as zero.
_ZERO_BOUND = 1e-6


class _Certificate:
    """Follows a solver: the best primal point and the best lower bound met so far."""

    def __init__(self, problem: Problem, tol: float, *, precise: bool = False) -> None:
        self.problem, self.tol, self.precise = problem, tol, precise
        self.objective, self.bound = np.inf, -np.inf
        self.W: NDArray[np.float64] = np.zeros(problem.shape)
        self.u: list[Array] = []
        self._last: tuple[NDArray[np.float64], float, NDArray[np.float64]] | None = None

    def evaluate(self, W: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The mean loss at W, and G at the dual variables that W implies."""
        if self._last is not None and np.array_equal(W, self._last[0]):  # a solver starts where another ended
            return self._last[1:]
        excess = self.problem.excess(W, precise=self.precise)
        u = self.problem.duals(excess)
        G = self.problem.correlations(u, precise=self.precise)
        loss = self.problem.mean_loss(excess)
        self.see(W, u, G, loss + self.problem.nu * self.problem.norm.value(W))
        self._last = W.copy(), loss, G
        return loss, G

    def see(self, W: NDArray[np.float64], u: list[Array], G: Array, objective: float) -> None:
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
        assert isinstance(problem.norm, Norm | OwnNorm)
        self.problem, self.norm = problem, problem.norm
        self.bounds = [(0, None)] * int(np.prod(problem.shape))

    def start(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        return W.ravel()

    def weights(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return x.reshape(self.problem.shape).copy()

    def penalty(self, x: NDArray[np.float64]) -> float:
        return self.norm.value(x.reshape(self.problem.shape))

    def gradient(self, x: NDArray[np.float64], loss_gradient: Array) -> NDArray[np.float64]:
        penalty = 1.0 if self.norm.p == 1 else self.norm.gradient(x.reshape(self.problem.shape)).ravel()
        return loss_gradient.ravel() + self.problem.nu * penalty


class _BoundedBy:
    """x = (v, Z), W = v Z with v >= 0 and 0 <= Z <= 1: for l_infinity, whose norm is then v, smooth.

    Bits of two kinds have a bound v for each. The product is not convex, but a stationary point with v > 0 satisfies
    the optimality conditions of the convex problem: those in Z give the sign of the gradient at each weight, the one
    in v that the gradients at the bound add up to -nu. And the certificate checks it.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        norm, (t, n_weights) = problem.norm, problem.shape
        groups = norm.groups(t) if isinstance(norm, KindNorm) else [np.arange(t)]
        self.groups = [rows for rows in groups if len(rows)]
        bound = np.zeros((t, n_weights), dtype=np.intp)
        for number, rows in enumerate(self.groups):
            bound[rows] = number
        self.group = bound.ravel()  # which bound each weight has
        # One bound moves all its weights at once: in units of 1 / sqrt(their number) it is as stiff as one weight.
        self.units = np.array([1 / np.sqrt(len(rows) * n_weights) for rows in self.groups])
        self.bounds = [(1e-9, None)] * len(self.groups) + [(0, 1)] * (t * n_weights)

    def _split(self, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        count = len(self.groups)
        return x[:count] * self.units, x[count:]

    def start(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        v = np.array([W[rows].max() for rows in self.groups])
        of_each = v[self.group]
        Z = np.divide(W.ravel(), of_each, out=np.ones(W.size), where=of_each > 0)  # zero times zero is stuck
        return np.concatenate([v / self.units, Z])

    def weights(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        v, Z = self._split(x)
        return (v[self.group] * Z).reshape(self.problem.shape)

    def penalty(self, x: NDArray[np.float64]) -> float:
        v, _ = self._split(x)
        norm = self.problem.norm
        return norm.of_bounds(v) if isinstance(norm, KindNorm) else float(v[0])

    def gradient(self, x: NDArray[np.float64], loss_gradient: Array) -> NDArray[np.float64]:
        v, Z = self._split(x)
        g = loss_gradient.ravel()
        norm = self.problem.norm
        penalty = norm.bounds_gradient(v) if isinstance(norm, KindNorm) else 1.0
        by_bound = np.bincount(self.group, weights=g * Z, minlength=len(v)) + self.problem.nu * penalty
        return np.concatenate([by_bound * self.units, g * v[self.group]])


def _smoothed(problem: Problem, start: NDArray[np.float64], tol: float, max_iter: int) -> WeightFit:
    """The hinge under an l_p norm: rounded ever less, until the true hinge's certificate holds."""
    trace = _Certificate(problem, tol)
    W, mu = start, 1.0
    while not trace.done and mu > 1e-7:
        fit = _descend(replace(problem, loss=SmoothedHinge(mu)), W, tol / 4, max_iter)
        W = fit.W
        _see_exactly(trace, W, fit.u)
        mu /= 4
    return trace.fit()


def _see_exactly(trace: _Certificate, W: NDArray[np.float64], u: list[Array]) -> None:
    """Show the trace weights and duals that a solver found, evaluated in float64."""
    problem = trace.problem
    value = problem.mean_loss(problem.excess(W, precise=True)) + problem.nu * problem.norm.value(W)
    trace.see(W, u, problem.correlations(u, precise=True), value)


def _linear_program(problem: Problem) -> WeightFit:
    """The hinge under l_1 or l_infinity, by HiGHS: LPBoost.

    Variables W, slacks xi (R,), and for l_infinity the bound v; rows C W + xi >= 1 + m and W <= v.
    """
    C = csr_matrix(np.vstack([part.scale * part.columns.dense() for part in problem.parts]))
    sizes = [len(part.columns.rows) for part in problem.parts]
    c = np.concatenate([np.full(size, part.share / size) for part, size in zip(problem.parts, sizes)])
    m = np.concatenate([np.zeros(n) if p.required is None else p.required for p, n in zip(problem.parts, sizes)])
    R, size = C.shape
    bounded = np.isinf(problem.norm.p)
    blocks = [-C, -eye_array(R)]
    cost = [np.full(size, 0.0 if bounded else problem.nu), c]
    if bounded:
        blocks.append(csr_matrix((R, 1)))
        cost.append(np.array([problem.nu]))
    A = hstack(blocks, format="csr")
    if bounded:
        below = hstack([eye_array(size), csr_matrix((size, R)), csr_matrix(-np.ones((size, 1)))])
        A = vstack([A, below], format="csr")
    limit = np.concatenate([-1 - m, np.zeros(A.shape[0] - R)])
    result = linprog(np.concatenate(cost), A_ub=A, b_ub=limit, bounds=(0, None), method="highs")
    if result.x is None:
        raise RuntimeError(f"the linear program of the weights failed: {result.message}")
    W = np.maximum(result.x[:size], 0).reshape(problem.shape)
    u = np.clip(-result.ineqlin.marginals[:R] / c, 0, 1)
    trace = _Certificate(problem, 0.0)
    _see_exactly(trace, W, np.split(u, np.cumsum(sizes)[:-1]))
    return trace.fit()
