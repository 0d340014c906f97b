"""Norms of the non-negative weights, and their dual norms (docs/method.md, sections 4 and 5).

For W >= 0 the dual constraint of min mean L + nu ||W|| is ||max(0, G)||_dual <= nu.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["KindNorm", "Norm", "OwnNorm", "Penalty", "make_penalty"]

Array = NDArray[np.floating]


class Penalty(Protocol):
    """A penalty of the user's own: the appendix's Omega, any norm of the weights W >= 0, (t, n_weights).

    It must grow in proportion (value(c W) = c value(W) for c >= 0) and be differentiable except at zero.
    """

    def value(self, W: Array) -> float:
        """Return the norm of W."""

    def gradient(self, W: Array) -> Array:
        """Return the gradient at W, of the shape of W; zero at W = 0."""

    def dual(self, G: Array) -> float:
        """Return the largest <G, W> over W >= 0 of norm one; zero if no entry of G is positive."""

    def steepest(self, G: Array) -> Array:
        """Return such a W."""


@dataclass(frozen=True)
class Norm:
    """The l_p norm of all entries of W, 1 <= p <= infinity."""

    p: float

    @property
    def q(self) -> float:
        """The exponent of the dual norm: 1/p + 1/q = 1."""
        if self.p == 1:
            return np.inf
        return 1.0 if np.isinf(self.p) else self.p / (self.p - 1)

    def value(self, W: Array) -> float:
        return _norm(W, self.p)

    def dual(self, G: Array) -> float:
        """|| max(0, G) ||_dual."""
        return _norm(np.maximum(G, 0), self.q)

    def steepest(self, G: NDArray[np.float64]) -> NDArray[np.float64]:
        """The W >= 0 of norm one that maximises <G, W>."""
        positive = np.maximum(G, 0)
        if np.isinf(self.p):
            return (G > 0).astype(np.float64)
        if self.p == 1:
            return (G.max() == G).astype(np.float64) / np.count_nonzero(G.max() == G)
        size = self.dual(G)
        return (positive / size) ** (self.q - 1) if size > 0 else positive

    def gradient(self, W: Array) -> Array:
        """Gradient for 1 < p < infinity at W >= 0; zero at W = 0, where the norm has a kink."""
        size = self.value(W)
        return np.zeros_like(W) if size == 0 else (W / size) ** (self.p - 1)


@dataclass(frozen=True)
class OwnNorm:
    """A penalty of the user's own. Smooth like an l_p norm; the default of nu is that of l_2."""

    given: Penalty
    p: float = 2.0

    def value(self, W: Array) -> float:
        return float(self.given.value(W))

    def dual(self, G: Array) -> float:
        """|| max(0, G) ||_dual."""
        return float(self.given.dual(G))

    def steepest(self, G: NDArray[np.float64]) -> NDArray[np.float64]:
        """The W >= 0 of norm one that maximises <G, W>."""
        return np.asarray(self.given.steepest(G), dtype=np.float64)

    def gradient(self, W: Array) -> Array:
        return np.asarray(self.given.gradient(W), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class KindNorm:
    """sqrt((a^2 + b^2) / 2) with a and b the largest weight of either kind of bits: two levels of weights.

    Even weights cost as much as under the largest weight of all. Inside a kind nothing is gained by an uneven weight,
    so these generalise as well; between the kinds the rows decide.
    """

    kinds: NDArray[np.bool_]
    p: float = np.inf

    def groups(self, n_bits: int) -> list[NDArray[np.intp]]:
        """Return the rows of W of each kind among the first bits; a kind may have none."""
        kinds = self.kinds[:n_bits]
        return [np.flatnonzero(~kinds), np.flatnonzero(kinds)]

    def of_bounds(self, bounds: Array) -> float:
        """Return the norm of weights with these largest values, one for each kind."""
        return _norm(bounds, 2) * _HALF

    def bounds_gradient(self, bounds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the gradient of ``of_bounds``."""
        size = _norm(bounds, 2)
        return np.zeros_like(bounds) if size == 0 else bounds / size * _HALF

    def bounds_curvature(self, bounds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Hessian of ``of_bounds`` at bounds that are not all zero."""
        size = _norm(bounds, 2)
        across = np.multiply.outer(bounds, bounds) / size**2
        return np.asarray((np.eye(len(bounds)) - across) / size * _HALF, dtype=np.float64)

    def value(self, W: Array) -> float:
        return self.of_bounds(np.array([_norm(W[rows], np.inf) for rows in self.groups(len(W))]))

    def dual(self, G: Array) -> float:
        """|| max(0, G) ||_dual."""
        positive = np.maximum(G, 0)
        return _norm(np.array([_norm(positive[rows], 1) for rows in self.groups(len(G))]), 2) / _HALF

    def steepest(self, G: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the W >= 0 of norm one that maximises <G, W>."""
        W = np.zeros_like(G)
        for rows in self.groups(len(G)):
            W[rows] = (G[rows] > 0) * _norm(np.maximum(G[rows], 0), 1)
        size = self.value(W)
        return W / size if size > 0 else W


_HALF = np.sqrt(0.5)


def _norm(V: Array, p: float) -> float:
    """The l_p norm, scaled by the largest entry so that no power over- or underflows."""
    V = np.abs(np.asarray(V, dtype=np.float64))
    top = float(V.max(initial=0.0))
    if top == 0 or np.isinf(p):
        return top
    if p == 1:
        return float(V.sum())
    return top * float(np.sum((V / top) ** p) ** (1 / p))


_METHODS = ("value", "gradient", "dual", "steepest")


def make_penalty(penalty: Any) -> Norm | OwnNorm:
    """``"l1"``, ``"linf"``, a number p > 1 for the l_p norm, or the user's own object."""
    if isinstance(penalty, str) and penalty in ("l1", "linf"):
        return Norm(1.0 if penalty == "l1" else np.inf)
    if isinstance(penalty, Real) and not isinstance(penalty, bool) and float(penalty) > 1:
        return Norm(float(penalty))
    if not isinstance(penalty, type) and all(callable(getattr(penalty, name, None)) for name in _METHODS):
        return OwnNorm(penalty)
    raise ValueError(
        f"penalty={penalty!r} is not known; accepted are 'l1', 'linf', a number p > 1 (l_p norm) or an object with "
        f"{', '.join(_METHODS[:-1])} and {_METHODS[-1]}"
    )
