"""Sums over pairs of samples as a signed graph Laplacian (docs/method.md, section 6).

For a relaxed bit h the value of all rows is sum over pairs of c_ij (h_i - h_j)^2 = h' L h, with L the Laplacian of
the graph whose edge weights c add up every row that holds the pair. The pattern of the graph is fixed for a fit;
only the weights change with the dual variables.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol

import numba
import numpy as np
from numpy.typing import NDArray

from cbid.learning.sides import ListedSides, WholeClassSides
from cbid.threads import each

__all__ = ["ClassGraph", "Graph", "PairGraph", "SignedGraph", "WeightedClassGraph", "best_cut", "worth", "worths"]

Array = NDArray[np.float32]


class Graph(Protocol):
    """A quadratic form over samples, sum over pairs of c_ij (h_i - h_j)^2."""

    size: float  # sum of |c| over pairs, or an upper bound of it

    def laplacian_times(self, h: Array) -> Array:
        """Return L h for h (n,), or L H for several columns H (n, m)."""

    def quadratic_form(self, P: Array) -> Array:
        """Return P' L P (m, m), symmetric, for columns P (n, m)."""

    def best_thresholds(self, P: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For every column of projections P (n, m), the threshold whose bit sign(p - threshold) is worth most.

        Returns thresholds (m,) and worths (m,); a column without two distinct projections is worth -infinity.
        """


def worth(graph: Graph, h: Array) -> float:
    """sum over pairs of c_ij |h_i - h_j| for a bit h in -1/+1, where |h_i - h_j| = (h_i - h_j)^2 / 2."""
    return float(np.dot(h.astype(np.float64), graph.laplacian_times(h))) / 2


def worths(graph: Graph, H: Array) -> NDArray[np.float64]:
    """The same for every column of bits H (n, m)."""
    return np.einsum("ij,ij->j", H, graph.laplacian_times(H), dtype=np.float64) / 2


class PairGraph:
    """The pairs of listed sides, sorted once, so that edge weights come from side weights by one gather and sum."""

    def __init__(self, sides: Sequence[ListedSides], n: int, *, n_threads: int = 1) -> None:
        self.n = n
        self.n_threads = n_threads
        first = np.cumsum([0, *map(len, sides)], dtype=np.int32)  # sides of all kinds are numbered on
        parts = [(i, j, start + side, share) for start, (i, j, side, share) in zip(first, (s.pairs() for s in sides))]
        i, j, side, share = (np.concatenate(part) for part in zip(*parts))
        # Each pair stands in both rows of the symmetric matrix; equal pairs fall together and are summed.
        key = np.concatenate([i, j]).astype(np.int64) * n + np.concatenate([j, i])
        order = np.argsort(key, kind="stable")
        key = key[order]
        self._starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1], [True]]))
        row, column = np.divmod(key[self._starts[:-1]], n)
        self._indices = column.astype(np.uint32)
        self._indptr = np.searchsorted(row, np.arange(n + 1)).astype(np.uint64)
        self._side = side[order % len(i)]
        self._share = share[order % len(i)]

    def weighted(self, *per_side: NDArray[np.floating]) -> "SignedGraph":
        """The graph for one weight vector's side weights, one array for each kind of side."""
        by_side = np.concatenate(per_side, dtype=np.float32)
        data = np.empty(len(self._indices), dtype=np.float32)
        _edge_weights(self._starts, self._side, self._share, by_side, data)
        kept = np.flatnonzero(data)  # one of many weight vectors measures few of the sides
        if 2 * len(kept) > len(data):
            return SignedGraph(self._indptr, self._indices, data, self.n_threads)
        indptr = np.searchsorted(kept, self._indptr.astype(np.int64)).astype(np.uint64)
        return SignedGraph(indptr, self._indices[kept], data[kept], self.n_threads)


class SignedGraph:
    """Symmetric edge weights c (n, n) in CSR form.

    Row ends and columns are unsigned: numba then spends no time on the meaning of negative indices, and the products
    run four times as fast.
    """

    def __init__(self, indptr: NDArray[np.uint64], indices: NDArray[np.uint32], data: Array, n_threads: int) -> None:
        self.indptr, self.indices, self.data = indptr, indices, data
        self.n = len(indptr) - 1
        self.size = float(np.abs(data).sum(dtype=np.float64)) / 2
        self._cuts = _cuts_of_work(indptr, n_threads)
        self._degree = np.empty(self.n, dtype=np.float32)
        self._each_part(_row_sums, self._degree)

    def _each_part(self, kernel: Callable[..., None], *arrays: Array) -> None:
        """Run a kernel over row ranges of equal work; kernels release the interpreter lock."""

        def run(ends: tuple[int, int]) -> None:
            kernel(self.indptr, self.indices, self.data, *arrays, *ends)

        each(run, list(pairwise(self._cuts)), len(self._cuts) - 1)

    def laplacian_times(self, h: Array) -> Array:
        """Return L h for h (n,), or L H for several columns H (n, m)."""
        h = np.ascontiguousarray(h, dtype=np.float32)
        out = np.empty_like(h)
        self._each_part(_laplacian_times if h.ndim == 1 else _laplacian_times_columns, self._degree, h, out)
        return out

    def quadratic_form(self, P: Array) -> Array:
        """Return P' L P (m, m), symmetric, for columns P (n, m)."""
        projected = P.T @ self.laplacian_times(P)
        return (projected + projected.T) * np.float32(0.5)

    def best_thresholds(self, P: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The best threshold of every column, exactly.

        A pair is cut by every threshold between its two projections. Going up the sorted projections, passing sample
        i adds its pairs with samples above and takes off those with samples below, so the worth of all thresholds is
        one cumulative sum.
        """
        P = np.ascontiguousarray(P, dtype=np.float32)
        gain = np.empty_like(P)
        self._each_part(_gains, P, gain)
        order = np.argsort(P, axis=0, kind="stable")
        worths = 2 * np.cumsum(np.take_along_axis(gain, order, axis=0), axis=0, dtype=np.float64)
        return best_cut(np.take_along_axis(P, order, axis=0), worths)


def best_cut(P: Array, worths: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Best threshold and its worth per column, from ascending P (n, m) and the worth of a cut above each place."""
    if len(P) < 2:
        return np.zeros(P.shape[1]), np.full(P.shape[1], -np.inf)
    below, above = P[:-1].astype(np.float64), P[1:]
    # The middle of two neighbours must part them in float32 as well; equal neighbours cannot be parted.
    middle = ((below + above) / 2).astype(np.float32)
    worths = np.where((middle > below) & (middle <= above), worths[:-1], -np.inf)
    best, column = np.argmax(worths, axis=0), np.arange(P.shape[1])
    return middle[best, column].astype(np.float64), worths[best, column]


def _cuts_of_work(indptr: NDArray[np.uint64], n_threads: int) -> list[int]:
    """Row ranges with about equal numbers of entries; one range where threads would cost more than they give."""
    if n_threads == 1 or indptr[-1] < 200_000:
        return [0, len(indptr) - 1]
    return [*np.searchsorted(indptr, np.linspace(0, indptr[-1], n_threads + 1)[:-1]).tolist(), len(indptr) - 1]


@numba.njit(nogil=True, cache=True, fastmath=True)
def _row_sums(indptr, indices, data, out, start, stop):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        total = np.float32(0)
        for e in range(indptr[i], indptr[i + 1]):
            total += data[e]
        out[i] = total


@numba.njit(nogil=True, cache=True, fastmath=True)
def _laplacian_times(indptr, indices, data, degree, h, out, start, stop):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        total = np.float32(0)
        for e in range(indptr[i], indptr[i + 1]):
            total += data[e] * h[indices[e]]
        out[i] = degree[i] * h[i] - total


@numba.njit(nogil=True, cache=True, fastmath=True)
def _laplacian_times_columns(indptr, indices, data, degree, H, out, start, stop):  # type: ignore[no-untyped-def]
    m = H.shape[1]
    for i in range(start, stop):
        for c in range(m):
            out[i, c] = degree[i] * H[i, c]
        for e in range(indptr[i], indptr[i + 1]):
            j, w = indices[e], data[e]
            for c in range(m):
                out[i, c] -= w * H[j, c]


@numba.njit(nogil=True, cache=True)
def _edge_weights(starts, side, share, by_side, out):  # type: ignore[no-untyped-def]
    for e in range(len(out)):
        total = np.float32(0)
        for p in range(starts[e], starts[e + 1]):
            total += by_side[side[p]] * share[p]
        out[e] = total


@numba.njit(nogil=True, cache=True, fastmath=True)
def _gains(indptr, indices, data, P, out, start, stop):  # type: ignore[no-untyped-def]
    m = P.shape[1]
    for i in range(start, stop):
        for c in range(m):
            out[i, c] = 0
        for e in range(indptr[i], indptr[i + 1]):
            j, w = indices[e], data[e]
            for c in range(m):
                above = np.float32(P[j, c] > P[i, c]) - np.float32(P[j, c] < P[i, c])
                out[i, c] += w * above


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
        self.degree = (V.sum(axis=1, dtype=np.float64) + received[sides.y]).astype(np.float32)

    def laplacian_times(self, h: Array) -> Array:
        """Return L h for h (n,), or L H for several columns H (n, m).

        (L h)_i = degree_i h_i - sum_r V_ir mean_r(h) - (1/m_y) sum_j V_jy h_j, with y the class of i.
        """
        if h.ndim == 1:
            sums = np.bincount(self.sides.y, weights=h, minlength=len(self.sides.sizes)).astype(np.float32)
            out = self.degree * h
            out -= self.V @ (sums / self.sides.sizes)
            out -= ((h @ self.V) / self.sides.sizes)[self.sides.y]
            return out
        received = (self.V.T @ h) / self.sides.sizes[:, None]
        return self.degree[:, None] * h - self.V @ self.sides.means(h) - received[self.sides.y]

    def quadratic_form(self, P: Array) -> Array:
        """Return P' L P (m, m), symmetric, for columns P (n, m).

        It is P' degree P - A - A' with A = sum over classes r of (P' V_r) mean_r(P)'.
        """
        across = (P.T @ self.V) @ self.sides.means(P)
        return P.T @ (self.degree[:, None] * P) - across - across.T

    def best_thresholds(self, P: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The best threshold of every column, exactly.

        The worth of a bit is sum_r (sum_i V_ir - mean_r(h) sum_i V_ir h_i). Going up the sorted projections, one
        sample turns at a time, and with it its class's mean and the k weighted sums.
        """
        columns = np.ascontiguousarray(P.T, dtype=np.float32)
        thresholds, worths = np.empty((2, len(columns)))
        _best_cuts(self.V, self.sides.y, self.sides.sizes, columns, _ascending(columns), thresholds, worths)
        return thresholds, worths


def _ascending(P: Array) -> NDArray[np.uint32]:
    """Return the places of each row of P (m, n) in ascending order; equal values keep theirs.

    Value and place in one integer: numpy sorts integers many times faster than it sorts places by value.
    """
    keys = (P + np.float32(0)).view(np.int32)  # no negative zero
    keys = keys ^ ((keys >> 31) & 0x7FFFFFFF)  # integers in the order of the values
    keys = (keys.astype(np.int64) << 32) | np.arange(P.shape[1])
    keys.sort(axis=1)
    return keys.astype(np.uint32)  # the low half


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _best_cuts(V, y, sizes, P, order, thresholds, worths):  # type: ignore[no-untyped-def]
    """For every row of P (m, n), with its order, the threshold whose bit is worth most, and its worth."""
    n, k = V.shape
    total = np.zeros(k)
    for i in range(n):
        for r in range(k):
            total[r] += V[i, r]
    everything = total.sum()
    mean, signed, step = np.empty(k), np.empty(k), 2 / sizes.astype(np.float64)
    for c in range(len(P)):
        mean[:] = 1
        signed[:] = total
        product = everything  # sum_r mean_r signed_r
        thresholds[c], worths[c] = 0.0, -np.inf
        for place in range(n - 1):
            i = order[c, place]
            # Sample i turns from +1 to -1: first in the sums, then in its class's mean.
            turned = 0.0
            for r in range(k):
                turned += V[i, r] * mean[r]
                signed[r] -= 2 * V[i, r]
            own = y[i]
            product -= 2 * turned + step[own] * signed[own]
            mean[own] -= step[own]
            if everything - product > worths[c]:
                # The middle of two neighbours must part them in float32 as well; equal neighbours cannot be parted.
                below, above = P[c, i], P[c, order[c, place + 1]]
                middle = np.float32((np.float64(below) + np.float64(above)) / 2)
                if below < middle <= above:
                    thresholds[c], worths[c] = middle, everything - product
