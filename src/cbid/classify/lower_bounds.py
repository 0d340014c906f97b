"""Nearest rows, with most comparisons settled by lower bounds of the distance.

A row x is *reduced* to (A (x - m), |(x - m) - A'A (x - m)|) with a mean m and orthonormal axes A: its coordinates
along the axes, and the length of the rest. Two lengths differ by at most the distance of the vectors. Reduced rows
are therefore never farther apart than the rows, for any axes. Along principal axes they are nearly as far apart, and
a comparison of a few values often replaces one of all values.

The compiled functions are in one file because numba's cache checks only the file of a function, not those of the
functions that it calls. In all of them ``distances`` (q, k) and ``positions`` (q, k) hold the nearest rows so far, in
order, and are changed in place; of equally distant rows the first comes first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cbid.learning.axes import principal_axes

Floats = NDArray[np.float32]
Positions = NDArray[np.int64]
RowNumbers = NDArray[np.int32]

_SAMPLE = 20_000  # rows for finding the axes
_SHARE = 0.88  # of the variance that the axes hold: more leaves fewer rows to compare in full
_MIN_WIDTH, _MAX_WIDTH = 4, 1024  # values of a row: fewer gain nothing, for more the axes take long to find
_CHUNK = 8192  # rows reduced at a time
# Possible excess of squared distances of reduced rows by rounding: a share of the squared lengths of both, several
# times what float32 loses in the products, and more than it loses when squares underflow.
ROUNDING, TINY = 3e-5, 1e-36

LANES = 16  # bounds compared together
_BLOCK = 256  # rows of a bucket compared at a time; they fit the second-level cache


def bound_axes(parts: Sequence[Floats]) -> Floats | None:
    """Return axes (d, m) along which the rows of the parts vary most, each part around its own mean.

    None if reduced rows would need more than half of the memory of the rows, or for rows of more than 1,024 values.
    """
    width = parts[0].shape[1]
    n = sum(len(part) for part in parts)
    if n < 2 or not _MIN_WIDTH <= width <= _MAX_WIDTH:
        return None
    step = -(-n // _SAMPLE)
    sample = np.concatenate([part[::step] - _mean(part[::step]) for part in parts])
    variance = float(np.einsum("ij,ij->", sample, sample, dtype=np.float64)) / len(sample)
    if not 1e-30 < variance < 1e30:  # constant rows, or squares beyond float32
        return None
    found = principal_axes(sample, width // 2)[1]
    enough = np.flatnonzero(np.cumsum(found.lengths**2) >= _SHARE * variance)
    if not len(enough) or enough[0] + 2 > width // 2:
        return None
    return np.ascontiguousarray(found.vectors[: enough[0] + 1].T, np.float32)


def _mean(rows: Floats) -> Floats:
    return rows.mean(axis=0, dtype=np.float64).astype(np.float32)


@dataclass(frozen=True)
class Reduction:
    """The map from rows to reduced rows: mean (d,) and axes (d, m), float32.

    The bounds hold around any mean; one near the rows loses less by rounding.
    """

    mean: Floats
    axes: Floats

    @classmethod
    def around(cls, rows: Floats, axes: Floats) -> Self:
        """Return the reduction around the mean of these rows."""
        return cls(_mean(rows), axes)

    def __call__(self, rows: Floats) -> Floats:
        """Return reduced rows (n, m + 1) of rows (n, d)."""
        m = self.axes.shape[1]
        out = np.empty((len(rows), m + 1), np.float32)
        for start in range(0, len(rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            centred = rows[part] - self.mean
            out[part, :m] = centred @ self.axes
            # From the rest itself: a difference of squares would lose its digits.
            centred -= out[part, :m] @ self.axes.T
            out[part, m] = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        return out


def rounding_slack(queries: Floats, most: float) -> Floats:
    """Return the possible excess (q,) of squared distances by rounding.

    From reduced queries (q, m) to reduced rows whose squared length is at most ``most``.
    """
    return np.float32(ROUNDING) * (np.einsum("ij,ij->i", queries, queries) + np.float32(most)) + np.float32(TINY)


_reassociate = njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})  # sums in any order
_compiled = njit(nogil=True, cache=True)


@_reassociate
def _squared_distance(a: Floats, b: Floats) -> np.float32:
    distance = np.float32(0)
    for j in range(len(a)):
        difference = a[j] - b[j]
        distance += difference * difference
    return distance


@_compiled
def _insert(distances: Floats, positions: Positions, distance: np.float32, row: int) -> None:
    """Insert a row into the nearest of one query, unless it is among them."""
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


@_compiled
def nearest_by_bounds(
    bounds: Floats, slack: Floats, Q: Floats, rows: Floats, order: RowNumbers, distances: Floats, positions: Positions
) -> None:
    """Compare queries Q (q, d) with the rows at ``order`` (b,) whose bound allows them to be among the nearest.

    These are rows with a bound (q, >= b) below the distance of the last of the nearest plus ``slack`` (q,). Columns
    past b, up to a multiple of LANES, hold infinity.
    """
    last = distances.shape[1] - 1
    for q in range(len(Q)):
        bound, limit = bounds[q], distances[q, last] + slack[q]
        for start in range(0, len(order), LANES):
            any_below = False
            for j in range(LANES):  # one SIMD comparison
                any_below |= bound[start + j] < limit
            if any_below:
                for j in range(start, min(start + LANES, len(order))):
                    if bound[j] < limit:
                        distance = _squared_distance(Q[q], rows[order[j]])
                        if distance <= distances[q, last]:
                            _insert(distances[q], positions[q], distance, order[j])
                            limit = distances[q, last] + slack[q]


@_compiled
def nearest_in_buckets(
    Q: Floats,
    reduced_queries: Floats,
    slack: Floats,
    rows: Floats,
    reduced_rows: Floats,
    order: RowNumbers,
    by_bucket: Positions,
    starts: Positions,
    ends: Positions,
    distances: Floats,
    positions: Positions,
) -> None:
    """Compare each query by_bucket[t, i] with the rows order[t, starts[t, i]:ends[t, i]], in all tables t.

    The reduced arrays may be Q and rows themselves. by_bucket[t] sorts the queries by their bucket in table t. Rows
    are at random addresses of memory: the reduced rows of a bucket are copied together once for all its queries.
    """
    last = distances.shape[1] - 1
    block_rows = np.empty((_BLOCK, reduced_rows.shape[1]), np.float32)
    for table in range(len(order)):
        first = 0
        while first < len(Q):
            start, end = starts[table, first], ends[table, first]
            after = first + 1
            while after < len(Q) and starts[table, after] == start and ends[table, after] == end:
                after += 1
            for block in range(start, end, _BLOCK):
                members = order[table, block : min(block + _BLOCK, end)]
                for i in range(len(members)):
                    block_rows[i] = reduced_rows[members[i]]
                for q in by_bucket[table, first:after]:
                    for i in range(len(members)):
                        if _squared_distance(reduced_queries[q], block_rows[i]) <= distances[q, last] + slack[q]:
                            distance = _squared_distance(Q[q], rows[members[i]])
                            if distance <= distances[q, last]:
                                _insert(distances[q], positions[q], distance, members[i])
            first = after
