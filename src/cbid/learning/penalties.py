"""Norms of the non-negative weights, and their dual norms (docs/method.md, sections 4 and 5).

For W >= 0 the dual constraint of min mean L + nu ||W|| is ||max(0, G)||_dual <= nu.
"""

from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray

__all__ = ["Norm", "make_penalty"]

Array = NDArray[np.floating]


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


def _norm(V: Array, p: float) -> float:
    """The l_p norm, scaled by the largest entry so that no power over- or underflows."""
    V = np.abs(np.asarray(V, dtype=np.float64))
    top = float(V.max(initial=0.0))
    if top == 0 or np.isinf(p):
        return top
    if p == 1:
        return float(V.sum())
    return top * float(np.sum((V / top) ** p) ** (1 / p))


def make_penalty(penalty: str | float) -> Norm:
    """``"l1"``, ``"linf"``, or a number p > 1 for the l_p norm."""
    if isinstance(penalty, str) and penalty in ("l1", "linf"):
        return Norm(1.0 if penalty == "l1" else np.inf)
    if isinstance(penalty, Real) and not isinstance(penalty, bool) and penalty > 1:
        return Norm(float(penalty))
    raise ValueError(f"penalty={penalty!r} is not known; accepted are 'l1', 'linf' or a number p > 1 (l_p norm)")
