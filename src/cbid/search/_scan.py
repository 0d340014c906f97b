"""The scans: codes in chunks that stay in the cache, a filter by lower bounds, the exact distance of what
passes.

Both scans go over the chunks in order of position and, within a chunk, over groups of queries. The filter
gives each query its candidates; these get the exact distance. As the k-th best distance falls, so does the
limit that the filter works with; chunks grow from a few codes, so that it falls early.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.search._filters import filter_narrow_1, filter_narrow_4, filter_wide_1, filter_wide_4
from cbid.search._compile import compiled
from cbid.search._heap import push, sort_heap
from cbid.search._portable import filter_portable
from cbid.search._tables import Tables, exact_distance, limits, make_tables

__all__ = ["scan_topk", "scan_within"]

Blocks = NDArray[np.uint8]
Floats = NDArray[np.float64]

CHUNK_BYTES = 1 << 17  # half of a small second-level cache
CHUNK_CODES = 1 << 15  # bounds the list of candidates of short codes
GROUP = 4  # queries whose sums are kept in registers at a time
# More wrong candidates than this share of the codes cost more than the sharper bound of 16-bit sums.
WRONG_SHARE = 1 / 128


@compiled
def _chunk_blocks(width: int, blocks_done: int, k: int) -> int:
    """Blocks of the next chunk: half as many as were done, from enough for k codes up to a cacheful."""
    most = max(min(CHUNK_BYTES // (32 * width), CHUNK_CODES // 32), 8)
    return min(max(blocks_done // 2, 4, min((k + 31) // 32, most)), most)


@compiled
def _candidates_of_group(
    blocks: Blocks,
    first: int,
    last: int,
    tables: Tables,
    q: int,
    size: int,
    thresholds: NDArray[np.float32],
    wide: bool,
    simd: bool,
    candidates: NDArray[np.int32],
    counts: NDArray[np.int64],
) -> None:
    """Candidates of queries q <= i < q + size in blocks first <= b < last, one row of ``candidates`` each."""
    group_limits = np.zeros(GROUP, np.int64)
    check = 0
    for slot in range(size):
        i = q + slot
        group_limits[slot] = limits(tables, i, thresholds[i], wide)
        counts[slot] = 0
        if group_limits[slot] > 0:
            # Until here few blocks can be left; an even number, as the wide filters take columns in pairs.
            usual = np.searchsorted(tables.typical[i], np.float64(thresholds[i]))
            check = max(check, usual + 2 - usual % 2)
    if check == 0:
        return
    quantised = (tables.wide if wide else tables.narrow)[q : q + GROUP]
    order = tables.order
    if not simd:
        for slot in range(size):
            if group_limits[slot] > 0:
                counts[slot] = filter_portable(
                    blocks, first, last, quantised[slot], order, group_limits[slot], candidates[slot]
                )
    elif size > 2:
        if wide:
            filter_wide_4(blocks, first, last, quantised, order, check, group_limits, candidates, counts)
        else:
            filter_narrow_4(blocks, first, last, quantised, order, check, group_limits, candidates, counts)
    else:
        for slot in range(size):
            one = slice(slot, slot + 1)
            if wide:
                filter_wide_1(
                    blocks, first, last, quantised[one], order, check, group_limits[one],
                    candidates[one], counts[one],
                )  # fmt: skip
            else:
                filter_narrow_1(
                    blocks, first, last, quantised[one], order, check, group_limits[one],
                    candidates[one], counts[one],
                )  # fmt: skip


@compiled
def scan_topk(
    blocks: Blocks,
    start: int,
    stop: int,
    keep: NDArray[np.uint8],
    if_zero: Floats,
    if_one: Floats,
    simd: bool,
    thresholds: NDArray[np.float32],
    distances: NDArray[np.float32],
    positions: NDArray[np.int64],
) -> None:
    """The k nearest codes among start <= position < stop, written to ``distances`` and ``positions`` (q, k).

    ``keep`` is empty or has a zero for each code to pass over; only distances below ``thresholds`` (q,)
    count, which are lowered as better codes are found.
    """
    n_queries, k = distances.shape
    tables = make_tables(if_zero, if_one)
    sizes = np.zeros(n_queries, np.int64)
    wide = np.full(n_queries, not simd)
    width = blocks.shape[1]
    first, end = start // 32, (stop + 31) // 32
    candidates = np.empty((GROUP, 32 * _chunk_blocks(width, end, k)), np.int32)
    counts = np.zeros(GROUP, np.int64)
    while first < end:
        last = min(first + _chunk_blocks(width, first - start // 32, k), end)
        for q in range(0, n_queries, GROUP):
            group = min(GROUP, n_queries - q)
            _candidates_of_group(
                blocks, first, last, tables, q, group, thresholds, wide[q], simd, candidates, counts
            )
            wrong = 0
            for slot in range(group):
                i = q + slot
                threshold = thresholds[i]
                for c in range(counts[slot]):
                    position = 32 * first + candidates[slot, c]
                    if position < start or position >= stop or (len(keep) > 0 and keep[position] == 0):
                        continue
                    distance = exact_distance(tables.exact[i], blocks, position)
                    wrong += distance >= threshold
                    # Positions rise, so a code as far as the worst of k comes after it.
                    if distance < thresholds[i]:
                        sizes[i] = push(distances[i], positions[i], sizes[i], distance, position)
                        if sizes[i] == k:
                            thresholds[i] = min(thresholds[i], distances[i, 0])
            if wrong > WRONG_SHARE * 32 * (last - first) * group:
                wide[q] = True
        first = last
    for i in range(n_queries):
        sort_heap(distances[i], positions[i], sizes[i])


@compiled
def scan_within(
    blocks: Blocks,
    start: int,
    stop: int,
    keep: NDArray[np.uint8],
    if_zero: Floats,
    if_one: Floats,
    simd: bool,
    thresholds: NDArray[np.float32],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """All codes among start <= position < stop with distance < threshold: query, position and distance of
    each."""
    n_queries = len(thresholds)
    tables = make_tables(if_zero, if_one)
    wide = np.full(n_queries, not simd)
    width = blocks.shape[1]
    first, end = start // 32, (stop + 31) // 32
    candidates = np.empty((GROUP, 32 * _chunk_blocks(width, end, 1)), np.int32)
    counts = np.zeros(GROUP, np.int64)
    found = 0
    queries = np.empty(1024, np.int64)
    positions = np.empty(1024, np.int64)
    distances = np.empty(1024, np.float32)
    while first < end:
        last = min(first + _chunk_blocks(width, first - start // 32, 1), end)
        for q in range(0, n_queries, GROUP):
            group = min(GROUP, n_queries - q)
            _candidates_of_group(
                blocks, first, last, tables, q, group, thresholds, wide[q], simd, candidates, counts
            )
            wrong = 0
            for slot in range(group):
                i = q + slot
                if found + counts[slot] > len(queries):
                    more = found + counts[slot] + len(queries)
                    queries = np.concatenate((queries, np.empty(more, np.int64)))
                    positions = np.concatenate((positions, np.empty(more, np.int64)))
                    distances = np.concatenate((distances, np.empty(more, np.float32)))
                for c in range(counts[slot]):
                    position = 32 * first + candidates[slot, c]
                    if position < start or position >= stop or (len(keep) > 0 and keep[position] == 0):
                        continue
                    distance = exact_distance(tables.exact[i], blocks, position)
                    if distance < thresholds[i]:
                        queries[found] = i
                        positions[found] = position
                        distances[found] = distance
                        found += 1
                    else:
                        wrong += 1
            if wrong > WRONG_SHARE * 32 * (last - first) * group:
                wide[q] = True
        first = last
    return queries[:found], positions[:found], distances[:found]
