"""Chunks of codes, the candidates that the filters find in them, and the codes that are near enough: the hits.

``portable`` is True for the portable filter and None for SIMD: numba compiles only the branch of this type.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.bounds import Plans, judge_level, plan_level, sum_limit
from cbid.search.kernels.compile import helper, lean
from cbid.search.kernels.filters import (
    FilterPass,
    filter_portable,
    make_scratch,
    parts_all,
    parts_one,
    whole_all,
    whole_one,
)
from cbid.search.kernels.tables import Tables, budget_below, exact_distance, steps_until
from cbid.search.kernels.vectors import AT_ONCE, BLOCKS, COLUMNS, ENTRIES, FIELDS, GROUP

Bytes = NDArray[np.uint8]
Places = NDArray[np.int32]
Singles = NDArray[np.float32]

CHUNK_BYTES = 1 << 18  # leaves space for the tables of the queries in a second-level cache
CHUNK_CODES = 1 << 15  # limits the candidates of short codes
HEAD_START = 512  # blocks that count as done if a sample has given a first threshold
FEW = GROUP // 2  # up to this many queries are scanned faster one by one than as a group
MANY_QUERIES = 8  # from this many on, the kept codes of a chunk are copied together before they are scanned


class Codes(NamedTuple):
    """The codes at positions start <= p < stop of ``blocks``; ``keep`` is empty, or zero for codes to skip."""

    blocks: Bytes
    start: int
    stop: int
    keep: Bytes


class Chunk(NamedTuple):
    """Blocks first <= b < last, and where the SIMD filters read them."""

    first: int
    last: int
    source: int  # address
    n_blocks: int
    copied: int  # number of codes copied there, -1 if they are read in place


class Workspace(NamedTuple):
    """The memory of a scan, for chunks of a given number of codes."""

    candidates: Places  # (GROUP, codes) offsets of candidates, then of hits, for each query of a group
    distances: Singles  # (GROUP, codes) of the hits
    counts: NDArray[np.int64]  # (GROUP,)
    limits: NDArray[np.int64]  # (GROUP,)
    scratch: Bytes
    places: Places  # (codes + 1,) offsets of copied codes
    copies: Bytes  # (blocks, width, 32)


@helper
def make_workspace(width: int, largest: int) -> Workspace:
    """Make a workspace for chunks of up to ``largest`` blocks."""
    return Workspace(
        np.empty((GROUP, 32 * largest), np.int32),
        np.empty((GROUP, 32 * largest), np.float32),
        np.zeros(GROUP, np.int64),
        np.zeros(GROUP, np.int64),
        make_scratch(),
        np.empty(32 * largest + 1, np.int32),
        np.empty((largest, width, 32), np.uint8),
    )


# ---- chunks ----


@lean
def chunk_blocks(width: int, blocks_done: int, k: int) -> int:
    """Blocks of the next chunk: half as many as are done, at least k codes, at most what fits in a cache."""
    most = max(min(CHUNK_BYTES // (32 * width), CHUNK_CODES // 32), 2 * BLOCKS)
    wanted = min(max(blocks_done // 2, (k + 31) // 32), most)
    return -(-wanted // BLOCKS) * BLOCKS


@lean
def chunk_end(first: int, end: int, size: int) -> int:
    """The end of the chunk from block ``first`` on; the remainder at the end is a chunk of its own."""
    last = min(first + size, end)
    return last - (last - first) % BLOCKS if last - first > BLOCKS else last


@lean
def open_chunk(codes: Codes, first: int, last: int, portable: bool | None, n_queries: int, work: Workspace) -> Chunk:
    """Blocks first <= b < last, copied if they are not a whole number of steps or, for many queries, if ``keep``
    skips many of them."""
    blocks, start, stop, keep = codes
    ragged = (last - first) % BLOCKS != 0
    if portable is None and (ragged or (len(keep) > 0 and n_queries >= MANY_QUERIES)):
        begin, finish = max(start, 32 * first), min(stop, 32 * last)
        copied = _kept_places(keep, begin, finish, 32 * first, work.places)
        if ragged or copied < 0.75 * (finish - begin):
            _copy_codes(blocks, first, work.places[:copied], work.copies)
            per_step = 32 * BLOCKS
            source = int(np.int64(work.copies.ctypes.data))
            return Chunk(first, last, source, (copied + per_step - 1) // per_step * BLOCKS, copied)
    source = int(np.int64(blocks.ctypes.data)) + first * 32 * blocks.shape[1]
    return Chunk(first, last, source, last - first, -1)


@lean
def _kept_places(keep: Bytes, begin: int, end: int, origin: int, places: Places) -> int:
    """Write the offsets from ``origin`` of kept positions begin <= p < end; return how many."""
    count = 0
    for position in range(begin, end):
        places[count] = position - origin
        count += len(keep) == 0 or keep[position] != 0
    return count


@lean
def _copy_codes(blocks: Bytes, first: int, places: Places, out: Bytes) -> None:
    """Copy the codes at ``places``, counted from block ``first``, one after the other to blocks ``out``."""
    for j in range(blocks.shape[1]):
        for i in range(len(places)):
            out[i >> 5, j, i & 31] = blocks[first + (places[i] >> 5), j, places[i] & 31]


@lean
def position_of(candidate: int, origin: int, copied: int, places: Places, start: int, stop: int, keep: Bytes) -> int:
    """The position of a candidate of the chunk from position ``origin`` on, or -1 if it is padding or skipped."""
    if copied >= 0:
        return origin + places[candidate] if candidate < copied else -1
    position = origin + candidate
    if position < start or position >= stop or (len(keep) > 0 and keep[position] == 0):
        return -1
    return position


# ---- hits ----


@lean
def find_hits(
    codes: Codes, chunk: Chunk, done: int, tables: Tables, q: int, size: int, thresholds: Singles, plans: Plans,
    portable: bool | None, work: Workspace,
) -> None:  # fmt: skip
    """Find the codes of a chunk, after ``done`` blocks of the scan, nearer than the thresholds of queries q <= i <
    q + size: offsets from the first block to ``work.candidates``, in order, distances to ``work.distances``."""
    if plans.until[q] <= done:
        plan_level(plans, q, tables, thresholds[q], done)
    find_candidates(codes, chunk, tables, q, size, thresholds, plans.level[q], portable, work)
    n_false = 0
    for slot in range(size):
        i = q + slot
        if work.counts[slot] > 0:
            n_false += keep_hits(
                codes, chunk, work, slot, tables.base[i], tables.costs[i], tables.nearest_code[i], thresholds[i]
            )
    if n_false > 0:
        judge_level(plans, q, tables, n_false / size, done, done + chunk.last - chunk.first)


@lean
def find_candidates(
    codes: Codes, chunk: Chunk, tables: Tables, q: int, size: int, thresholds: Singles, level: int,
    portable: bool | None, work: Workspace,
) -> None:  # fmt: skip
    """Find the candidates of queries q <= i < q + size in a chunk: to ``work.candidates`` and ``work.counts``."""
    if portable is None:
        _filter_simd(chunk, 32 * codes.blocks.shape[1], tables, q, size, thresholds, level, work)
    else:
        _filter_portable(codes.blocks, chunk, tables, q, size, thresholds, work)


@lean
def keep_hits(
    codes: Codes, chunk: Chunk, work: Workspace, slot: int, base: float, costs: NDArray[np.float64],
    nearest_code: Bytes, threshold: np.float32,
) -> int:  # fmt: skip
    """Keep the candidates of one query that are nearer than ``threshold``; return the number of the others."""
    blocks, start, stop, keep = codes
    candidates, distances, places = work.candidates[slot], work.distances[slot], work.places
    origin, copied, hits, n_false = 32 * chunk.first, chunk.copied, 0, 0
    for c in range(work.counts[slot]):
        position = position_of(candidates[c], origin, copied, places, start, stop, keep)
        if position >= 0:
            distance = exact_distance(base, costs, nearest_code, blocks, position)
            if distance < threshold:
                candidates[hits], distances[hits] = position - origin, distance
                hits += 1
            else:
                n_false += 1
    work.counts[slot] = hits
    return n_false


@lean
def _filter_simd(
    chunk: Chunk, per_block: int, tables: Tables, q: int, size: int, thresholds: Singles, level: int, work: Workspace
) -> None:
    candidates, counts, limits = work.candidates, work.counts, work.limits
    check = np.int64(0)  # not a literal: for a literal the filters would be compiled again
    limits[:] = 0
    counts[:] = 0
    for slot in range(size):
        i = q + slot
        budget = budget_below(thresholds[i], tables.base[i])
        if budget > 0.0:
            limits[slot] = sum_limit(tables, i, budget, level, chunk.n_blocks)
            check = max(check, 1 + steps_until(tables.typical[i], thresholds[i]))  # before, few blocks can be skipped
    if check == 0:
        return
    if level > 0:
        check = -(-check // AT_ONCE) * AT_ONCE  # like the ends of parts
    steps, ends = len(tables.offsets) // COLUMNS, tables.ends
    offsets, scratch = np.int64(tables.offsets.ctypes.data), np.int64(work.scratch.ctypes.data)
    given = FilterPass(chunk.source, chunk.n_blocks, per_block, offsets, steps, level, check, scratch)
    tables_at, limits_at = np.int64(tables.quantised[q:].ctypes.data), np.int64(limits.ctypes.data)
    if size > FEW:
        if level == 0:
            whole_all(given, ends, tables_at, limits_at, candidates, counts)
        else:
            parts_all(given, ends, tables_at, limits_at, candidates, counts)
        return
    for slot in range(size):
        if limits[slot] > 0:
            if level == 0:
                whole_one(given, ends, tables_at, limits_at, candidates[slot:], counts[slot:])
            else:
                parts_one(given, ends, tables_at, limits_at, candidates[slot:], counts[slot:])
        tables_at += FIELDS * ENTRIES * steps
        limits_at += 8


@lean
def _filter_portable(
    blocks: Bytes, chunk: Chunk, tables: Tables, q: int, size: int, thresholds: Singles, work: Workspace
) -> None:
    for slot in range(size):
        i = q + slot
        budget = budget_below(thresholds[i], tables.base[i])
        work.counts[slot] = 0
        if budget > 0.0:
            work.counts[slot] = filter_portable(
                blocks, chunk.first, chunk.last, tables.excess[i], tables.preferred[i], budget, work.candidates[slot]
            )


# ---- the k best: a heap of candidates ----
#
# Equal distances are ordered by position or, with ``ids`` (an array instead of None), by the id there.

Ids = NDArray[np.int64] | None


@lean
def is_worse(
    distance: float, position: int, than_distance: float, than_position: int, ids: Ids = None
) -> bool:  # fmt: skip
    """Return whether an entry comes after another one."""
    if distance != than_distance:
        return distance > than_distance
    if ids is None:
        return position > than_position
    return ids[position] > ids[than_position]


@lean
def _sift_down(
    distances: Singles, positions: NDArray[np.int64], size: int, distance: float, position: int, ids: Ids = None
) -> None:
    """Replace the top of the heap by an entry and restore the order."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        other = child + 1
        if other < size and is_worse(distances[other], positions[other], distances[child], positions[child], ids):
            child = other
        if is_worse(distance, position, distances[child], positions[child], ids):
            break
        distances[hole] = distances[child]
        positions[hole] = positions[child]
        hole = child
    distances[hole] = distance
    positions[hole] = position


@lean
def push(
    distances: Singles, positions: NDArray[np.int64], size: int, distance: float, position: int, ids: Ids = None
) -> int:
    """Add an entry to a heap with the worst on top, in place of the top if it is full.

    Returns the new size.
    """
    if size == len(distances):
        _sift_down(distances, positions, size, distance, position, ids)
        return size
    hole = size
    while hole > 0:
        parent = (hole - 1) // 2
        if is_worse(distances[parent], positions[parent], distance, position, ids):
            break
        distances[hole] = distances[parent]
        positions[hole] = positions[parent]
        hole = parent
    distances[hole] = distance
    positions[hole] = position
    return size + 1


@lean
def sort_heap(distances: Singles, positions: NDArray[np.int64], size: int, ids: Ids = None) -> None:
    """Sort the entries from the best to the worst and mark the empty places."""
    for end in range(size - 1, 0, -1):
        distance, position = distances[end], positions[end]
        top_distance, top_position = distances[0], positions[0]
        _sift_down(distances, positions, end, distance, position, ids)
        distances[end] = top_distance
        positions[end] = top_position
    distances[size:] = np.inf
    positions[size:] = -1
