"""The SIMD filters: fields looked up for the codes of a few blocks at once, sums compared with a limit.

Each filter goes over ``n_blocks``, a multiple of BLOCKS, of ``per_block`` bytes from the address ``source``
on, with the quantised tables of one query (``.._1``) or of a group of four (``.._4``), whose sums stay in
registers while the bytes of the codes are split into fields only once. From ``check`` steps on, blocks are
left as soon as no code in them can pass. Candidates are written as offsets from the first code, in order.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.search._compile import helper
from cbid.search._vectors import (
    BLOCKS,
    COLUMNS,
    ENTRIES,
    FIELDS,
    LANES,
    add,
    add16,
    add_saturating,
    any_set,
    even_sums,
    load_fields,
    load_table,
    lookup,
    lowest_lane,
    odd_bytes,
    prefetch_step,
    set_lanes,
    set_lanes16,
    splat,
    splat16,
    under,
    under16,
    union,
    zeros,
)

__all__ = ["filter_narrow_1", "filter_narrow_4", "filter_wide_1", "filter_wide_4"]

Bytes = NDArray[np.uint8]
Columns = NDArray[np.int64]
Lanes = tuple[np.uint64, np.uint64]  # a mask for each register
Found = NDArray[np.int32]

LOOK = 4  # steps between two looks at whether the blocks can be left
STEP_TABLES = FIELDS * ENTRIES
STEP_BYTES = 32 * COLUMNS * BLOCKS
AHEAD = 4096  # bytes past the next blocks that a filter for one query, which waits for memory, fetches


@helper
def _write(lanes: Lanes, offset: int, found: Found, count: int) -> int:
    """Append the codes whose bit is set in ``lanes``."""
    for half in range(2):
        left = lanes[half]
        while left != 0:
            found[count] = offset + LANES * half + lowest_lane(left)
            count += 1
            left &= left - np.uint64(1)
    return count


@helper
def filter_narrow_4(
    source: int, n_blocks: int, per_block: int, tables: Bytes, offsets: Columns, check: int,
    limits: Columns, found: Found, counts: Columns,
) -> None:  # fmt: skip
    """8-bit sums of four queries. ``tables`` (4, steps, FIELDS, ENTRIES), ``limits`` (4,) up to 255."""
    steps = len(offsets) // COLUMNS
    offsets_at = np.int64(offsets.ctypes.data)
    table_0, per_query = np.int64(tables.ctypes.data), STEP_TABLES * steps
    table_1, table_2, table_3 = table_0 + per_query, table_0 + 2 * per_query, table_0 + 3 * per_query
    limit_0, limit_1 = splat(limits[0]), splat(limits[1])
    limit_2, limit_3 = splat(limits[2]), splat(limits[3])
    for b in range(0, n_blocks, BLOCKS):
        block = source + b * per_block
        sums_0 = sums_1 = sums_2 = sums_3 = zeros(0)
        under_0 = under_1 = under_2 = under_3 = sums_0
        step, stop = 0, min(check, steps)
        while True:
            while step < stop:
                f0, f1, f2, f3 = load_fields(block, per_block, offsets_at + 8 * COLUMNS * step)
                at = table_0 + STEP_TABLES * step
                left = add(lookup(load_table(at), f0), lookup(load_table(at + ENTRIES), f1))
                right = add(lookup(load_table(at + 2 * ENTRIES), f2), lookup(load_table(at + 3 * ENTRIES), f3))
                sums_0 = add_saturating(add_saturating(sums_0, left), right)
                at = table_1 + STEP_TABLES * step
                left = add(lookup(load_table(at), f0), lookup(load_table(at + ENTRIES), f1))
                right = add(lookup(load_table(at + 2 * ENTRIES), f2), lookup(load_table(at + 3 * ENTRIES), f3))
                sums_1 = add_saturating(add_saturating(sums_1, left), right)
                at = table_2 + STEP_TABLES * step
                left = add(lookup(load_table(at), f0), lookup(load_table(at + ENTRIES), f1))
                right = add(lookup(load_table(at + 2 * ENTRIES), f2), lookup(load_table(at + 3 * ENTRIES), f3))
                sums_2 = add_saturating(add_saturating(sums_2, left), right)
                at = table_3 + STEP_TABLES * step
                left = add(lookup(load_table(at), f0), lookup(load_table(at + ENTRIES), f1))
                right = add(lookup(load_table(at + 2 * ENTRIES), f2), lookup(load_table(at + 3 * ENTRIES), f3))
                sums_3 = add_saturating(add_saturating(sums_3, left), right)
                step += 1
            under_0 = under(limit_0, sums_0)
            under_1 = under(limit_1, sums_1)
            under_2 = under(limit_2, sums_2)
            under_3 = under(limit_3, sums_3)
            alive = any_set(union(union(under_0, under_1), union(under_2, under_3)))
            if stop == steps or not alive:
                break
            stop = min(stop + LOOK, steps)
        if alive:
            counts[0] = _write(set_lanes(under_0), 32 * b, found[0], counts[0])
            counts[1] = _write(set_lanes(under_1), 32 * b, found[1], counts[1])
            counts[2] = _write(set_lanes(under_2), 32 * b, found[2], counts[2])
            counts[3] = _write(set_lanes(under_3), 32 * b, found[3], counts[3])


@helper
def filter_narrow_1(
    source: int, n_blocks: int, per_block: int, tables: Bytes, offsets: Columns, check: int,
    limits: Columns, found: Found, counts: Columns,
) -> None:  # fmt: skip
    """8-bit sums of one query. ``tables`` (1, steps, FIELDS, ENTRIES), ``limits`` (1,) up to 255."""
    steps = len(offsets) // COLUMNS
    offsets_at = np.int64(offsets.ctypes.data)
    table = np.int64(tables.ctypes.data)
    limit = splat(limits[0])
    ahead = BLOCKS * per_block + AHEAD
    for b in range(0, n_blocks, BLOCKS):
        block = source + b * per_block
        sums = zeros(0)
        passing = sums
        step, stop = 0, min(check, steps)
        while True:
            while step < stop:
                prefetch_step(block + STEP_BYTES * step + ahead)
                f0, f1, f2, f3 = load_fields(block, per_block, offsets_at + 8 * COLUMNS * step)
                at = table + STEP_TABLES * step
                left = add(lookup(load_table(at), f0), lookup(load_table(at + ENTRIES), f1))
                right = add(lookup(load_table(at + 2 * ENTRIES), f2), lookup(load_table(at + 3 * ENTRIES), f3))
                sums = add_saturating(add_saturating(sums, left), right)
                step += 1
            passing = under(limit, sums)
            alive = any_set(passing)
            if stop == steps or not alive:
                break
            stop = min(stop + LOOK, steps)
        for skipped in range(step, steps):  # the next blocks may need these columns
            prefetch_step(block + STEP_BYTES * skipped + ahead)
        if alive:
            counts[0] = _write(set_lanes(passing), 32 * b, found[0], counts[0])


@helper
def filter_wide_4(
    source: int, n_blocks: int, per_block: int, tables: Bytes, offsets: Columns, check: int,
    segment: int, limits: Columns, found: Found, counts: Columns,
) -> None:  # fmt: skip
    """16-bit sums, of the 8-bit sums of ``segment`` steps each, of four queries. ``limits`` (4,) up to
    65535."""
    steps = len(offsets) // COLUMNS
    offsets_at = np.int64(offsets.ctypes.data)
    table_0, per_query = np.int64(tables.ctypes.data), STEP_TABLES * steps
    table_1, table_2, table_3 = table_0 + per_query, table_0 + 2 * per_query, table_0 + 3 * per_query
    limit_0, limit_1 = splat16(limits[0]), splat16(limits[1])
    limit_2, limit_3 = splat16(limits[2]), splat16(limits[3])
    for b in range(0, n_blocks, BLOCKS):
        block = source + b * per_block
        total_0 = total_1 = total_2 = total_3 = odd_0 = odd_1 = odd_2 = odd_3 = zeros(0)
        even_under_0 = even_under_1 = even_under_2 = even_under_3 = odd_under_0 = odd_under_1 = odd_under_2 = (
            odd_under_3
        ) = total_0
        step, stop = 0, min(segment, steps)
        while True:
            sums_0 = sums_1 = sums_2 = sums_3 = zeros(0)
            while step < stop:
                f0, f1, f2, f3 = load_fields(block, per_block, offsets_at + 8 * COLUMNS * step)
                at = table_0 + STEP_TABLES * step
                left = add(lookup(load_table(at), f0), lookup(load_table(at + ENTRIES), f1))
                right = add(lookup(load_table(at + 2 * ENTRIES), f2), lookup(load_table(at + 3 * ENTRIES), f3))
                sums_0 = add_saturating(add_saturating(sums_0, left), right)
                at = table_1 + STEP_TABLES * step
                left = add(lookup(load_table(at), f0), lookup(load_table(at + ENTRIES), f1))
                right = add(lookup(load_table(at + 2 * ENTRIES), f2), lookup(load_table(at + 3 * ENTRIES), f3))
                sums_1 = add_saturating(add_saturating(sums_1, left), right)
                at = table_2 + STEP_TABLES * step
                left = add(lookup(load_table(at), f0), lookup(load_table(at + ENTRIES), f1))
                right = add(lookup(load_table(at + 2 * ENTRIES), f2), lookup(load_table(at + 3 * ENTRIES), f3))
                sums_2 = add_saturating(add_saturating(sums_2, left), right)
                at = table_3 + STEP_TABLES * step
                left = add(lookup(load_table(at), f0), lookup(load_table(at + ENTRIES), f1))
                right = add(lookup(load_table(at + 2 * ENTRIES), f2), lookup(load_table(at + 3 * ENTRIES), f3))
                sums_3 = add_saturating(add_saturating(sums_3, left), right)
                step += 1
            total_0, odd_0 = add16(total_0, sums_0), add16(odd_0, odd_bytes(sums_0))
            total_1, odd_1 = add16(total_1, sums_1), add16(odd_1, odd_bytes(sums_1))
            total_2, odd_2 = add16(total_2, sums_2), add16(odd_2, odd_bytes(sums_2))
            total_3, odd_3 = add16(total_3, sums_3), add16(odd_3, odd_bytes(sums_3))
            if stop < check and stop < steps:
                stop = min(stop + segment, steps)
                continue
            even_under_0, odd_under_0 = under16(limit_0, even_sums(total_0, odd_0)), under16(limit_0, odd_0)
            even_under_1, odd_under_1 = under16(limit_1, even_sums(total_1, odd_1)), under16(limit_1, odd_1)
            even_under_2, odd_under_2 = under16(limit_2, even_sums(total_2, odd_2)), under16(limit_2, odd_2)
            even_under_3, odd_under_3 = under16(limit_3, even_sums(total_3, odd_3)), under16(limit_3, odd_3)
            even = union(union(even_under_0, even_under_1), union(even_under_2, even_under_3))
            odd_ = union(union(odd_under_0, odd_under_1), union(odd_under_2, odd_under_3))
            alive = any_set(union(even, odd_))
            if stop == steps or not alive:
                break
            stop = min(stop + segment, steps)
        if alive:
            counts[0] = _write(set_lanes16(even_under_0, odd_under_0), 32 * b, found[0], counts[0])
            counts[1] = _write(set_lanes16(even_under_1, odd_under_1), 32 * b, found[1], counts[1])
            counts[2] = _write(set_lanes16(even_under_2, odd_under_2), 32 * b, found[2], counts[2])
            counts[3] = _write(set_lanes16(even_under_3, odd_under_3), 32 * b, found[3], counts[3])


@helper
def filter_wide_1(
    source: int, n_blocks: int, per_block: int, tables: Bytes, offsets: Columns, check: int,
    segment: int, limits: Columns, found: Found, counts: Columns,
) -> None:  # fmt: skip
    """16-bit sums of one query. ``limits`` (1,) up to 65535."""
    steps = len(offsets) // COLUMNS
    offsets_at = np.int64(offsets.ctypes.data)
    table = np.int64(tables.ctypes.data)
    limit = splat16(limits[0])
    ahead = BLOCKS * per_block + AHEAD
    for b in range(0, n_blocks, BLOCKS):
        block = source + b * per_block
        total = odd = zeros(0)
        even_under = odd_under = total
        step, stop = 0, min(segment, steps)
        while True:
            sums = zeros(0)
            while step < stop:
                prefetch_step(block + STEP_BYTES * step + ahead)
                f0, f1, f2, f3 = load_fields(block, per_block, offsets_at + 8 * COLUMNS * step)
                at = table + STEP_TABLES * step
                left = add(lookup(load_table(at), f0), lookup(load_table(at + ENTRIES), f1))
                right = add(lookup(load_table(at + 2 * ENTRIES), f2), lookup(load_table(at + 3 * ENTRIES), f3))
                sums = add_saturating(add_saturating(sums, left), right)
                step += 1
            total, odd = add16(total, sums), add16(odd, odd_bytes(sums))
            if stop < check and stop < steps:
                stop = min(stop + segment, steps)
                continue
            even_under, odd_under = under16(limit, even_sums(total, odd)), under16(limit, odd)
            alive = any_set(union(even_under, odd_under))
            if stop == steps or not alive:
                break
            stop = min(stop + segment, steps)
        for skipped in range(step, steps):  # the next blocks may need these columns
            prefetch_step(block + STEP_BYTES * skipped + ahead)
        if alive:
            counts[0] = _write(set_lanes16(even_under, odd_under), 32 * b, found[0], counts[0])
