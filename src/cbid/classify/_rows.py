"""Compiled comparisons of queries with rows, for `flat` and `lsh`: heads first, then all values.

``slack`` (q,) is what distances of heads may exceed those of rows by, for rounding (`heads.slack`). All stand in one
file, because numba's cache asks only whether the file of a function has changed, not those of the
functions that it calls. ``distances`` (q, k) and ``positions`` (q, k) hold the nearest so far, in order, and are
changed in place; of rows equally far the first comes first.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["LANES", "nearest_by_bounds", "nearest_in_buckets"]

Floats = NDArray[np.float32]
Positions = NDArray[np.int64]
Numbers = NDArray[np.int32]

LANES = 16  # bounds looked at together
TOGETHER = 256  # rows of a bucket compared at a time, few enough for the second-level cache

_sums_in_lanes = njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})  # sums in any order
_plain = njit(nogil=True, cache=True)


@_sums_in_lanes
def _squared_distance(a: Floats, b: Floats) -> np.float32:
    distance = np.float32(0)
    for j in range(len(a)):
        difference = a[j] - b[j]
        distance += difference * difference
    return distance


@_plain
def _insert(distances: Floats, positions: Positions, distance: np.float32, row: int) -> None:
    """Put a row in its place among the nearest of one query, unless it is there."""
    for known in positions:
        if known == row:
            return
    at = len(distances)
    while at > 0 and (distance < distances[at - 1] or (distance == distances[at - 1] and row < positions[at - 1])):
        at -= 1
    if at < len(distances):
        for i in range(len(distances) - 1, at, -1):
            distances[i], positions[i] = distances[i - 1], positions[i - 1]
        distances[at], positions[at] = distance, row


# ---- flat: bounds come as a product of matrices ----


@_plain
def nearest_by_bounds(
    bounds: Floats, room: Floats, Q: Floats, rows: Floats, order: Numbers, distances: Floats, positions: Positions
) -> None:
    """Compare queries Q (q, d) with the rows at ``order`` (b,), where a bound (q, >= b) is less than the distance of
    the last of the nearest, and ``room`` (q,).

    Columns past b, up to a multiple of LANES, hold infinity.
    """
    last = distances.shape[1] - 1
    for q in range(len(Q)):
        bound, limit = bounds[q], distances[q, last] + room[q]
        for start in range(0, len(order), LANES):
            any_below = False
            for j in range(LANES):  # one comparison of registers
                any_below |= bound[start + j] < limit
            if any_below:
                for j in range(start, min(start + LANES, len(order))):
                    if bound[j] < limit:
                        distance = _squared_distance(Q[q], rows[order[j]])
                        if distance <= distances[q, last]:
                            _insert(distances[q], positions[q], distance, order[j])
                            limit = distances[q, last] + room[q]


# ---- lsh: rows that share a bucket with the query ----


@_plain
def nearest_in_buckets(
    Q: Floats,
    asked: Floats,
    slack: Floats,
    rows: Floats,
    heads: Floats,
    order: Numbers,
    by_bucket: Positions,
    starts: Positions,
    ends: Positions,
    distances: Floats,
    positions: Positions,
) -> None:
    """Compare each query by_bucket[t, i] with the rows order[t, starts[t, i]:ends[t, i]], in all tables t.

    asked, heads: heads of Q and of rows, or these themselves. by_bucket[t]: the queries in the order of their
    buckets in table t, so that those of one bucket follow each other. Rows lie at random places of a memory that no
    cache holds, so the heads of a bucket are brought together once for all the queries that ask for them.
    """
    last = distances.shape[1] - 1
    together = np.empty((TOGETHER, heads.shape[1]), np.float32)
    for table in range(len(order)):
        first = 0
        while first < len(Q):
            start, end = starts[table, first], ends[table, first]
            after = first + 1
            while after < len(Q) and starts[table, after] == start and ends[table, after] == end:
                after += 1
            for block in range(start, end, TOGETHER):
                members = order[table, block : min(block + TOGETHER, end)]
                for i in range(len(members)):
                    together[i] = heads[members[i]]
                for q in by_bucket[table, first:after]:
                    for i in range(len(members)):
                        if _squared_distance(asked[q], together[i]) <= distances[q, last] + slack[q]:
                            distance = _squared_distance(Q[q], rows[members[i]])
                            if distance <= distances[q, last]:
                                _insert(distances[q], positions[q], distance, members[i])
            first = after
