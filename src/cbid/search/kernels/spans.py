"""The scan of IVF: each query has its own list of spans of positions, nearest cell first.

Within one cell codes are sorted by id, from cell to cell they are not: here ties are broken by the id itself.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.candidates import find_candidates, make_desk, open_chunk
from cbid.search.kernels.chunks import chunk_blocks, code_at
from cbid.search.kernels.compile import compiled, helper
from cbid.search.kernels.plans import judge_level, make_plans, plan_level
from cbid.search.kernels.registers import BLOCKS
from cbid.search.kernels.tables import exact_distance, make_tables

__all__ = ["scan_spans"]


@compiled
def scan_spans(
    blocks: NDArray[np.uint8],
    ids: NDArray[np.int64],
    keep: NDArray[np.uint8],
    spans: NDArray[np.int64],
    edges: NDArray[np.int64],
    if_zero: NDArray[np.float64],
    if_one: NDArray[np.float64],
    portable: bool | None,
    thresholds: NDArray[np.float32],
    distances: NDArray[np.float32],
    positions: NDArray[np.int64],
) -> None:
    """The k nearest codes of each query by (distance, id), written to ``distances`` and ``positions`` (q, k).

    ``spans`` (s, 2) are first positions and ends; those of query i are edges[i] to edges[i + 1]. ``keep`` is
    empty or has a zero for each code to pass over; ``portable`` as in `_candidates`;
    only distances below ``thresholds`` (q,) count.
    """
    n_queries, k = distances.shape
    tables = make_tables(if_zero, if_one)
    width = blocks.shape[1]
    desk, plans = make_desk(width, chunk_blocks(width, len(blocks), k)), make_plans(n_queries)
    distances[:] = np.inf
    positions[:] = -1
    for i in range(n_queries):
        done = 0
        for s in range(edges[i], edges[i + 1]):
            start, stop = spans[s, 0], spans[s, 1]
            first, end = start // 32, (stop + 31) // 32
            while first < end:
                last = min(first + chunk_blocks(width, done, k), end)
                # Whole steps of the filters, if need be into the next cell: what is past `stop` is left out.
                whole = first + -(-(last - first) // BLOCKS) * BLOCKS
                last = whole if whole <= len(blocks) else last
                chunk = open_chunk(blocks, first, last, start, stop, keep, portable, 1, desk)
                if plans.until[i] <= done:
                    plan_level(plans, i, tables, thresholds[i], done)
                find_candidates(blocks, chunk, tables, i, 1, thresholds, plans.level[i], portable, desk)
                wrong = 0
                for c in range(desk.counts[0]):
                    position = code_at(
                        desk.candidates[0, c], 32 * first, chunk.copied, desk.places, start, stop, keep
                    )
                    if position < 0:
                        continue
                    distance = exact_distance(tables.base[i], tables.costs[i], tables.wanted[i], blocks, position)
                    if distance >= thresholds[i] or not _insert(ids, distances[i], positions[i], distance, position):
                        wrong += 1
                    elif positions[i, k - 1] >= 0:
                        # Just above the k-th best: a code as far as it with a smaller id is still wanted.
                        above = np.nextafter(distances[i, k - 1], np.float32(np.inf))
                        thresholds[i] = min(thresholds[i], above)
                if wrong > 0:
                    judge_level(plans, i, tables, wrong, done, done + last - first)
                done += last - first
                first = last


@helper
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
