"""The signed graph that joins every sample to whole classes, through class means (docs/method.md, section 6).

With V (n, k) the weight of sample i against class r, the value of a relaxed bit h is
    sum_ir V_ir mean over j in r of (h_i - h_j)^2,
a quadratic form over n^2 pairs that costs n k: every sum over a class is the class's mean or its weighted sum.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from cbid.learning.graph import best_cut
from cbid.learning.sides import WholeClassSides

__all__ = ["ClassGraph", "WeightedClassGraph"]

Array = NDArray[np.float32]


class ClassGraph:
    """Makes the graph of one weight vector's side weights; the counterpart of ``PairGraph`` for whole classes."""

    def __init__(self, sides: WholeClassSides) -> None:
        self.sides = sides

    def weighted(self, per_side: NDArray[np.floating]) -> "WeightedClassGraph":
        V = per_side.reshape(self.sides.factor.shape).astype(np.float32) * self.sides.factor
        return WeightedClassGraph(self.sides, V)


class WeightedClassGraph:
    """V (n, k): sample i has edges of weight V_ir / m_r to every member of class r."""

    def __init__(self, sides: WholeClassSides, V: Array) -> None:
        self.sides = sides
        self.V = V
        self.size = float(np.abs(V).sum(dtype=np.float64))
        received = V.sum(axis=0, dtype=np.float64) / sides.sizes  # what each member of class r gets from all samples
        self._degree = (V.sum(axis=1, dtype=np.float64) + received[sides.y]).astype(np.float32)

    def laplacian_times(self, h: Array) -> Array:
        """(L h)_i = degree_i h_i - sum_r V_ir mean_r(h) - (1/m_y) sum_j V_jy h_j, with y the class of i."""
        given = self.V @ self.sides.means(h)
        received = (h @ self.V) / self.sides.sizes
        return self._degree * h - given - received[self.sides.y]

    def quadratic(self, X: Array) -> NDArray[np.float64]:
        crossed = (X.T @ self.V) @ self.sides.means(X)
        return (X.T @ (self._degree[:, None] * X) - crossed - crossed.T).astype(np.float64)

    def best_thresholds(self, P: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The best threshold of every column, exactly.

        The worth of a bit is sum_r (sum_i V_ir - mean_r(h) sum_i V_ir h_i). Going up the sorted projections, one
        sample turns at a time, and with it its class's mean and the k weighted sums.
        """
        P = np.ascontiguousarray(P, dtype=np.float32)
        order = np.argsort(P, axis=0, kind="stable")
        worths = np.empty(P.shape)
        _worths(self.V, self.sides.y, self.sides.sizes.astype(np.float64), order, worths)
        return best_cut(np.take_along_axis(P, order, axis=0), worths)


@numba.njit(nogil=True, cache=True)
def _worths(V, y, sizes, order, worths):  # type: ignore[no-untyped-def]
    n, k = V.shape
    total = np.zeros(k)
    for i in range(n):
        for r in range(k):
            total[r] += V[i, r]
    for c in range(order.shape[1]):
        mean, signed = np.ones(k), total.copy()
        product = total.sum()  # sum_r mean_r signed_r, at mean = 1
        for place in range(n):
            i = order[place, c]
            # Sample i turns from +1 to -1: first in the sums, then in its class's mean.
            for r in range(k):
                product -= 2 * V[i, r] * mean[r]
                signed[r] -= 2 * V[i, r]
            product -= 2 / sizes[y[i]] * signed[y[i]]
            mean[y[i]] -= 2 / sizes[y[i]]
            worths[place, c] = total.sum() - product
