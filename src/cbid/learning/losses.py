"""Convex losses of the margin, their derivatives and conjugates (docs/method.md, section 4).

A loss is any object with three vectorised methods:

``value(rho)``
    L(rho), convex and non-increasing.
``derivative(rho)``
    L'(rho) <= 0; the dual variable of a row is u = -L'(rho).
``conjugate(u)``
    L*(-u) = sup_rho { -u rho - L(rho) }; infinite outside its domain.

The three together give the duality gap, so a user's own loss is certified exactly as the built-in ones are. A fourth
method is optional, and lets the weights be found by Newton's method where that is faster:

``curvature(u)``
    L''(rho) at the margin where -L'(rho) is u.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["LOSSES", "Exponential", "Hinge", "Logistic", "Loss", "SquaredHinge", "make_loss"]

Array = NDArray[np.floating]

# exp() overflows float64 past 709. Below that the exponential loss is exact; beyond it is held at a finite
# value, which no descent can accept since W = 0 already gives a loss of one.
_LARGEST_EXPONENT = 700.0


# The largest numbers whose exp() is finite, or nearly.
_LARGEST_LOG: dict[type, float] = {np.float32: 88.0, np.float64: _LARGEST_EXPONENT}


class Loss(Protocol):
    """What the learner asks of a loss."""

    def value(self, rho: Array) -> Array: ...

    def derivative(self, rho: Array) -> Array: ...

    def conjugate(self, u: Array) -> Array: ...


class Logistic:
    """L(rho) = log(1 + exp(-rho))."""

    def value(self, rho: Array) -> Array:
        return np.log1p(np.exp(-np.abs(rho))) + np.maximum(-rho, 0)  # as logaddexp(0, -rho), but vectorised

    def derivative(self, rho: Array) -> Array:
        # As -expit(-rho), but vectorised; beyond these margins it is zero, or tiny.
        e = np.exp(np.minimum(rho, _LARGEST_LOG[rho.dtype.type]))
        e += 1
        return np.divide(-1, e, out=e)

    def conjugate(self, u: Array) -> Array:
        inside = (u >= 0) & (u <= 1)
        v = np.clip(u, 0, 1)
        return np.where(inside, _times_log(v) + _times_log(1 - v), np.inf)

    def curvature(self, u: Array) -> Array:
        return u * (1 - u)


class Exponential:
    """L(rho) = exp(-rho)."""

    def value(self, rho: Array) -> Array:
        return np.exp(np.minimum(-np.asarray(rho, dtype=np.float64), _LARGEST_EXPONENT))

    def derivative(self, rho: Array) -> Array:
        return -self.value(rho)

    def conjugate(self, u: Array) -> Array:
        v = np.maximum(u, 0)
        return np.where(u >= 0, _times_log(v) - v, np.inf)

    def curvature(self, u: Array) -> Array:
        return u


def _times_log(v: Array) -> Array:
    """v log v for v >= 0, zero at zero; as scipy's xlogy, but vectorised."""
    return v * np.log(np.maximum(v, np.finfo(v.dtype).tiny))


class SquaredHinge:
    """L(rho) = max(0, 1 - rho)^2."""

    def value(self, rho: Array) -> Array:
        return np.maximum(0, 1 - rho) ** 2

    def derivative(self, rho: Array) -> Array:
        return -2 * np.maximum(0, 1 - rho)

    def conjugate(self, u: Array) -> Array:
        return np.where(u >= 0, u * u / 4 - u, np.inf)

    def curvature(self, u: Array) -> Array:
        return np.where(u > 0, np.ones_like(u) * 2, np.zeros_like(u))


class Hinge:
    """L(rho) = max(0, 1 - rho).

    Not differentiable at one, so the weights are found by linear programming (LPBoost) and the dual variables
    come from the program's own duals; ``derivative`` is a subgradient.
    """

    def value(self, rho: Array) -> Array:
        return np.maximum(0, 1 - rho)

    def derivative(self, rho: Array) -> Array:
        return -(rho < 1).astype(np.float64)

    def conjugate(self, u: Array) -> Array:
        return np.where((u >= 0) & (u <= 1), -u, np.inf)


class SmoothedHinge:
    """The hinge rounded off over a width mu: max over 0 <= u <= 1 of u (1 - rho) - mu u^2 / 2.

    It lies within mu / 2 below the hinge, and its -derivative is feasible for the hinge's dual: the way to
    weights under a penalty that no linear program expresses.
    """

    def __init__(self, mu: float) -> None:
        self.mu = mu

    def _u(self, rho: Array) -> Array:
        return np.clip((1 - rho) / self.mu, 0, 1)

    def value(self, rho: Array) -> Array:
        u = self._u(rho)
        return u * (1 - rho) - self.mu * u * u / 2

    def derivative(self, rho: Array) -> Array:
        return -self._u(rho)

    def conjugate(self, u: Array) -> Array:
        return np.where((u >= 0) & (u <= 1), self.mu * u * u / 2 - u, np.inf)


LOSSES: dict[str, type] = {
    "logistic": Logistic,
    "exponential": Exponential,
    "squared_hinge": SquaredHinge,
    "hinge": Hinge,
}


def make_loss(loss: str | Loss) -> Loss:
    """The loss of that name, or the user's own object unchanged."""
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(
                f"loss={loss!r} is not known; accepted are {sorted(LOSSES)} or an object with "
                "value, derivative and conjugate"
            )
        made: Loss = LOSSES[loss]()
        return made
    missing = [m for m in ("value", "derivative", "conjugate") if not callable(getattr(loss, m, None))]
    if missing or isinstance(loss, type):
        raise ValueError(
            f"loss={loss!r} has no callable {', '.join(missing) or 'instance (a class was given)'}; "
            f"accepted are {sorted(LOSSES)} or an object with value, derivative and conjugate"
        )
    return loss
