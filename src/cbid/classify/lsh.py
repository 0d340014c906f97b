"""Nearest patches by locality-sensitive hashing with p-stable functions (Datar et al., 2004)."""

import numba
import numpy as np
from numpy.typing import NDArray

from cbid.classify.patch_search import Answers, Floats, in_shares

__all__ = ["LSHSearch"]

Keys = NDArray[np.uint64]

_CHUNK = 4096  # rows hashed at a time
_TOGETHER = 256  # rows of a bucket compared at a time, few enough for the second-level cache


class LSHSearch:
    """Rows that share a bucket with the query in any table are compared with it; the nearest of them are returned.

    A table's bucket is the values of ``n_functions`` functions floor((a.x + b) / bin_width), with directions a drawn
    evenly from the unit sphere and b from 0 to bin_width. (Directions with normal coordinates, the usual form, are
    sqrt(d) times as long: for the same buckets their bins are that much wider.) A query that is alone in all its
    buckets has no answer.
    """

    def __init__(self, rows: Floats, *, n_tables: int, n_functions: int, bin_width: float, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._rows = np.ascontiguousarray(rows)
        self._shape = n_tables, n_functions
        directions = rng.normal(size=(rows.shape[1], n_tables * n_functions))
        directions /= np.linalg.norm(directions, axis=0)
        self._directions = (directions / bin_width).astype(np.float32)
        self._shifts = rng.random(n_tables * n_functions, dtype=np.float32)
        # Sums of odd multiples modulo 2^64: two buckets of a table have one key with probability about 2^-63.
        self._multipliers = 2 * rng.integers(2**63, size=n_functions, dtype=np.uint64) + 1
        keys = self._keys(rows)  # (n, tables)
        self._order = np.argsort(keys, axis=0, kind="stable").astype(np.int32).T.copy()
        self._sorted = np.take_along_axis(keys.T, self._order, axis=1)

        self.nbytes = self._order.nbytes + self._sorted.nbytes + self._directions.nbytes

    def query(self, Q: Floats, k: int, n_threads: int) -> Answers:
        def search(part: Floats) -> Answers:
            keys = self._keys(part).T
            starts, ends = (
                np.stack([np.searchsorted(table, asked, side) for table, asked in zip(self._sorted, keys)])
                for side in ("left", "right")
            )
            starts[starts == ends] = len(self._rows)  # no bucket begins there
            by_bucket = np.argsort(starts, axis=1)
            distances, positions = _nearest_in_buckets(part, self._rows, self._order, by_bucket, starts, ends, k)
            return distances, positions

        return in_shares(search, np.ascontiguousarray(Q), n_threads)

    def _keys(self, X: Floats) -> Keys:
        keys = np.empty((len(X), self._shape[0]), np.uint64)
        for start in range(0, len(X), _CHUNK):
            part = X[start : start + _CHUNK]
            bins = np.floor(part @ self._directions + self._shifts).astype(np.int64).view(np.uint64)
            keys[start : start + _CHUNK] = bins.reshape(len(part), *self._shape) @ self._multipliers
        return keys


@numba.njit(nogil=True, cache=True, fastmath={"reassoc"})  # sums in any order, so that they run in lanes
def _squared_distance(a: Floats, b: Floats) -> np.float32:
    distance = np.float32(0)
    for j in range(len(a)):
        difference = a[j] - b[j]
        distance += difference * difference
    return distance


@numba.njit(nogil=True, cache=True)
def _nearest_in_buckets(
    Q: Floats,
    rows: Floats,
    order: NDArray[np.int32],
    by_bucket: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    k: int,
) -> Answers:
    """The k nearest of the rows order[t, starts[t, q]:ends[t, q]] over all tables t, for each query q.

    by_bucket[t]: the queries in the order of their buckets in table t. Rows lie at random places of a memory that no
    cache holds, so those of a bucket are brought together once for all the queries that ask for them.
    """
    distances = np.full((len(Q), k), np.float32(np.inf))
    positions = np.full((len(Q), k), -1)
    together = np.empty((_TOGETHER, rows.shape[1]), np.float32)
    for table in range(len(order)):
        first = 0
        while first < len(Q):
            start, end = starts[table, by_bucket[table, first]], ends[table, by_bucket[table, first]]
            last = first + 1
            while last < len(Q) and starts[table, by_bucket[table, last]] == start:
                last += 1
            for block in range(start, end, _TOGETHER):
                members = order[table, block : min(block + _TOGETHER, end)]
                for i in range(len(members)):
                    together[i] = rows[members[i]]
                for q in by_bucket[table, first:last]:
                    for i in range(len(members)):
                        distance = _squared_distance(Q[q], together[i])
                        if distance <= distances[q, k - 1]:
                            _insert(distances[q], positions[q], distance, members[i])
            first = last
    return distances, positions


@numba.njit(nogil=True, cache=True)
def _insert(distances: Floats, positions: NDArray[np.int64], distance: np.float32, row: int) -> None:
    """Put a row in its place among the nearest, unless another table had it; of equals the first row comes first."""
    for known in positions:
        if known == row:
            return
    at = len(distances)
    while at > 0 and (distance < distances[at - 1] or (distance == distances[at - 1] and row < positions[at - 1])):
        at -= 1
    if at < len(distances):
        distances[at + 1 :] = distances[at:-1].copy()
        positions[at + 1 :] = positions[at:-1].copy()
        distances[at], positions[at] = distance, row
