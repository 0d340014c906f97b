"""The scan of IVF: each query has its own list of spans of positions, nearest cell first.

Within one cell codes are sorted by id, from cell to cell they are not: here ties are broken by the id itself.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.search._compile import compiled
from cbid.search._scan import GROUP, WRONG_SHARE, _candidates_of_group
from cbid.search._tables import exact_distance, make_tables

__all__ = ["scan_spans"]

MOST_BLOCKS = 128  # of a chunk; the first ones are small, so that the k-th best distance falls early


@compiled
def scan_spans(
    blocks: NDArray[np.uint8],
    ids: NDArray[np.int64],
    keep: NDArray[np.uint8],
    spans: NDArray[np.int64],
    edges: NDArray[np.int64],
    if_zero: NDArray[np.float64],
    if_one: NDArray[np.float64],
    simd: bool,
    thresholds: NDArray[np.float32],
    distances: NDArray[np.float32],
    positions: NDArray[np.int64],
) -> None:
    """The k nearest codes of each query by (distance, id), written to ``distances`` and ``positions`` (q, k).

    ``spans`` (s, 2) are first positions and ends; those of query i are edges[i] to edges[i + 1]. ``keep`` is
    empty or has a zero for each code to pass over; only distances below ``thresholds`` (q,) count.
    """
    n_queries, k = distances.shape
    tables = make_tables(if_zero, if_one)
    candidates = np.empty((GROUP, 32 * MOST_BLOCKS), np.int32)
    counts = np.zeros(GROUP, np.int64)
    distances[:] = np.inf
    positions[:] = -1
    for i in range(n_queries):
        wide, done = not simd, 0
        for s in range(edges[i], edges[i + 1]):
            start, stop = spans[s, 0], spans[s, 1]
            first, end = start // 32, (stop + 31) // 32
            while first < end:
                last = min(first + min(max(done // 2, 4, (k + 31) // 32), MOST_BLOCKS), end)
                _candidates_of_group(
                    blocks, first, last, tables, i, 1, thresholds, wide, simd, candidates, counts
                )
                wrong = 0
                for c in range(counts[0]):
                    position = 32 * first + candidates[0, c]
                    if position < start or position >= stop or (len(keep) > 0 and keep[position] == 0):
                        continue
                    distance = exact_distance(tables.exact[i], blocks, position)
                    if distance >= thresholds[i] or not _insert(
                        ids, distances[i], positions[i], distance, position
                    ):
                        wrong += 1
                    elif positions[i, k - 1] >= 0:
                        # Just above the k-th best: a code as far as it with a smaller id is still wanted.
                        above = np.nextafter(distances[i, k - 1], np.float32(np.inf))
                        thresholds[i] = min(thresholds[i], above)
                wide = wide or wrong > WRONG_SHARE * 32 * (last - first)
                done += last - first
                first = last


@compiled
def _insert(
    ids: NDArray[np.int64],
    distances: NDArray[np.float32],
    positions: NDArray[np.int64],
    distance: np.float32,
    position: int,
) -> bool:
    """Put a code in its place among the k best, kept in order; whether it was among them."""
    place = len(distances)
    while place > 0 and (
        positions[place - 1] < 0
        or distance < distances[place - 1]
        or (distance == distances[place - 1] and ids[position] < ids[positions[place - 1]])
    ):
        place -= 1
    if place == len(distances):
        return False
    for i in range(len(distances) - 1, place, -1):
        distances[i], positions[i] = distances[i - 1], positions[i - 1]
    distances[place], positions[place] = distance, position
    return True
