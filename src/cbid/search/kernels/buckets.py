"""The nearest of short codes by buckets: a table or two, each with the codes in the order of some of their bits.

This is multi-index hashing (Norouzi, Punjani and Fleet, 2012) with weights. A code in none of the buckets looked at
differs from the query, in the bits of each table, by what was not looked up there. Differences come in order of their
cost, so the costs of the next one in each table add up to a bound on what is left, and a search ends as soon as
something nearer is known. One order serves all queries.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.compile import compiled, helper

__all__ = ["nearest_in_buckets"]

Words = NDArray[np.uint32]
Floats = NDArray[np.float64]


@compiled
def nearest_in_buckets(
    stored: Words, starts: NDArray[np.int32], shifts: NDArray[np.int64], tables: NDArray[np.uint8], masks: Words,
    bounds: Floats, costs: Floats, unit: float, queries: Words, out: NDArray[np.float32],
) -> None:  # fmt: skip
    """``unit`` times the least distance of each query to the codes, written to ``out`` (q,).

    stored: (tables, n) the codes as words, in the order of each table's keys, which are the bits from ``shifts`` on.
    starts: (tables, keys + 1) where the codes of a key begin.
    tables, masks, bounds: the buckets in the order to look at them: a table, the key's difference from the query's,
    and what a code that was not met before costs at least.
    costs: (4, 256) of the values of the bytes of a difference, the lowest byte first.
    """
    n, n_keys = stored.shape[1], starts.shape[1] - 1
    for q in range(len(queries)):
        query, best, seen, i = queries[q], np.inf, 0, 0
        while i < len(tables) and bounds[i] < best and 2 * seen < n:
            table = tables[i]
            key = (np.int64(query) >> shifts[table] & (n_keys - 1)) ^ np.int64(masks[i])
            begin, end = starts[table, key], starts[table, key + 1]
            best = min(best, _nearest(stored[table], begin, end, query, costs))
            seen += end - begin
            i += 1
        if i == len(tables) or bounds[i] < best:  # far from everything: one pass over all costs less
            best = min(best, _nearest(stored[0], 0, n, query, costs))
        out[q] = unit * best


@helper
def _nearest(codes: Words, begin: int, end: int, query: np.uint32, costs: Floats) -> float:
    best = np.inf
    for i in range(begin, end):
        difference = codes[i] ^ query
        high = costs[3, difference >> 24] + costs[2, difference >> 16 & 255]
        best = min(best, high + (costs[1, difference >> 8 & 255] + costs[0, difference & 255]))
    return best
