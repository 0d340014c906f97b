"""Candidates of a chunk of codes: what the filters leave for each query of a group.

``portable`` is True for the portable filter, None for SIMD: by that type numba leaves the other one out.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.chunks import copy_codes, wanted_places
from cbid.search.kernels.compile import helper
from cbid.search.kernels.filters import make_shelf, parts_all, parts_one, whole_all, whole_one
from cbid.search.kernels.portable import filter_portable
from cbid.search.kernels.registers import AT_ONCE, BLOCKS, COLUMNS, ENTRIES, FIELDS, GROUP
from cbid.search.kernels.sums import sum_limit
from cbid.search.kernels.tables import Tables, room_below, steps_until

__all__ = ["Chunk", "Desk", "find_candidates", "make_desk", "open_chunk"]

Blocks = NDArray[np.uint8]

FEW = GROUP // 2  # so many queries are scanned faster one by one than in a group that is not full
# From so many queries on it pays to bring the kept codes of a chunk together before they are scanned.
MANY_QUERIES = 8


class Desk(NamedTuple):
    """Memory that a scan works on, for chunks of so many codes."""

    candidates: NDArray[np.int32]  # (GROUP, codes) offsets in the chunk, for each query of a group
    counts: NDArray[np.int64]  # (GROUP,) how many
    limits: NDArray[np.int64]  # (GROUP,)
    shelf: Blocks
    places: NDArray[np.int32]  # (codes + 1,) of codes that were copied
    scratch: Blocks  # (blocks, width, 32) the copies


class Chunk(NamedTuple):
    """Blocks first <= b < last, and where the SIMD filters read them: address, number of blocks, and how many codes
    were copied there, -1 where they are read in place."""

    first: int
    last: int
    source: int
    n_blocks: int
    copied: int


@helper
def make_desk(width: int, largest: int) -> Desk:
    return Desk(
        np.empty((GROUP, 32 * largest), np.int32),
        np.zeros(GROUP, np.int64),
        np.zeros(GROUP, np.int64),
        make_shelf(),
        np.empty(32 * largest + 1, np.int32),
        np.empty((largest, width, 32), np.uint8),
    )


@helper
def open_chunk(
    blocks: Blocks, first: int, last: int, start: int, stop: int, keep: NDArray[np.uint8], portable: bool | None,
    n_queries: int, desk: Desk,
) -> Chunk:  # fmt: skip
    """Blocks first <= b < last, copied where they are no whole number of steps and, for many queries, where ``keep``
    leaves a part of them."""
    ragged = (last - first) % BLOCKS != 0
    if portable is None and (ragged or (len(keep) > 0 and n_queries >= MANY_QUERIES)):
        begin, finish = max(start, 32 * first), min(stop, 32 * last)
        copied = wanted_places(keep, begin, finish, 32 * first, desk.places)
        if ragged or copied < 0.75 * (finish - begin):
            copy_codes(blocks, first, desk.places[:copied], desk.scratch)
            per_step = 32 * BLOCKS
            source = int(np.int64(desk.scratch.ctypes.data))
            return Chunk(first, last, source, (copied + per_step - 1) // per_step * BLOCKS, copied)
    source = int(np.int64(blocks.ctypes.data)) + first * 32 * blocks.shape[1]
    return Chunk(first, last, source, last - first, -1)


@helper
def find_candidates(
    blocks: Blocks, chunk: Chunk, tables: Tables, q: int, size: int, thresholds: NDArray[np.float32], level: int,
    portable: bool | None, desk: Desk,
) -> None:  # fmt: skip
    """Candidates of queries q <= i < q + size in a chunk, to ``desk.candidates`` and ``desk.counts``."""
    if portable is None:
        _by_simd(chunk, 32 * blocks.shape[1], tables, q, size, thresholds, level, desk)
    else:
        _by_portable(blocks, chunk, tables, q, size, thresholds, desk)


@helper
def _by_simd(
    chunk: Chunk, per_block: int, tables: Tables, q: int, size: int, thresholds: NDArray[np.float32], level: int,
    desk: Desk,
) -> None:  # fmt: skip
    source, n_blocks = chunk.source, chunk.n_blocks
    candidates, counts, limits, shelf = desk.candidates, desk.counts, desk.limits, desk.shelf
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
def _by_portable(
    blocks: Blocks, chunk: Chunk, tables: Tables, q: int, size: int, thresholds: NDArray[np.float32], desk: Desk
) -> None:
    for slot in range(size):
        i = q + slot
        room = room_below(thresholds[i], tables.base[i])
        desk.counts[slot] = 0
        if room > 0.0:
            desk.counts[slot] = filter_portable(
                blocks, chunk.first, chunk.last, tables.excess[i], tables.preferred[i], room, desk.candidates[slot]
            )
