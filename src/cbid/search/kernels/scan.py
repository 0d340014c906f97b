"""The scans: chunks of codes that stay in the cache, filters by lower bounds, and exact distances of the rest.

A scan visits the chunks in order of position and, within a chunk, the groups of queries. `find_hits` returns the
codes nearer than the threshold of each query. As the k-th best distance falls, so does the threshold. To start with
a low threshold, `scan_topk` first scans a sample of the codes and guesses a distance within which k codes will be
found. Chunks grow, from a few codes if there is no guess. If many queries have one weight vector, `scan_topk`
switches to shared lookups (`shared`) once the thresholds are low enough.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.bounds import Plans, judge_level, make_plans, plan_level
from cbid.search.kernels.candidates import (
    HEAD_START,
    Chunk,
    Codes,
    Workspace,
    chunk_blocks,
    chunk_end,
    find_candidates,
    find_hits,
    is_worse,
    keep_hits,
    make_workspace,
    open_chunk,
    position_of,
    push,
    sort_heap,
)
from cbid.search.kernels.compile import compiled, helper, lean
from cbid.search.kernels.shared import (
    AT_A_TIME,
    MANY_SHARING,
    MOST_COLUMNS,
    SHARED_LOOKUPS,
    Shared,
    make_shared,
    most_passing,
    ready_to_share,
    set_limit,
    share_weights,
    shared_candidates,
)
from cbid.search.kernels.tables import Tables, budget_below, exact_distance, make_tables
from cbid.search.kernels.vectors import BLOCKS, GROUP, prefetch_line

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
Singles = NDArray[np.float32]

# A sample has at most one code in SAMPLED, from PLACES places of the scan, because similar codes may be adjacent. It
# is used if its nearest codes come from at least ENOUGH_PLACES of them.
SAMPLED = 64
PLACES = 16
ENOUGH_PLACES = 3

LARGEST = np.finfo(np.float32).max
AHEAD = 8  # vectors fetched ahead by the second look
summing = partial(lean, fastmath={"reassoc", "contract"})  # sums in vector registers


# ---- the k nearest ----


@compiled
def scan_topk(
    blocks: Bytes, start: int, stop: int, keep: Bytes, if_zero: Floats, if_one: Floats, portable: bool | None,
    guess: bool, thresholds: Singles, distances: Singles, positions: Positions,
) -> NDArray[np.bool_]:  # fmt: skip
    """Write the k nearest codes among start <= position < stop to ``distances`` and ``positions`` (q, k).

    ``keep`` is empty, or zero for codes to skip. Only distances below ``thresholds`` (q,) count; they are lowered as
    better codes are found. ``guess``: a sample may lower them first. Returns, for each query, whether the guess was
    too low: the result may be incomplete; rerun without the guess.
    """
    codes = Codes(blocks, start, stop, keep)
    n_queries, k = distances.shape
    tables = make_tables(if_zero, if_one)
    plans = make_plans(n_queries)
    width = blocks.shape[1]
    first, end = start // 32, (stop + 31) // 32
    work = make_workspace(width, chunk_blocks(width, end, k))
    given = thresholds.copy()
    if guess:
        _guess_thresholds(codes, tables, portable, work, k, thresholds)
    too_low = thresholds < given
    head_start = HEAD_START if too_low.all() else 0
    sizes = np.zeros(n_queries, np.int64)
    sharing = SHARED_LOOKUPS and portable is None and n_queries >= MANY_SHARING and width <= MOST_COLUMNS
    sharing = sharing and share_weights(tables)
    of_all, of_bits = (n_queries, if_zero.shape[1]) if sharing else (1, 1)
    shared = make_shared(tables.excess[:1, :of_bits].copy(), tables.nearest_code[:of_all])
    passing = np.empty((2, 64 * AT_A_TIME * of_all), np.int32)
    while first < end:
        done = first - start // 32
        last = chunk_end(first, end, chunk_blocks(width, done + head_start, k))
        chunk = open_chunk(codes, first, last, portable, n_queries, work)
        if portable is None and sharing and ready_to_share(shared, thresholds, chunk.n_blocks):
            n_false = _scan_shared(
                shared, codes, chunk, tables, work.places, passing, thresholds, distances, positions, sizes
            )
            # Many false candidates: the codes are not like random ones, and each query needs a scale of its own.
            if chunk.n_blocks >= AT_A_TIME * BLOCKS:
                sharing = n_false <= 4.0 * most_passing(shared) * 32 * chunk.n_blocks * n_queries
        else:
            _scan_chunk(codes, chunk, done, tables, plans, portable, work, thresholds, distances, positions, sizes)
        first = last
    for i in range(n_queries):
        too_low[i] = too_low[i] and sizes[i] < k
        sort_heap(distances[i], positions[i], sizes[i])
    return too_low


@lean
def _scan_chunk(
    codes: Codes, chunk: Chunk, done: int, tables: Tables, plans: Plans, portable: bool | None, work: Workspace,
    thresholds: Singles, distances: Singles, positions: Positions, sizes: NDArray[np.int64],
) -> None:  # fmt: skip
    """Push the hits of a chunk to the heaps of all queries, one group after the other."""
    blocks, start, stop, keep = codes
    n_queries, k = distances.shape
    for q in range(0, n_queries, GROUP):
        size = min(GROUP, n_queries - q)
        if plans.until[q] <= done:
            plan_level(plans, q, tables, thresholds[q], done)
        find_candidates(codes, chunk, tables, q, size, thresholds, plans.level[q], portable, work)
        n_false = 0
        for slot in range(size):
            i = q + slot
            before = thresholds[i]
            # Not `find_hits`: the heap needs no list of hits, which would take a tenth of the time of one query.
            for c in range(work.counts[slot]):
                position = position_of(
                    work.candidates[slot, c], 32 * chunk.first, chunk.copied, work.places, start, stop, keep
                )
                if position < 0:
                    continue
                distance = exact_distance(tables.base[i], tables.costs[i], tables.nearest_code[i], blocks, position)
                n_false += distance >= before
                # Positions rise, so a code as far as the worst of k comes after it.
                if distance < thresholds[i]:
                    sizes[i] = push(distances[i], positions[i], sizes[i], distance, position)
                    if sizes[i] == k:
                        thresholds[i] = min(thresholds[i], distances[i, 0])
        if n_false > 0:
            judge_level(plans, q, tables, n_false / size, done, done + chunk.last - chunk.first)


@helper
def _scan_shared(
    shared: Shared, codes: Codes, chunk: Chunk, tables: Tables, places: NDArray[np.int32],
    passing: NDArray[np.int32], thresholds: Singles, distances: Singles, positions: Positions,
    sizes: NDArray[np.int64],
) -> int:  # fmt: skip
    """Push the hits of a chunk to the heaps of all queries at once; return the number of false candidates."""
    blocks, start, stop, keep = codes
    n_false, per_block, n_blocks = 0, 32 * blocks.shape[1], chunk.n_blocks
    before = np.empty_like(thresholds)
    for b in range(0, n_blocks, AT_A_TIME * BLOCKS):
        left = min(AT_A_TIME * BLOCKS, n_blocks - b)
        before[:] = thresholds
        for c in range(
            shared_candidates(shared, chunk.source + per_block * b, left, per_block, passing[0], passing[1])
        ):
            i = passing[0, c]
            position = position_of(32 * b + passing[1, c], 32 * chunk.first, chunk.copied, places, start, stop, keep)
            if position >= 0:
                distance = exact_distance(tables.base[i], tables.costs[i], tables.nearest_code[i], blocks, position)
                n_false += distance >= before[i]
                if distance < thresholds[i]:  # positions rise here too
                    sizes[i] = push(distances[i], positions[i], sizes[i], distance, position)
                    if sizes[i] == distances.shape[1]:
                        thresholds[i] = min(thresholds[i], distances[i, 0])
                        set_limit(shared, i, budget_below(thresholds[i], 0.0))
    return n_false


@lean
def _sample_rank(k: int) -> int:
    """The rank in a sample whose code is, except one time in a thousand, not nearer than the k-th of all codes."""
    expected = k / SAMPLED  # of the k nearest, in a sample
    return int(np.ceil(expected + 3.0 * np.sqrt(expected) + 3.0))


@helper
def _guess_thresholds(
    codes: Codes, tables: Tables, portable: bool | None, work: Workspace, k: int, thresholds: Singles
) -> None:
    """Lower ``thresholds`` to just above the distances within which a sample predicts k codes.

    Does nothing if the sample would be too small, or would hold nearly k codes.
    """
    n_queries, width, begin = len(thresholds), codes.blocks.shape[1], codes.start // 32
    n_blocks = (codes.stop + 31) // 32 - begin
    n_best, size = _sample_rank(k), n_blocks // (SAMPLED * PLACES * BLOCKS) * BLOCKS  # blocks at one place
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
            chunk = open_chunk(codes, first, last, portable, n_queries, work)
            _scan_chunk(codes, chunk, done, tables, plans, portable, work, best, distances, positions, sizes)
            done += last - first
            first = last
    for i in range(n_queries):
        if sizes[i] == n_best:
            seen = np.zeros(PLACES, np.bool_)
            for c in range(n_best):
                seen[(positions[i, c] // 32 - begin) * PLACES // n_blocks] = True
            if seen.sum() >= ENOUGH_PLACES:
                thresholds[i] = min(thresholds[i], np.nextafter(distances[i, 0], np.float32(np.inf)))


# ---- within a distance ----


@compiled
def scan_within(
    blocks: Bytes, start: int, stop: int, keep: Bytes, if_zero: Floats, if_one: Floats, portable: bool | None,
    thresholds: Singles, most_hits: int,
) -> tuple[NDArray[np.int64], Positions, Singles]:  # fmt: skip
    """Return all codes among start <= position < stop nearer than ``thresholds``: their query, position, distance.

    It ends once there are more than ``most_hits``; the result is then incomplete.
    """
    codes = Codes(blocks, start, stop, keep)
    n_queries = len(thresholds)
    tables = make_tables(if_zero, if_one)
    plans = make_plans(n_queries)
    width = blocks.shape[1]
    first, end = start // 32, (stop + 31) // 32
    work = make_workspace(width, chunk_blocks(width, end, 1))
    found = 0
    queries = np.empty(1024, np.int64)
    positions = np.empty(1024, np.int64)
    distances = np.empty(1024, np.float32)
    while first < end:
        done = first - start // 32
        last = chunk_end(first, end, chunk_blocks(width, done, 1))
        chunk = open_chunk(codes, first, last, portable, n_queries, work)
        for q in range(0, n_queries, GROUP):
            size = min(GROUP, n_queries - q)
            find_hits(codes, chunk, done, tables, q, size, thresholds, plans, portable, work)
            for slot in range(size):
                count = work.counts[slot]
                if found + count > len(queries):
                    queries = np.concatenate((queries, np.empty(found + count, np.int64)))
                    positions = np.concatenate((positions, np.empty(found + count, np.int64)))
                    distances = np.concatenate((distances, np.empty(found + count, np.float32)))
                for c in range(count):
                    queries[found], distances[found] = q + slot, work.distances[slot, c]
                    positions[found] = 32 * chunk.first + work.candidates[slot, c]
                    found += 1
            if found > most_hits:
                return queries[:found], positions[:found], distances[:found]
        first = last
    return queries[:found], positions[:found], distances[:found]


# ---- the k nearest in spans (IVF) ----


@compiled
def scan_spans(
    blocks: Bytes, ids: NDArray[np.int64], keep: Bytes, spans: NDArray[np.int64], edges: NDArray[np.int64],
    if_zero: Floats, if_one: Floats, portable: bool | None, thresholds: Singles, distances: Singles,
    positions: Positions,
) -> None:  # fmt: skip
    """Write the k nearest codes of each query by (distance, id) to ``distances`` and ``positions`` (q, k).

    ``spans`` (s, 2) are first positions and ends, nearest cell first; query i has those from edges[i] to
    edges[i + 1].
    Codes are sorted by id within a cell, but not across cells, so ties are broken by the id. The other arguments are
    those of `scan_topk`.
    """
    n_queries, k = distances.shape
    tables = make_tables(if_zero, if_one)
    width = blocks.shape[1]
    work, plans = make_workspace(width, chunk_blocks(width, len(blocks), k)), make_plans(n_queries)
    for i in range(n_queries):
        done, held = 0, 0
        for s in range(edges[i], edges[i + 1]):
            codes = Codes(blocks, spans[s, 0], spans[s, 1], keep)
            first, end = codes.start // 32, (codes.stop + 31) // 32
            while first < end:
                last = min(first + chunk_blocks(width, done, k), end)
                # Whole steps of the filters, if necessary into the next cell: codes from `stop` on are skipped.
                whole = first + -(-(last - first) // BLOCKS) * BLOCKS
                last = whole if whole <= len(blocks) else last
                chunk = open_chunk(codes, first, last, portable, 1, work)
                # `find_hits` for one query: cells are so small that one more call would take a tenth of the time.
                if plans.until[i] <= done:
                    plan_level(plans, i, tables, thresholds[i], done)
                find_candidates(codes, chunk, tables, i, 1, thresholds, plans.level[i], portable, work)
                n_false = keep_hits(
                    codes, chunk, work, 0, tables.base[i], tables.costs[i], tables.nearest_code[i], thresholds[i]
                )
                if n_false > 0:
                    judge_level(plans, i, tables, n_false, done, done + last - first)
                for c in range(work.counts[0]):
                    if work.distances[0, c] < thresholds[i]:
                        distance, position = work.distances[0, c], 32 * chunk.first + work.candidates[0, c]
                        if held < k or is_worse(distances[i, 0], positions[i, 0], distance, position, ids):
                            held = push(distances[i], positions[i], held, distance, position, ids)
                        if held == k:
                            # Just above the k-th best: a code at this distance with a smaller id replaces it.
                            above = np.nextafter(distances[i, 0], np.float32(np.inf))
                            thresholds[i] = min(thresholds[i], above)
                done += last - first
                first = last
        sort_heap(distances[i], positions[i], held, ids)


# ---- the second look: candidates ranked again by their vectors ----


@compiled
def second_look(
    queries: Singles, ids: Positions, stored: Positions, live: NDArray[np.bool_], rows: NDArray[Any], scales: Singles,
    metric: int, near: Singles,
) -> None:  # fmt: skip
    """Write the distances of query i (q, d) to its candidates ``ids`` (q, c) to ``near``.

    ``metric`` is 0 for 1 - the inner product, 1 for minus the inner product, 2 for Euclidean distance. Row j (n, d)
    is the vector of the id ``stored[j]``, ascending: float16 numbers as uint16, or int8 with a scale for each row.
    Ids that are not stored, or not ``live``, are skipped.
    """
    n_queries, n_candidates = ids.shape
    d = rows.shape[1]
    at = np.empty(n_candidates + AHEAD, np.int64)
    vector = np.empty(d, np.uint32)
    first_row, row_bytes = np.int64(rows.ctypes.data), d * rows.itemsize
    for i in range(n_queries):
        for c in range(n_candidates):
            at[c] = _row_of(ids[i, c], stored, live)
        at[n_candidates:] = -1
        for c in range(n_candidates):
            ahead = at[c + AHEAD]
            if ahead >= 0:
                for line in range(0, row_bytes, 64):
                    prefetch_line(first_row + row_bytes * ahead + line)
            if at[c] >= 0:
                _read_vector(rows, at[c], scales, vector)
                values = vector.view(np.float32)
                if metric == 2:
                    distance = np.sqrt(_squared_distance(queries[i], values))
                else:
                    distance = np.float32(1 - metric) - _product(queries[i], values)
                if not abs(distance) <= LARGEST:  # the sum overflowed
                    distance = -LARGEST if distance < 0 else LARGEST
                near[i, c] = distance


@lean
def _row_of(id: int, stored: Positions, live: NDArray[np.bool_]) -> int:
    """The row of an id, or -1."""
    last = len(stored) - 1
    if last < 0:
        return -1
    # Ids are distinct, so there are few rows where it can be: only one if no id is missing.
    low, high = max(last - (stored[last] - id), 0), min(id - stored[0], last)
    while low < high:
        middle = (low + high) // 2
        if stored[middle] < id:
            low = middle + 1
        else:
            high = middle
    return low if low == high and stored[low] == id and live[low] else -1


@lean
def _read_vector(rows: NDArray[Any], at: int, scales: Singles, vector: NDArray[np.uint32]) -> None:
    """Write the float32 numbers of a row to ``vector``, as bits."""
    row, values = rows[at], vector.view(np.float32)
    if len(scales) > 0:
        scale = scales[at]
        for j in range(len(row)):
            values[j] = scale * np.float32(row[j])
    else:
        for j in range(len(row)):  # move exponent and fraction to their places; the exponents differ by 112
            half = np.uint32(row[j])
            vector[j] = (half & np.uint32(0x8000)) << np.uint32(16) | (half & np.uint32(0x7FFF)) << np.uint32(13)
        for j in range(len(row)):
            values[j] *= np.float32(2.0**112)


@summing
def _product(a: Singles, b: Singles) -> np.float32:
    total = np.float32(0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@summing
def _squared_distance(a: Singles, b: Singles) -> np.float32:
    total = np.float32(0)
    for j in range(len(a)):
        total += (a[j] - b[j]) * (a[j] - b[j])
    return total


@compiled
def nearest_columns(near: Singles, ids: Positions, k: int) -> Positions:
    """Return the columns (q, k) of the k smallest entries of each row of ``near``, by (distance, id).

    Missing entries are inf and come last.
    """
    n_queries, n_candidates = near.shape
    columns = np.empty((n_queries, k), np.int64)
    distances, best = np.empty(k, np.float32), np.empty(k, np.int64)
    for i in range(n_queries):
        size, missing = 0, 0
        for c in range(n_candidates):
            if near[i, c] == np.inf:
                missing = c
            elif size < k or near[i, c] < distances[0] or (near[i, c] == distances[0] and ids[i, c] < best[0]):
                size = push(distances, best, size, near[i, c], ids[i, c])
        sort_heap(distances, best, size)
        columns[i] = missing
        for c in range(n_candidates):
            if size > 0 and near[i, c] <= distances[size - 1]:
                low, high = 0, size
                while low < high:
                    middle = (low + high) // 2
                    before = distances[middle] == near[i, c] and best[middle] < ids[i, c]
                    if distances[middle] < near[i, c] or before:
                        low = middle + 1
                    else:
                        high = middle
                if low < size and best[low] == ids[i, c]:
                    columns[i, low] = c
    return columns
