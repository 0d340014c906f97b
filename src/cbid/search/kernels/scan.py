"""The scans: chunks of codes that stay in the cache, lower bounds, and exact distances of what passes them.

Both scans go over the chunks in order of position and, within a chunk, over groups of queries. The filter gives each
query its candidates; these get the exact distance. As the k-th best distance falls, so does the limit that the filter
works with. So that it is low from the start, `scan_topk` looks at a sample of the codes first and guesses a distance
within which k codes will be found; and chunks grow from a few codes, should there be no guess, or many codes as near
as that. Where many queries have one weight vector, it goes on with what they share (`_spread`) as soon as their
limits are sharp enough for that.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.candidates import Chunk, Desk, find_candidates, make_desk, open_chunk
from cbid.search.kernels.chunks import chunk_blocks, chunk_end, code_at
from cbid.search.kernels.compile import compiled, helper
from cbid.search.kernels.heap import push, sort_heap
from cbid.search.kernels.plans import Plans, judge_level, make_plans, plan_level
from cbid.search.kernels.registers import BLOCKS, GROUP
from cbid.search.kernels.spread import (
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
from cbid.search.kernels.sums import passing_share
from cbid.search.kernels.tables import Tables, exact_distance, make_tables, room_below

__all__ = ["scan_topk", "scan_within"]

Blocks = NDArray[np.uint8]
Floats = NDArray[np.float64]

# The share of codes, for each byte column, that may pass a limit that is shared: what sharing saves grows with the
# columns, what a candidate costs hardly does.
PASSING_MOST = 1 / 40_000
# A sample is at most one code in so many, from so many places of the scan, since like codes may lie side by side. It
# is believed where its nearest codes come from enough of them.
SAMPLED = 64
PLACES = 16
ENOUGH_PLACES = 3


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
    shared: Shared, chunk: Chunk, tables: Tables, blocks: Blocks, start: int, stop: int, keep: NDArray[np.uint8],
    places: NDArray[np.int32], passing: NDArray[np.int32], thresholds: NDArray[np.float32],
    distances: NDArray[np.float32], positions: NDArray[np.int64], sizes: NDArray[np.int64],
) -> int:  # fmt: skip
    """Offer what a chunk holds to all queries at once; how many candidates were not wanted."""
    wrong, per_block, n_blocks = 0, 32 * blocks.shape[1], chunk.n_blocks
    asked_for = np.empty_like(thresholds)
    for b in range(0, n_blocks, AT_A_TIME * BLOCKS):
        left = min(AT_A_TIME * BLOCKS, n_blocks - b)
        asked_for[:] = thresholds
        for c in range(
            shared_candidates(shared, chunk.source + per_block * b, left, per_block, passing[0], passing[1])
        ):
            i = passing[0, c]
            position = code_at(32 * b + passing[1, c], 32 * chunk.first, chunk.copied, places, start, stop, keep)
            if position >= 0:
                distance = exact_distance(tables.base[i], tables.costs[i], tables.wanted[i], blocks, position)
                wrong += distance >= asked_for[i]
                if distance < thresholds[i]:  # positions rise here too
                    sizes[i] = push(distances[i], positions[i], sizes[i], distance, position)
                    if sizes[i] == distances.shape[1]:
                        thresholds[i] = min(thresholds[i], distances[i, 0])
                        set_limit(shared, i, room_below(thresholds[i], 0.0))
    return wrong


@helper
def _scan_chunk(
    chunk: Chunk, done: int, blocks: Blocks, start: int, stop: int, keep: NDArray[np.uint8], tables: Tables,
    plans: Plans, portable: bool | None, desk: Desk, thresholds: NDArray[np.float32],
    distances: NDArray[np.float32], positions: NDArray[np.int64], sizes: NDArray[np.int64],
) -> None:  # fmt: skip
    """Offer what a chunk holds, after ``done`` blocks of the scan, to one group of queries after the other."""
    n_queries, k = distances.shape
    for q in range(0, n_queries, GROUP):
        size = min(GROUP, n_queries - q)
        if plans.until[q] <= done:
            plan_level(plans, q, tables, thresholds[q], done)
        find_candidates(blocks, chunk, tables, q, size, thresholds, plans.level[q], portable, desk)
        wrong = 0
        for slot in range(size):
            i = q + slot
            threshold = thresholds[i]
            for c in range(desk.counts[slot]):
                position = code_at(
                    desk.candidates[slot, c], 32 * chunk.first, chunk.copied, desk.places, start, stop, keep
                )
                if position >= 0:
                    distance = exact_distance(tables.base[i], tables.costs[i], tables.wanted[i], blocks, position)
                    wrong += distance >= threshold
                    # Positions rise, so a code as far as the worst of k comes after it.
                    if distance < thresholds[i]:
                        sizes[i] = push(distances[i], positions[i], sizes[i], distance, position)
                        if sizes[i] == k:
                            thresholds[i] = min(thresholds[i], distances[i, 0])
        if wrong > 0:
            judge_level(plans, q, tables, wrong / size, done, done + chunk.last - chunk.first)


@helper
def _sample_best(k: int) -> int:
    """Which of the best of a sample is, but for one time in a thousand or less, no nearer than the k-th of all."""
    expected = k / SAMPLED  # of the k nearest, in a sample
    return int(np.ceil(expected + 3.0 * np.sqrt(expected) + 3.0))


@helper
def _guess_thresholds(
    blocks: Blocks, start: int, stop: int, keep: NDArray[np.uint8], tables: Tables, portable: bool | None, desk: Desk,
    k: int, thresholds: NDArray[np.float32],
) -> None:  # fmt: skip
    """Lower ``thresholds`` to just above distances within which a sample lets k codes be expected.

    Not where a sample is too small, or has to hold nearly as many codes as are asked for.
    """
    n_queries, width, begin = len(thresholds), blocks.shape[1], start // 32
    n_blocks = (stop + 31) // 32 - begin
    n_best, size = _sample_best(k), n_blocks // (SAMPLED * PLACES * BLOCKS) * BLOCKS  # of blocks at one place
    if 2 * n_best > k or size == 0:
        return
    distances, positions = np.empty((n_queries, n_best), np.float32), np.empty((n_queries, n_best), np.int64)
    best, sizes, plans = thresholds.copy(), np.zeros(n_queries, np.int64), make_plans(n_queries)
    done = 0
    for place in range(PLACES):
        first = begin + n_blocks * place // PLACES
        end = first + size
        while first < end:
            last = chunk_end(first, end, chunk_blocks(width, done, n_best))
            chunk = open_chunk(blocks, first, last, start, stop, keep, portable, n_queries, desk)
            _scan_chunk(
                chunk, done, blocks, start, stop, keep, tables, plans, portable, desk, best, distances, positions,
                sizes,
            )  # fmt: skip
            done += last - first
            first = last
    for i in range(n_queries):
        if sizes[i] == n_best:
            seen = np.zeros(PLACES, np.bool_)
            for c in range(n_best):
                seen[(positions[i, c] // 32 - begin) * PLACES // n_blocks] = True
            if seen.sum() >= ENOUGH_PLACES:
                thresholds[i] = min(thresholds[i], np.nextafter(distances[i, 0], np.float32(np.inf)))


@compiled
def scan_topk(
    blocks: Blocks, start: int, stop: int, keep: NDArray[np.uint8], if_zero: Floats, if_one: Floats,
    portable: bool | None, guess: bool, thresholds: NDArray[np.float32], distances: NDArray[np.float32],
    positions: NDArray[np.int64],
) -> NDArray[np.bool_]:  # fmt: skip
    """The k nearest codes among start <= position < stop, written to ``distances`` and ``positions`` (q, k).

    ``keep`` is empty or has a zero for each code to pass over; only distances below ``thresholds`` (q,)
    count, which are lowered as better codes are found. ``guess``: whether a sample may lower them first. Returns, for
    each query, whether that went too far: its answer is then not whole, and is to be asked for without.
    """
    n_queries, k = distances.shape
    tables = make_tables(if_zero, if_one)
    plans = make_plans(n_queries)
    width = blocks.shape[1]
    first, end = start // 32, (stop + 31) // 32
    desk = make_desk(width, chunk_blocks(width, end, k))
    given = thresholds.copy()
    if guess:
        _guess_thresholds(blocks, start, stop, keep, tables, portable, desk, k, thresholds)
    too_low = thresholds < given
    sizes = np.zeros(n_queries, np.int64)
    sharing = SPREAD and portable is None and n_queries >= MANY_SHARING and width <= MOST_COLUMNS
    sharing = sharing and _share_weights(tables)
    of_all, of_bits = (n_queries, if_zero.shape[1]) if sharing else (1, 1)
    shared = make_shared(tables.excess[:1, :of_bits].copy(), tables.wanted[:of_all])
    passing = np.empty((2, 64 * AT_A_TIME * of_all), np.int32)
    while first < end:
        done = first - start // 32
        last = chunk_end(first, end, chunk_blocks(width, done, k))
        chunk = open_chunk(blocks, first, last, start, stop, keep, portable, n_queries, desk)
        if portable is None and sharing and _ready_to_share(shared, thresholds, chunk.n_blocks):
            wrong = _scan_shared(
                shared, chunk, tables, blocks, start, stop, keep, desk.places, passing, thresholds, distances,
                positions, sizes,
            )  # fmt: skip
            # Codes that are not like random ones: each query better has a scale, and as many sums, as it needs.
            if chunk.n_blocks >= AT_A_TIME * BLOCKS:
                sharing = wrong <= 4.0 * _most_passing(shared) * 32 * chunk.n_blocks * n_queries
        else:
            _scan_chunk(
                chunk, done, blocks, start, stop, keep, tables, plans, portable, desk, thresholds, distances,
                positions, sizes,
            )  # fmt: skip
        first = last
    for i in range(n_queries):
        too_low[i] = too_low[i] and sizes[i] < k
        sort_heap(distances[i], positions[i], sizes[i])
    return too_low


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
    desk = make_desk(width, chunk_blocks(width, end, 1))
    found = 0
    queries = np.empty(1024, np.int64)
    positions = np.empty(1024, np.int64)
    distances = np.empty(1024, np.float32)
    while first < end:
        done = first - start // 32
        last = chunk_end(first, end, chunk_blocks(width, done, 1))
        chunk = open_chunk(blocks, first, last, start, stop, keep, portable, n_queries, desk)
        for q in range(0, n_queries, GROUP):
            size = min(GROUP, n_queries - q)
            if plans.until[q] <= done:
                plan_level(plans, q, tables, thresholds[q], done)
            find_candidates(blocks, chunk, tables, q, size, thresholds, plans.level[q], portable, desk)
            wrong = 0
            for slot in range(size):
                i = q + slot
                if found + desk.counts[slot] > len(queries):
                    more = found + desk.counts[slot]
                    queries = np.concatenate((queries, np.empty(more, np.int64)))
                    positions = np.concatenate((positions, np.empty(more, np.int64)))
                    distances = np.concatenate((distances, np.empty(more, np.float32)))
                for c in range(desk.counts[slot]):
                    position = code_at(
                        desk.candidates[slot, c], 32 * first, chunk.copied, desk.places, start, stop, keep
                    )
                    if position < 0:
                        continue
                    distance = exact_distance(tables.base[i], tables.costs[i], tables.wanted[i], blocks, position)
                    if distance < thresholds[i]:
                        queries[found], positions[found], distances[found] = i, position, distance
                        found += 1
                    else:
                        wrong += 1
            if wrong > 0:
                judge_level(plans, q, tables, wrong / size, done, done + last - first)
        first = last
    return queries[:found], positions[:found], distances[:found]
