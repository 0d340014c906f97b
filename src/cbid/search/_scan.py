"""The scans: chunks of codes that stay in the cache, lower bounds, and exact distances of what passes them.

Both scans go over the chunks in order of position and, within a chunk, over groups of queries. The filter
gives each query its candidates; these get the exact distance. As the k-th best distance falls, so does the
limit that the filter works with; chunks grow from a few codes, so that it falls early. Where many queries have one
weight vector, `scan_topk` goes on with what they share (`_spread`) as soon as their limits are sharp enough for that.

``portable`` is True for the portable filter, None for SIMD: by that type numba leaves the other one out.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.search._chunks import chunk_blocks, chunk_end, code_at, copy_codes, wanted_places
from cbid.search._compile import compiled, helper
from cbid.search._filters import make_shelf, parts_all, parts_one, whole_all, whole_one
from cbid.search._heap import push, sort_heap
from cbid.search._plans import judge_level, make_plans, plan_level
from cbid.search._portable import filter_portable
from cbid.search._registers import AT_ONCE, BLOCKS, COLUMNS, ENTRIES, FIELDS, GROUP
from cbid.search._spread import (
    AT_A_TIME,
    MANY_SHARING,
    MOST_COLUMNS,
    SPREAD,
    Shared,
    fit_scale,
    make_shared,
    set_limit,
    shared_candidates,
)
from cbid.search._sums import passing_share, sum_limit
from cbid.search._tables import Tables, exact_distance, make_tables, room_below, steps_until

__all__ = ["scan_topk", "scan_within"]

Blocks = NDArray[np.uint8]
Floats = NDArray[np.float64]

FEW = GROUP // 2  # so many queries are scanned faster one by one than in a group that is not full
# The share of codes, for each byte column, that may pass a limit that is shared: what sharing saves grows with the
# columns, what a candidate costs hardly does.
PASSING_MOST = 1 / 40_000
# From so many queries on it pays to bring the kept codes of a chunk together before they are scanned.
MANY_QUERIES = 8


@helper
def _group_candidates(
    source: int, n_blocks: int, per_block: int, tables: Tables, q: int, size: int,
    thresholds: NDArray[np.float32], level: int, shelf: Blocks, limits: NDArray[np.int64],
    candidates: NDArray[np.int32], counts: NDArray[np.int64],
) -> None:  # fmt: skip
    """Candidates of queries q <= i < q + size among the blocks at ``source``, one row for each query."""
    check = np.int64(0)  # not a literal, for which the filters would be compiled once more
    limits[:] = 0
    counts[:] = 0
    for slot in range(size):
        i = q + slot
        room = room_below(thresholds[i], tables.base[i])
        if room > 0.0:
            limits[slot] = sum_limit(tables, i, room, level, n_blocks)
            # Until there few blocks can be left.
            check = max(check, 1 + steps_until(tables.typical[i], thresholds[i]))
    if check == 0:
        return
    if level > 0:  # parts end at such multiples too
        check = -(-check // AT_ONCE) * AT_ONCE
    offsets, ends = tables.offsets, tables.ends
    steps = len(offsets) // COLUMNS
    tables_at = np.int64(tables.quantised[q:].ctypes.data)
    limits_at = np.int64(limits.ctypes.data)
    if size > FEW:
        if level == 0:
            whole_all(
                source, n_blocks, per_block, tables_at, offsets, check, ends, level, limits_at, shelf,
                candidates, counts,
            )  # fmt: skip
        else:
            parts_all(
                source, n_blocks, per_block, tables_at, offsets, check, ends, level, limits_at, shelf,
                candidates, counts,
            )  # fmt: skip
        return
    for slot in range(size):
        if limits[slot] > 0:
            found, count = candidates[slot:], counts[slot:]
            if level == 0:
                whole_one(
                    source, n_blocks, per_block, tables_at, offsets, check, ends, level, limits_at, shelf,
                    found, count,
                )  # fmt: skip
            else:
                parts_one(
                    source, n_blocks, per_block, tables_at, offsets, check, ends, level, limits_at, shelf,
                    found, count,
                )  # fmt: skip
        tables_at += FIELDS * ENTRIES * steps
        limits_at += 8


@helper
def _portable_candidates(
    blocks: Blocks, first: int, last: int, tables: Tables, q: int, size: int,
    thresholds: NDArray[np.float32], candidates: NDArray[np.int32], counts: NDArray[np.int64],
) -> None:  # fmt: skip
    """The same without SIMD, for blocks first <= b < last."""
    for slot in range(size):
        i = q + slot
        room = room_below(thresholds[i], tables.base[i])
        counts[slot] = 0
        if room > 0.0:
            counts[slot] = filter_portable(
                blocks, first, last, tables.excess[i], tables.preferred[i], room, candidates[slot]
            )


@helper
def _chunk_source(
    blocks: Blocks, first: int, last: int, start: int, stop: int, keep: NDArray[np.uint8], simd: bool,
    n_queries: int, places: NDArray[np.int32], scratch: Blocks,
) -> tuple[int, int, int]:  # fmt: skip
    """Where the SIMD filters read blocks first <= b < last: address, number of blocks, codes copied or -1.

    They are copied to ``scratch`` where they are no whole number of steps, and, for many queries, where
    ``keep`` leaves a part of them.
    """
    ragged = (last - first) % BLOCKS != 0
    if simd and (ragged or (len(keep) > 0 and n_queries >= MANY_QUERIES)):
        begin, finish = max(start, 32 * first), min(stop, 32 * last)
        copied = wanted_places(keep, begin, finish, 32 * first, places)
        if ragged or copied < 0.75 * (finish - begin):
            copy_codes(blocks, first, places[:copied], scratch)
            per_step = 32 * BLOCKS
            return int(np.int64(scratch.ctypes.data)), (copied + per_step - 1) // per_step * BLOCKS, copied
    return int(np.int64(blocks.ctypes.data)) + first * 32 * blocks.shape[1], last - first, -1


@helper
def _share_weights(tables: Tables) -> bool:
    """Whether all queries are codes under one weight vector."""
    for q in range(len(tables.base)):
        if tables.base[q] != 0.0:
            return False
        for s in range(tables.excess.shape[1]):
            if tables.excess[q, s] != tables.excess[0, s]:
                return False
    return True


@helper
def _most_passing(shared: Shared) -> float:
    """The share of codes that may pass before each query is scanned faster by limits of its own."""
    return PASSING_MOST * len(shared.tables.columns)


@helper
def _ready_to_share(shared: Shared, thresholds: NDArray[np.float32], n_blocks: int) -> bool:
    """Set the limits by which all queries scan the next blocks; False while these would let too many codes pass."""
    room = 0.0
    for i in range(len(thresholds)):
        room = max(room, room_below(thresholds[i], 0.0))
    if not 0.0 < room < np.inf or passing_share(shared.tables, 0, room, shared.level) > _most_passing(shared):
        return False
    fit_scale(shared, room, n_blocks)
    for i in range(len(thresholds)):
        set_limit(shared, i, room_below(thresholds[i], 0.0))
    return True


@helper
def _scan_shared(
    shared: Shared, source: int, n_blocks: int, tables: Tables, blocks: Blocks, first: int, start: int, stop: int,
    keep: NDArray[np.uint8], copied: int, places: NDArray[np.int32], passing: NDArray[np.int32],
    thresholds: NDArray[np.float32], distances: NDArray[np.float32], positions: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> int:  # fmt: skip
    """Offer what a chunk holds to all queries at once; how many candidates were not wanted."""
    wrong, per_block = 0, 32 * blocks.shape[1]
    asked_for = np.empty_like(thresholds)
    for b in range(0, n_blocks, AT_A_TIME * BLOCKS):
        left = min(AT_A_TIME * BLOCKS, n_blocks - b)
        asked_for[:] = thresholds
        for c in range(shared_candidates(shared, source + per_block * b, left, per_block, passing[0], passing[1])):
            i = passing[0, c]
            position = code_at(32 * b + passing[1, c], 32 * first, copied, places, start, stop, keep)
            if position >= 0:
                distance = exact_distance(tables.base[i], tables.costs[i], tables.wanted[i], blocks, position)
                wrong += distance >= asked_for[i]
                if distance < thresholds[i]:  # positions rise here too
                    sizes[i] = push(distances[i], positions[i], sizes[i], distance, position)
                    if sizes[i] == distances.shape[1]:
                        thresholds[i] = min(thresholds[i], distances[i, 0])
                        set_limit(shared, i, room_below(thresholds[i], 0.0))
    return wrong


@compiled
def scan_topk(
    blocks: Blocks, start: int, stop: int, keep: NDArray[np.uint8], if_zero: Floats, if_one: Floats,
    portable: bool | None, thresholds: NDArray[np.float32], distances: NDArray[np.float32],
    positions: NDArray[np.int64],
) -> None:  # fmt: skip
    """The k nearest codes among start <= position < stop, written to ``distances`` and ``positions`` (q, k).

    ``keep`` is empty or has a zero for each code to pass over; only distances below ``thresholds`` (q,)
    count, which are lowered as better codes are found.
    """
    n_queries, k = distances.shape
    tables = make_tables(if_zero, if_one)
    plans = make_plans(n_queries)
    width = blocks.shape[1]
    first, end = start // 32, (stop + 31) // 32
    largest = chunk_blocks(width, end, k)
    candidates = np.empty((GROUP, 32 * largest), np.int32)
    limits, counts = np.zeros(GROUP, np.int64), np.zeros(GROUP, np.int64)
    shelf = make_shelf()
    places = np.empty(32 * largest + 1, np.int32)
    scratch = np.empty((largest, width, 32), np.uint8)
    sizes = np.zeros(n_queries, np.int64)
    sharing = SPREAD and portable is None and n_queries >= MANY_SHARING and width <= MOST_COLUMNS
    sharing = sharing and _share_weights(tables)
    of_all, of_bits = (n_queries, if_zero.shape[1]) if sharing else (1, 1)
    shared = make_shared(tables.excess[:1, :of_bits].copy(), tables.wanted[:of_all])
    passing = np.empty((2, 64 * AT_A_TIME * of_all), np.int32)
    while first < end:
        last = chunk_end(first, end, chunk_blocks(width, first - start // 32, k))
        source, n_blocks, copied = _chunk_source(
            blocks, first, last, start, stop, keep, portable is None, n_queries, places, scratch
        )
        if portable is None and sharing and _ready_to_share(shared, thresholds, n_blocks):
            wrong = _scan_shared(
                shared, source, n_blocks, tables, blocks, first, start, stop, keep, copied, places, passing,
                thresholds, distances, positions, sizes,
            )  # fmt: skip
            # Codes that are not like random ones: each query better has a scale, and as many sums, as it needs.
            if n_blocks >= AT_A_TIME * BLOCKS:
                sharing = wrong <= 4.0 * _most_passing(shared) * 32 * n_blocks * n_queries
            first = last
            continue
        for q in range(0, n_queries, GROUP):
            size = min(GROUP, n_queries - q)
            if plans.until[q] <= first - start // 32:
                plan_level(plans, q, tables, thresholds[q], first - start // 32)
            if portable is None:
                _group_candidates(
                    source,
                    n_blocks,
                    32 * width,
                    tables,
                    q,
                    size,
                    thresholds,
                    plans.level[q],
                    shelf,
                    limits,
                    candidates,
                    counts,
                )
            else:
                _portable_candidates(blocks, first, last, tables, q, size, thresholds, candidates, counts)
            wrong = 0
            for slot in range(size):
                i = q + slot
                threshold = thresholds[i]
                for c in range(counts[slot]):
                    position = code_at(candidates[slot, c], 32 * first, copied, places, start, stop, keep)
                    if position >= 0:
                        distance = exact_distance(tables.base[i], tables.costs[i], tables.wanted[i], blocks, position)
                        wrong += distance >= threshold
                        # Positions rise, so a code as far as the worst of k comes after it.
                        if distance < thresholds[i]:
                            sizes[i] = push(distances[i], positions[i], sizes[i], distance, position)
                            if sizes[i] == k:
                                thresholds[i] = min(thresholds[i], distances[i, 0])
            if wrong > 0:
                judge_level(plans, q, tables, wrong / size, first - start // 32, last - start // 32)
        first = last
    for i in range(n_queries):
        sort_heap(distances[i], positions[i], sizes[i])


@compiled
def scan_within(
    blocks: Blocks, start: int, stop: int, keep: NDArray[np.uint8], if_zero: Floats, if_one: Floats,
    portable: bool | None, thresholds: NDArray[np.float32],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:  # fmt: skip
    """All codes among start <= position < stop nearer than ``thresholds``: query, position, distance of
    each."""
    n_queries = len(thresholds)
    tables = make_tables(if_zero, if_one)
    plans = make_plans(n_queries)
    width = blocks.shape[1]
    first, end = start // 32, (stop + 31) // 32
    largest = chunk_blocks(width, end, 1)
    candidates = np.empty((GROUP, 32 * largest), np.int32)
    limits, counts = np.zeros(GROUP, np.int64), np.zeros(GROUP, np.int64)
    shelf = make_shelf()
    places = np.empty(32 * largest + 1, np.int32)
    scratch = np.empty((largest, width, 32), np.uint8)
    found = 0
    queries = np.empty(1024, np.int64)
    positions = np.empty(1024, np.int64)
    distances = np.empty(1024, np.float32)
    while first < end:
        last = chunk_end(first, end, chunk_blocks(width, first - start // 32, 1))
        source, n_blocks, copied = _chunk_source(
            blocks, first, last, start, stop, keep, portable is None, n_queries, places, scratch
        )
        for q in range(0, n_queries, GROUP):
            size = min(GROUP, n_queries - q)
            if plans.until[q] <= first - start // 32:
                plan_level(plans, q, tables, thresholds[q], first - start // 32)
            if portable is None:
                _group_candidates(
                    source,
                    n_blocks,
                    32 * width,
                    tables,
                    q,
                    size,
                    thresholds,
                    plans.level[q],
                    shelf,
                    limits,
                    candidates,
                    counts,
                )
            else:
                _portable_candidates(blocks, first, last, tables, q, size, thresholds, candidates, counts)
            wrong = 0
            for slot in range(size):
                i = q + slot
                if found + counts[slot] > len(queries):
                    more = found + counts[slot]
                    queries = np.concatenate((queries, np.empty(more, np.int64)))
                    positions = np.concatenate((positions, np.empty(more, np.int64)))
                    distances = np.concatenate((distances, np.empty(more, np.float32)))
                for c in range(counts[slot]):
                    position = code_at(candidates[slot, c], 32 * first, copied, places, start, stop, keep)
                    if position < 0:
                        continue
                    distance = exact_distance(tables.base[i], tables.costs[i], tables.wanted[i], blocks, position)
                    if distance < thresholds[i]:
                        queries[found], positions[found], distances[found] = i, position, distance
                        found += 1
                    else:
                        wrong += 1
            if wrong > 0:
                judge_level(plans, q, tables, wrong / size, first - start // 32, last - start // 32)
        first = last
    return queries[:found], positions[:found], distances[:found]
