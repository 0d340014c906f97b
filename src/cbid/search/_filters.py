"""The SIMD filters: nibble tables looked up for the codes of two blocks at a time, sums compared with a limit.

Each filter goes over blocks first <= b < last with the quantised tables of one query (``.._1``) or of a group
of four (``.._4``), whose sums stay in registers while a byte of the codes is split into nibbles only once. Bytes
are taken in the order of the tables, the costliest first; from ``check`` columns on, two blocks are left as soon
as no code in them can pass. Candidates are written as offsets from the first block's first code, in order.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.search._compile import compiled
from cbid.search._vectors import (
    add,
    add16,
    add_saturating,
    any_set,
    even_sums,
    high_nibbles,
    load,
    load_table,
    lookup,
    low_nibbles,
    lowest_lane,
    odd_bytes,
    prefetch,
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
Found = NDArray[np.int32]

STEP = 8  # byte columns between two looks at whether two blocks can be left
BOTH, ONLY_FIRST = np.uint64(2**64 - 1), np.uint64(2**32 - 1)  # lanes of real codes
AHEAD = 4096  # bytes at least that a filter for one query, which waits for memory, fetches in advance


@compiled
def _write(lanes: np.uint64, offset: int, found: Found, count: int) -> int:
    """Append the codes whose bit is set in ``lanes``."""
    while lanes != 0:
        found[count] = offset + lowest_lane(lanes)
        count += 1
        lanes &= lanes - np.uint64(1)
    return count


@compiled
def filter_narrow_4(
    blocks: Bytes, first: int, last: int, tables: Bytes, order: Columns, check: int, limits: Columns,
    found: Found, counts: Columns,
) -> None:  # fmt: skip
    """8-bit sums of four queries. ``tables`` (4, columns, 2, 16), ``limits`` (4,) up to 255."""
    columns = len(order)
    per_block = 32 * blocks.shape[1]
    table_0 = np.int64(tables.ctypes.data)
    table_1, table_2, table_3 = table_0 + 32 * columns, table_0 + 64 * columns, table_0 + 96 * columns
    limit_0, limit_1, limit_2, limit_3 = splat(limits[0]), splat(limits[1]), splat(limits[2]), splat(limits[3])
    start = np.int64(blocks.ctypes.data)
    for b in range(first, last, 2):
        block_a = start + b * per_block
        block_b = block_a + per_block if b + 1 < last else block_a
        sums_0 = sums_1 = sums_2 = sums_3 = zeros(0)
        under_0 = under_1 = under_2 = under_3 = sums_0
        c = 0
        stop = min(check, columns)
        while True:
            while c < stop:
                at = 32 * order[np.uint64(c)]
                row = 32 * c
                codes = load(block_a + at, block_b + at)
                high, low = high_nibbles(codes), low_nibbles(codes)
                both = add(lookup(load_table(table_0 + row), high), lookup(load_table(table_0 + row + 16), low))
                sums_0 = add_saturating(sums_0, both)
                both = add(lookup(load_table(table_1 + row), high), lookup(load_table(table_1 + row + 16), low))
                sums_1 = add_saturating(sums_1, both)
                both = add(lookup(load_table(table_2 + row), high), lookup(load_table(table_2 + row + 16), low))
                sums_2 = add_saturating(sums_2, both)
                both = add(lookup(load_table(table_3 + row), high), lookup(load_table(table_3 + row + 16), low))
                sums_3 = add_saturating(sums_3, both)
                c += 1
            under_0, under_1 = under(limit_0, sums_0), under(limit_1, sums_1)
            under_2, under_3 = under(limit_2, sums_2), under(limit_3, sums_3)
            alive = any_set(union(union(under_0, under_1), union(under_2, under_3)))
            if stop == columns or not alive:
                break
            stop = min(stop + STEP, columns)
        if alive:
            at = 32 * (b - first)
            real = BOTH if b + 1 < last else ONLY_FIRST
            counts[0] = _write(set_lanes(under_0) & real, at, found[0], counts[0])
            counts[1] = _write(set_lanes(under_1) & real, at, found[1], counts[1])
            counts[2] = _write(set_lanes(under_2) & real, at, found[2], counts[2])
            counts[3] = _write(set_lanes(under_3) & real, at, found[3], counts[3])


@compiled
def filter_narrow_1(
    blocks: Bytes, first: int, last: int, tables: Bytes, order: Columns, check: int, limits: Columns,
    found: Found, counts: Columns,
) -> None:  # fmt: skip
    """8-bit sums of one query. ``tables`` (1, columns, 2, 16)."""
    columns = len(order)
    per_block = 32 * blocks.shape[1]
    table = np.int64(tables.ctypes.data)
    limit = splat(limits[0])
    ahead = max(AHEAD, 2 * per_block)
    start = np.int64(blocks.ctypes.data)
    for b in range(first, last, 2):
        block_a = start + b * per_block
        block_b = block_a + per_block if b + 1 < last else block_a
        sums = under_limit = zeros(0)
        c = 0
        stop = min(check, columns)
        while True:
            while c < stop:
                at = 32 * order[np.uint64(c)]
                prefetch(block_a + 64 * c + ahead)
                codes = load(block_a + at, block_b + at)
                high = lookup(load_table(table + 32 * c), high_nibbles(codes))
                low = lookup(load_table(table + 32 * c + 16), low_nibbles(codes))
                sums = add_saturating(sums, add(high, low))
                c += 1
            under_limit = under(limit, sums)
            alive = any_set(under_limit)
            if stop == columns or not alive:
                break
            stop = min(stop + STEP, columns)
        if alive:
            real = BOTH if b + 1 < last else ONLY_FIRST
            counts[0] = _write(set_lanes(under_limit) & real, 32 * (b - first), found[0], counts[0])


@compiled
def filter_wide_4(
    blocks: Bytes, first: int, last: int, tables: Bytes, order: Columns, check: int, limits: Columns,
    found: Found, counts: Columns,
) -> None:  # fmt: skip
    """16-bit sums, of the 8-bit sums of two columns, of four queries. ``limits`` (4,) up to 65535."""
    columns = len(order)
    per_block = 32 * blocks.shape[1]
    table_0 = np.int64(tables.ctypes.data)
    table_1, table_2, table_3 = table_0 + 32 * columns, table_0 + 64 * columns, table_0 + 96 * columns
    limit_0, limit_1 = splat16(limits[0]), splat16(limits[1])
    limit_2, limit_3 = splat16(limits[2]), splat16(limits[3])
    start = np.int64(blocks.ctypes.data)
    for b in range(first, last, 2):
        block_a = start + b * per_block
        block_b = block_a + per_block if b + 1 < last else block_a
        total_0 = total_1 = total_2 = total_3 = odd_0 = odd_1 = odd_2 = odd_3 = zeros(0)
        even_under_0 = even_under_1 = even_under_2 = even_under_3 = total_0
        odd_under_0 = odd_under_1 = odd_under_2 = odd_under_3 = total_0
        c = 0
        stop = min(check, columns)
        while True:
            while c < stop:
                at, next_at = 32 * order[np.uint64(c)], 32 * order[np.uint64(c + 1)]
                row = 32 * c
                codes = load(block_a + at, block_b + at)
                high, low = high_nibbles(codes), low_nibbles(codes)
                pair_0 = add(lookup(load_table(table_0 + row), high), lookup(load_table(table_0 + row + 16), low))
                pair_1 = add(lookup(load_table(table_1 + row), high), lookup(load_table(table_1 + row + 16), low))
                pair_2 = add(lookup(load_table(table_2 + row), high), lookup(load_table(table_2 + row + 16), low))
                pair_3 = add(lookup(load_table(table_3 + row), high), lookup(load_table(table_3 + row + 16), low))
                codes = load(block_a + next_at, block_b + next_at)
                high, low = high_nibbles(codes), low_nibbles(codes)
                row += 32
                pair_0 = add(pair_0, lookup(load_table(table_0 + row), high))
                pair_1 = add(pair_1, lookup(load_table(table_1 + row), high))
                pair_2 = add(pair_2, lookup(load_table(table_2 + row), high))
                pair_3 = add(pair_3, lookup(load_table(table_3 + row), high))
                pair_0 = add(pair_0, lookup(load_table(table_0 + row + 16), low))
                pair_1 = add(pair_1, lookup(load_table(table_1 + row + 16), low))
                pair_2 = add(pair_2, lookup(load_table(table_2 + row + 16), low))
                pair_3 = add(pair_3, lookup(load_table(table_3 + row + 16), low))
                total_0, odd_0 = add16(total_0, pair_0), add16(odd_0, odd_bytes(pair_0))
                total_1, odd_1 = add16(total_1, pair_1), add16(odd_1, odd_bytes(pair_1))
                total_2, odd_2 = add16(total_2, pair_2), add16(odd_2, odd_bytes(pair_2))
                total_3, odd_3 = add16(total_3, pair_3), add16(odd_3, odd_bytes(pair_3))
                c += 2
            even_under_0, odd_under_0 = under16(limit_0, even_sums(total_0, odd_0)), under16(limit_0, odd_0)
            even_under_1, odd_under_1 = under16(limit_1, even_sums(total_1, odd_1)), under16(limit_1, odd_1)
            even_under_2, odd_under_2 = under16(limit_2, even_sums(total_2, odd_2)), under16(limit_2, odd_2)
            even_under_3, odd_under_3 = under16(limit_3, even_sums(total_3, odd_3)), under16(limit_3, odd_3)
            even = union(union(even_under_0, even_under_1), union(even_under_2, even_under_3))
            odd = union(union(odd_under_0, odd_under_1), union(odd_under_2, odd_under_3))
            alive = any_set(union(even, odd))
            if stop == columns or not alive:
                break
            stop = min(stop + STEP, columns)
        if alive:
            at = 32 * (b - first)
            real = BOTH if b + 1 < last else ONLY_FIRST
            counts[0] = _write(set_lanes16(even_under_0, odd_under_0) & real, at, found[0], counts[0])
            counts[1] = _write(set_lanes16(even_under_1, odd_under_1) & real, at, found[1], counts[1])
            counts[2] = _write(set_lanes16(even_under_2, odd_under_2) & real, at, found[2], counts[2])
            counts[3] = _write(set_lanes16(even_under_3, odd_under_3) & real, at, found[3], counts[3])


@compiled
def filter_wide_1(
    blocks: Bytes, first: int, last: int, tables: Bytes, order: Columns, check: int, limits: Columns,
    found: Found, counts: Columns,
) -> None:  # fmt: skip
    """16-bit sums of one query. ``tables`` (1, columns, 2, 16)."""
    columns = len(order)
    per_block = 32 * blocks.shape[1]
    table = np.int64(tables.ctypes.data)
    limit = splat16(limits[0])
    ahead = max(AHEAD, 2 * per_block)
    start = np.int64(blocks.ctypes.data)
    for b in range(first, last, 2):
        block_a = start + b * per_block
        block_b = block_a + per_block if b + 1 < last else block_a
        total = odd = even_under = odd_under = zeros(0)
        c = 0
        stop = min(check, columns)
        while True:
            while c < stop:
                at, next_at = 32 * order[np.uint64(c)], 32 * order[np.uint64(c + 1)]
                row = table + 32 * c
                prefetch(block_a + 64 * c + ahead)
                prefetch(block_a + 64 * c + 64 + ahead)
                codes, next_codes = load(block_a + at, block_b + at), load(block_a + next_at, block_b + next_at)
                pair = add(
                    add(
                        lookup(load_table(row), high_nibbles(codes)),
                        lookup(load_table(row + 16), low_nibbles(codes)),
                    ),
                    add(
                        lookup(load_table(row + 32), high_nibbles(next_codes)),
                        lookup(load_table(row + 48), low_nibbles(next_codes)),
                    ),
                )
                total, odd = add16(total, pair), add16(odd, odd_bytes(pair))
                c += 2
            even_under, odd_under = under16(limit, even_sums(total, odd)), under16(limit, odd)
            alive = any_set(union(even_under, odd_under))
            if stop == columns or not alive:
                break
            stop = min(stop + STEP, columns)
        if alive:
            real = BOTH if b + 1 < last else ONLY_FIRST
            lanes = set_lanes16(even_under, odd_under) & real
            counts[0] = _write(lanes, 32 * (b - first), found[0], counts[0])
