"""The SIMD filters: fields looked up for the codes of a few blocks at once, sums compared with a limit.

Each filter goes over ``n_blocks``, a multiple of BLOCKS, of ``per_block`` bytes from the address ``source``
on, with the quantised tables of one query (``.._one``) or of a group of GROUP (``.._all``), whose sums stay in
registers while the bytes of the codes are split into fields only once. From ``check`` steps on, blocks are
left as soon as no code in them can pass. Candidates are written as offsets from the first code, in order.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.search._compile import helper
from cbid.search._vectors import (
    BLOCKS,
    COLUMNS,
    ENTRIES,
    FIELDS,
    GROUP,
    LANES,
    add16,
    add_step,
    any_set,
    average,
    even_sums,
    limits8_all,
    limits8_one,
    limits16_all,
    limits16_one,
    load_fields,
    load_group,
    lowest_lane,
    odd_bytes,
    prefetch_step,
    store_group,
    store_lanes,
    store_lanes16,
    under,
    under16,
    union,
    zeros,
)

__all__ = ["halved_all", "halved_one", "narrow_all", "narrow_one", "wide_all", "wide_one"]

Columns = NDArray[np.int64]
Lanes = NDArray[np.uint64]  # two masks for each query
Found = NDArray[np.int32]

LOOK = 12 // COLUMNS  # steps between two looks at whether the blocks can be left
STEP_TABLES = FIELDS * ENTRIES
STEP_BYTES = 32 * COLUMNS * BLOCKS
AHEAD = 4096  # bytes past the next blocks that a filter for one query, which waits for memory, fetches


@helper
def _write(lanes: Lanes, offset: int, found: Found, counts: Columns) -> None:
    """Append the codes whose bit is set in ``lanes`` to those ``found`` for each query."""
    for i in range(len(lanes)):
        left, slot = lanes[i], i // 2
        count = counts[slot]
        while left != 0:
            found[slot, count] = offset + LANES * (i % 2) + lowest_lane(left)
            count += 1
            left &= left - np.uint64(1)
        counts[slot] = count


@helper
def _shelf(groups: int, size: int) -> NDArray[np.uint8]:
    """Memory for some groups of ``size`` queries, which lie at `_first_place` of it."""
    return np.zeros((2 * size * groups + 1) * LANES, np.uint8)


@helper
def _first_place(shelf: NDArray[np.uint8]) -> int:
    return (np.int64(shelf.ctypes.data) + LANES - 1) // LANES * LANES


def _narrow(size: int, load_limits: Any, halved: bool) -> Any:
    alone = size == 1

    @helper
    def narrow(
        source: int, n_blocks: int, per_block: int, tables: int, offsets: Columns, check: int, middle: int,
        limits_at: int, found: Found, counts: Columns,
    ) -> None:  # fmt: skip
        """8-bit sums. ``tables`` is the address of (size, steps, FIELDS, ENTRIES), ``limits_at`` that of
        (size,) int64 up to 255. If ``halved``, one sum of the steps up to ``middle`` and one of the others,
        whose average is held against the limit."""
        steps = len(offsets) // COLUMNS
        offsets_at, per_query = np.int64(offsets.ctypes.data), STEP_TABLES * steps
        limits = load_limits(limits_at)
        lanes = np.empty(2 * size, np.uint64)
        ahead = BLOCKS * per_block + AHEAD
        turn = middle if halved else steps
        shelf = _shelf(1, size)
        kept_at = _first_place(shelf)
        for b in range(0, n_blocks, BLOCKS):
            block = source + b * per_block
            sums = zeros(limits)
            if halved:
                store_group(sums, kept_at)
            step, stop = 0, min(check, turn)
            while True:
                while step < stop:
                    if alone:
                        prefetch_step(block + STEP_BYTES * step + ahead)
                    fields = load_fields(block, per_block, offsets_at + 8 * COLUMNS * step)
                    sums = add_step(sums, fields, tables + STEP_TABLES * step, per_query)
                    step += 1
                if halved and step == turn:
                    store_group(sums, kept_at)
                    sums = zeros(limits)
                if stop >= check or stop == steps:
                    passing = under(limits, average(load_group(sums, kept_at), sums) if halved else sums)
                    alive = any_set(passing)
                    if stop == steps or not alive:
                        break
                stop = min(max(stop + LOOK, check), turn if stop < turn else steps)
            if alone:
                for skipped in range(step, steps):  # the next blocks may need these columns
                    prefetch_step(block + STEP_BYTES * skipped + ahead)
            if alive:
                store_lanes(passing, np.int64(lanes.ctypes.data))
                _write(lanes, 32 * b, found, counts)

    return narrow


def _wide(size: int, load_limits: Any) -> Any:
    alone = size == 1

    @helper
    def wide(
        source: int, n_blocks: int, per_block: int, tables: int, offsets: Columns, check: int,
        segment: int, limits_at: int, found: Found, counts: Columns,
    ) -> None:  # fmt: skip
        """16-bit sums of the averages of two 8-bit sums, of ``segment`` steps each; limits up to 65535."""
        steps = len(offsets) // COLUMNS
        offsets_at, per_query = np.int64(offsets.ctypes.data), STEP_TABLES * steps
        limits = load_limits(limits_at)
        lanes = np.empty(2 * size, np.uint64)
        ahead = BLOCKS * per_block + AHEAD
        shelf = _shelf(3, size)
        kept_at = _first_place(shelf)
        total_at, odd_at = kept_at + 2 * size * LANES, kept_at + 4 * size * LANES
        for b in range(0, n_blocks, BLOCKS):
            block = source + b * per_block
            store_group(zeros(limits), total_at)
            store_group(zeros(limits), odd_at)
            step = 0
            while True:
                sums = zeros(limits)
                for _ in range(2):
                    store_group(sums, kept_at)
                    sums = zeros(limits)
                    stop = min(step + segment, steps)
                    while step < stop:
                        if alone:
                            prefetch_step(block + STEP_BYTES * step + ahead)
                        fields = load_fields(block, per_block, offsets_at + 8 * COLUMNS * step)
                        sums = add_step(sums, fields, tables + STEP_TABLES * step, per_query)
                        step += 1
                both = average(load_group(sums, kept_at), sums)
                total = add16(load_group(sums, total_at), both)
                odd = add16(load_group(sums, odd_at), odd_bytes(both))
                if step < check and step < steps:
                    store_group(total, total_at)
                    store_group(odd, odd_at)
                    continue
                even_under, odd_under = under16(limits, even_sums(total, odd)), under16(limits, odd)
                alive = any_set(union(even_under, odd_under))
                if step == steps or not alive:
                    break
                store_group(total, total_at)
                store_group(odd, odd_at)
            if alone:
                for skipped in range(step, steps):  # the next blocks may need these columns
                    prefetch_step(block + STEP_BYTES * skipped + ahead)
            if alive:
                store_lanes16(even_under, odd_under, np.int64(lanes.ctypes.data))
                _write(lanes, 32 * b, found, counts)

    return wide


narrow_one, narrow_all = _narrow(1, limits8_one, False), _narrow(GROUP, limits8_all, False)
halved_one, halved_all = _narrow(1, limits8_one, True), _narrow(GROUP, limits8_all, True)
wide_one, wide_all = _wide(1, limits16_one), _wide(GROUP, limits16_all)
