"""Newton's method for convex functions over x >= 0.

The weights' problem under l_1 is smooth over W >= 0. With a small nu it is badly conditioned: the certificate asks
for a gradient of the size of nu in directions in which the loss is nearly flat. Methods of first order take hundreds
of steps there, Newton's method a few.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

__all__ = ["newton"]

Vector = NDArray[np.float64]

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
    """Return a point below x, after at most ``max_iter`` steps or when ``done()``.

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
