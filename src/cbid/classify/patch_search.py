"""Structures that find the nearest patches: flat, kd-trees, hashing, and codes.

A structure is built over the rows (n, width) of some patches. ``query(Q, k, n_threads)`` returns distances (q, k)
float32, nearest first (squared Euclidean, or weighted Hamming of codes), and positions (q, k) int64 of the rows. With
fewer than k rows found, the rest has distance inf and position -1. ``nbytes`` is the memory in addition to the rows.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from cbid.classify.lower_bounds import (
    LANES,
    ROUNDING,
    TINY,
    Reduction,
    nearest_by_bounds,
    nearest_in_buckets,
    rounding_slack,
)
from cbid.extras import missing_extra
from cbid.search.blocks import to_blocks
from cbid.search.queries import Queries
from cbid.search.scan import topk
from cbid.threads import faiss_products, faiss_threads

Floats = NDArray[np.float32]
Nearest = tuple[Floats, NDArray[np.int64]]  # distances and positions, (q, k) each

_PRODUCT_QUERIES, _PRODUCT_ROWS = 1024, 512  # of one matrix product, which fits the second-level cache
_HASHED_ROWS = 4096  # rows hashed at a time


class PatchSearch(Protocol):
    """The interface of every structure."""

    nbytes: int

    def query(self, Q: NDArray[Any], k: int, n_threads: int) -> Nearest: ...


class FlatSearch:
    """Exact search by all distances.

    With the axes (width, m) of lower bounds (``bound_axes``), rows are compared in full only if their bound is below
    the nearest distance so far. Without them all distances are computed by matrix products (faiss), after ``centre``
    (width,) is subtracted. Structures whose distances are compared need the same centre.
    """

    def __init__(self, rows: Floats, axes: Floats | None = None, centre: Floats | None = None) -> None:
        self._reduction = None if axes is None else Reduction.around(rows, axes)
        self._centre = centre if axes is None else None
        self._rows = np.ascontiguousarray(rows if self._centre is None else rows - self._centre)
        self.nbytes = 0 if self._centre is None else self._rows.nbytes
        if self._reduction is not None:
            # Shuffled: near rows then come early and give good bounds for the rest.
            self._order = np.random.default_rng(0).permutation(len(rows)).astype(np.int32)
            self._reduced = _padded(self._reduction(rows)[self._order])
            self.nbytes += self._reduced.nbytes + self._order.nbytes

    def query(self, Q: Floats, k: int, n_threads: int) -> Nearest:
        if self._reduction is not None:
            with threadpool_limits(1, user_api="blas") if n_threads > 1 else nullcontext():
                return _in_threads(lambda part: self._by_bounds(part, k), np.ascontiguousarray(Q), n_threads)
        import faiss

        Q = Q if self._centre is None else Q - self._centre
        with faiss_threads(n_threads), faiss_products(True):
            distances, positions = faiss.knn(np.ascontiguousarray(Q), self._rows, k)
        distances[positions < 0] = np.inf
        return np.maximum(distances, 0), positions  # |q|^2 - 2 q.x + |x|^2 may round to just below zero

    def _by_bounds(self, Q: Floats, k: int) -> Nearest:
        assert self._reduction is not None
        distances, positions = _nothing_found(len(Q), k)
        queries = self._reduction(Q)
        # The product gives |x|^2 - 2 q.x; the rest of the distance, |q|^2, is the same for all rows.
        slack = np.float32(TINY) - np.float32(1 - ROUNDING) * np.einsum("ij,ij->i", queries, queries)
        queries = np.hstack([-2 * queries, np.ones((len(Q), 1), np.float32)])
        bounds = np.empty(_PRODUCT_QUERIES * _PRODUCT_ROWS, np.float32)
        for start in range(0, len(self._reduced), _PRODUCT_ROWS):
            reduced = self._reduced[start : start + _PRODUCT_ROWS]
            order = self._order[start : start + _PRODUCT_ROWS]
            for first in range(0, len(Q), _PRODUCT_QUERIES):
                part = slice(first, first + _PRODUCT_QUERIES)
                out = bounds[: len(queries[part]) * len(reduced)].reshape(-1, len(reduced))
                np.dot(queries[part], reduced.T, out=out)
                nearest_by_bounds(out, slack[part], Q[part], self._rows, order, distances[part], positions[part])
        return distances, positions


def _padded(reduced: Floats) -> Floats:
    """Append the squared lengths minus the rounding error as a column; pad to LANES with rows at infinity."""
    out = np.zeros((-(-len(reduced) // LANES) * LANES, reduced.shape[1] + 1), np.float32)
    out[: len(reduced), :-1] = reduced
    out[: len(reduced), -1] = np.float32(1 - ROUNDING) * np.einsum("ij,ij->i", reduced, reduced)
    out[len(reduced) :, -1] = np.inf
    return out


def far_centre(parts: Sequence[Floats]) -> Floats | None:
    """Return the mean of all rows if it is so far from zero that matrix products would lose digits.

    Otherwise None: rows are then searched without a copy.
    """
    n = sum(len(part) for part in parts)
    mean = sum(part.sum(axis=0, dtype=np.float64) for part in parts) / n
    squares = sum(float(np.einsum("ij,ij->", part, part, dtype=np.float64)) for part in parts) / n
    # The mean square is |mean|^2 plus the variance; here the variance is less than a tenth of it.
    return mean.astype(np.float32) if mean @ mean > 0.9 * squares else None


class KDTreeSearch:
    """kd-trees of OpenCV's FLANN, searched best bin first (Beis and Lowe, 1997).

    A search stops after ``checks`` comparisons of a query with a row, over all ``n_trees`` trees, which split at
    random among the dimensions of largest variance.
    """

    def __init__(self, rows: Floats, *, checks: int, n_trees: int, seed: int) -> None:
        try:
            import cv2
        except ImportError as error:
            raise missing_extra("search='kd-tree'", "images") from error
        self._rows = np.ascontiguousarray(rows)  # FLANN keeps a reference
        cv2.setRNGSeed(seed)  # FLANN's generator
        self._index = cv2.flann.Index(self._rows, {"algorithm": 1, "trees": n_trees})  # 1: kd-trees
        self._checks = checks
        # A tree has nearly two nodes for each row, each with a dimension, a value and two pointers.
        self.nbytes = 2 * len(rows) * n_trees * 24

    def query(self, Q: Floats, k: int, n_threads: int) -> Nearest:
        found = min(k, len(self._rows))

        def search(part: Floats) -> Nearest:
            positions, distances = self._index.knnSearch(part, found, params={"checks": self._checks})
            return np.asarray(distances, np.float32), np.asarray(positions, np.int64)

        distances, positions = _in_threads(search, np.ascontiguousarray(Q), n_threads)
        missing = ((0, 0), (0, k - found))
        return np.pad(distances, missing, constant_values=np.inf), np.pad(positions, missing, constant_values=-1)


class LSHSearch:
    """Locality-sensitive hashing with p-stable functions (Datar et al., 2004).

    A query is compared with the rows that share a bucket with it in any table. The bucket of a table is the values of
    ``n_functions`` functions floor((a.x + b) / bin_width), with directions a drawn uniformly from the unit sphere and
    b from 0 to bin_width. (The usual directions with normal coordinates are sqrt(d) times as long: for the same
    buckets their bins are that much wider.) A query without a row in its buckets finds nothing. ``axes`` are those of
    lower bounds (``bound_axes``), or None.
    """

    def __init__(
        self,
        rows: Floats,
        *,
        n_tables: int,
        n_functions: int,
        bin_width: float,
        seed: int,
        axes: Floats | None = None,
    ) -> None:
        rng = np.random.default_rng(seed)
        self._rows = np.ascontiguousarray(rows)
        self._shape = n_tables, n_functions
        directions = rng.normal(size=(rows.shape[1], n_tables * n_functions))
        directions /= np.linalg.norm(directions, axis=0)
        self._directions = (directions / bin_width).astype(np.float32)
        self._shifts = rng.random(n_tables * n_functions, dtype=np.float32)
        # Sums of odd multiples modulo 2^64: two buckets of a table share a key with probability about 2^-63.
        self._multipliers = 2 * rng.integers(2**63, size=n_functions, dtype=np.uint64) + 1
        keys = self._keys(rows)  # (n, tables)
        self._order = np.argsort(keys, axis=0, kind="stable").astype(np.int32).T.copy()
        self._sorted = np.take_along_axis(keys.T, self._order, axis=1)
        self.nbytes = self._order.nbytes + self._sorted.nbytes + self._directions.nbytes
        self._reduction, self._reduced = None, self._rows
        if axes is not None:
            self._reduction = Reduction.around(rows, axes)
            self._reduced = self._reduction(rows)
            self._most = float(np.einsum("ij,ij->i", self._reduced, self._reduced).max(initial=0.0))
            self.nbytes += self._reduced.nbytes

    def query(self, Q: Floats, k: int, n_threads: int) -> Nearest:
        return _in_threads(lambda part: self._query(part, k), np.ascontiguousarray(Q), n_threads)

    def _query(self, Q: Floats, k: int) -> Nearest:
        keys = self._keys(Q).T
        by_bucket = np.argsort(keys, axis=1)
        keys = np.take_along_axis(keys, by_bucket, axis=1)  # sorted keys are found faster
        starts, ends = (
            np.stack([np.searchsorted(table, wanted, side) for table, wanted in zip(self._sorted, keys)])
            for side in ("left", "right")
        )
        queries, slack = Q, np.zeros(len(Q), np.float32)
        if self._reduction is not None:
            queries = self._reduction(Q)
            slack = rounding_slack(queries, self._most)
        found = _nothing_found(len(Q), k)
        nearest_in_buckets(Q, queries, slack, self._rows, self._reduced, self._order, by_bucket, starts, ends, *found)
        return found

    def _keys(self, X: Floats) -> NDArray[np.uint64]:
        keys = np.empty((len(X), self._shape[0]), np.uint64)
        for start in range(0, len(X), _HASHED_ROWS):
            part = X[start : start + _HASHED_ROWS]
            bins = np.floor(part @ self._directions + self._shifts).astype(np.int64).view(np.uint64)
            keys[start : start + _HASHED_ROWS] = bins.reshape(len(part), *self._shape) @ self._multipliers
        return keys


class CodeSearch:
    """Exact search of packed codes by plain or weighted Hamming distance (``cbid.search.scan``)."""

    def __init__(self, rows: NDArray[np.uint8], *, n_bits: int, weights: ArrayLike | None) -> None:
        self._blocks, self._n = to_blocks(rows), len(rows)
        self._n_bits, self._weights = n_bits, weights
        self.nbytes = self._blocks.nbytes

    def query(self, Q: NDArray[np.uint8], k: int, n_threads: int) -> Nearest:
        queries = Queries.from_codes(Q, self._n_bits, self._weights)
        positions, distances = topk(self._blocks, self._n, queries, k, n_threads=n_threads)
        return distances, positions


def _nothing_found(n_queries: int, k: int) -> Nearest:
    return np.full((n_queries, k), np.inf, np.float32), np.full((n_queries, k), -1, np.int64)


def _in_threads(search: Callable[[NDArray[Any]], Nearest], Q: NDArray[Any], n_threads: int) -> Nearest:
    """Run ``search`` on equal parts of the queries, one thread each; it must release Python's lock."""
    parts = np.array_split(Q, max(1, min(n_threads, len(Q))))
    if len(parts) == 1:
        return search(Q)
    with ThreadPoolExecutor(len(parts)) as pool:
        distances, positions = zip(*pool.map(search, parts))
    return np.concatenate(distances), np.concatenate(positions)
