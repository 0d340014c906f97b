"""The SIMD filters: nibble tables looked up for 32 codes at a time, sums compared with a limit per query.

Each filter goes over blocks first <= b < last with the quantised tables of one query (``.._1``) or of a group of
four (``.._4``), whose sums stay in registers while a byte of the codes is split into nibbles only once. Bytes are
taken in the order of the tables, the costliest first; from ``check`` columns on, a block is left as soon as no
code in it can pass. Candidates are written as offsets from the first block's first code, in order.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.search._compile import compiled
from cbid.search._vectors import (
    add,
    add16,
    any_set,
    even_sums,
    high_nibbles,
    load,
    load_table,
    lookup,
    low_nibbles,
    lowest_lane,
    odd_bytes,
    set_lanes,
    set_lanes16,
    splat,
    splat16,
    under,
    under16,
    union,
)

__all__ = ["filter_narrow_1", "filter_narrow_4", "filter_wide_1", "filter_wide_4"]

Bytes = NDArray[np.uint8]
Columns = NDArray[np.int64]
Found = NDArray[np.int32]

STEP = 8  # byte columns between two looks at whether a block can be left


@compiled
def _write(lanes: np.uint32, offset: int, found: Found, count: int) -> int:
    """Append the codes whose bit is set in ``lanes``."""
    while lanes != 0:
        found[count] = offset + lowest_lane(lanes)
        count += 1
        lanes &= lanes - np.uint32(1)
    return count


@compiled
def filter_narrow_4(
    blocks: Bytes, first: int, last: int, tables: Bytes, order: Columns, check: int, limits: Columns,
    found: Found, counts: Columns,
) -> None:  # fmt: skip
    """8-bit sums, four queries by two blocks. ``tables`` (4, columns, 2, 16), ``limits`` (4,) up to 255."""
    columns = len(order)
    per_block = 32 * blocks.shape[1]
    per_query = 32 * columns
    table_0 = np.int64(tables.ctypes.data)
    table_1, table_2, table_3 = table_0 + per_query, table_0 + 2 * per_query, table_0 + 3 * per_query
    limit_0, limit_1, limit_2, limit_3 = splat(limits[0]), splat(limits[1]), splat(limits[2]), splat(limits[3])
    start = np.int64(blocks.ctypes.data)
    for b in range(first, last, 2):
        block_a = start + b * per_block
        block_b = block_a + per_block if b + 1 < last else block_a
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = splat(np.int64(0))
        u0 = u1 = u2 = u3 = v0 = v1 = v2 = v3 = a0
        c = 0
        stop = min(check, columns)
        alive = True
        while True:
            while c < stop:
                at = 32 * order[c]
                row = 32 * c
                codes_a, codes_b = load(block_a + at), load(block_b + at)
                high_a, high_b = high_nibbles(codes_a), high_nibbles(codes_b)
                low_a, low_b = low_nibbles(codes_a), low_nibbles(codes_b)
                table = load_table(table_0 + row)
                a0, b0 = add(a0, lookup(table, high_a)), add(b0, lookup(table, high_b))
                table = load_table(table_0 + row + 16)
                a0, b0 = add(a0, lookup(table, low_a)), add(b0, lookup(table, low_b))
                table = load_table(table_1 + row)
                a1, b1 = add(a1, lookup(table, high_a)), add(b1, lookup(table, high_b))
                table = load_table(table_1 + row + 16)
                a1, b1 = add(a1, lookup(table, low_a)), add(b1, lookup(table, low_b))
                table = load_table(table_2 + row)
                a2, b2 = add(a2, lookup(table, high_a)), add(b2, lookup(table, high_b))
                table = load_table(table_2 + row + 16)
                a2, b2 = add(a2, lookup(table, low_a)), add(b2, lookup(table, low_b))
                table = load_table(table_3 + row)
                a3, b3 = add(a3, lookup(table, high_a)), add(b3, lookup(table, high_b))
                table = load_table(table_3 + row + 16)
                a3, b3 = add(a3, lookup(table, low_a)), add(b3, lookup(table, low_b))
                c += 1
            u0, u1, u2, u3 = under(limit_0, a0), under(limit_1, a1), under(limit_2, a2), under(limit_3, a3)
            v0, v1, v2, v3 = under(limit_0, b0), under(limit_1, b1), under(limit_2, b2), under(limit_3, b3)
            left = union(union(union(u0, u1), union(u2, u3)), union(union(v0, v1), union(v2, v3)))
            alive = any_set(left)
            if stop == columns or not alive:
                break
            stop = min(stop + STEP, columns)
        if alive:
            at = 32 * (b - first)
            counts[0] = _write(set_lanes(u0), at, found[0], counts[0])
            counts[1] = _write(set_lanes(u1), at, found[1], counts[1])
            counts[2] = _write(set_lanes(u2), at, found[2], counts[2])
            counts[3] = _write(set_lanes(u3), at, found[3], counts[3])
            if b + 1 < last:
                counts[0] = _write(set_lanes(v0), at + 32, found[0], counts[0])
                counts[1] = _write(set_lanes(v1), at + 32, found[1], counts[1])
                counts[2] = _write(set_lanes(v2), at + 32, found[2], counts[2])
                counts[3] = _write(set_lanes(v3), at + 32, found[3], counts[3])


@compiled
def filter_narrow_1(
    blocks: Bytes, first: int, last: int, tables: Bytes, order: Columns, check: int, limits: Columns,
    found: Found, counts: Columns,
) -> None:  # fmt: skip
    """8-bit sums, one query by two blocks. ``tables`` (1, columns, 2, 16)."""
    columns = len(order)
    per_block = 32 * blocks.shape[1]
    tables_at = np.int64(tables.ctypes.data)
    limit = splat(limits[0])
    start = np.int64(blocks.ctypes.data)
    count = counts[0]
    for b in range(first, last, 2):
        block_a = start + b * per_block
        block_b = block_a + per_block if b + 1 < last else block_a
        sums_a = sums_b = splat(np.int64(0))
        under_a = under_b = sums_a
        c = 0
        stop = min(check, columns)
        alive = True
        while True:
            while c < stop:
                at = 32 * order[c]
                codes_a, codes_b = load(block_a + at), load(block_b + at)
                table = load_table(tables_at + 32 * c)
                sums_a = add(sums_a, lookup(table, high_nibbles(codes_a)))
                sums_b = add(sums_b, lookup(table, high_nibbles(codes_b)))
                table = load_table(tables_at + 32 * c + 16)
                sums_a = add(sums_a, lookup(table, low_nibbles(codes_a)))
                sums_b = add(sums_b, lookup(table, low_nibbles(codes_b)))
                c += 1
            under_a, under_b = under(limit, sums_a), under(limit, sums_b)
            alive = any_set(union(under_a, under_b))
            if stop == columns or not alive:
                break
            stop = min(stop + STEP, columns)
        if alive:
            count = _write(set_lanes(under_a), 32 * (b - first), found[0], count)
            if b + 1 < last:
                count = _write(set_lanes(under_b), 32 * (b - first) + 32, found[0], count)
    counts[0] = count


@compiled
def filter_wide_4(
    blocks: Bytes, first: int, last: int, tables: Bytes, order: Columns, check: int, limits: Columns,
    found: Found, counts: Columns,
) -> None:  # fmt: skip
    """16-bit sums of the 8-bit sums of two columns, four queries by one block. ``limits`` up to 65535."""
    columns = len(order)
    per_block = 32 * blocks.shape[1]
    per_query = 32 * columns
    table_0 = np.int64(tables.ctypes.data)
    table_1, table_2, table_3 = table_0 + per_query, table_0 + 2 * per_query, table_0 + 3 * per_query
    limit_0, limit_1 = splat16(limits[0]), splat16(limits[1])
    limit_2, limit_3 = splat16(limits[2]), splat16(limits[3])
    start = np.int64(blocks.ctypes.data)
    for b in range(first, last):
        block = start + b * per_block
        total_0 = total_1 = total_2 = total_3 = odd_0 = odd_1 = odd_2 = odd_3 = splat(np.int64(0))
        u0 = u1 = u2 = u3 = v0 = v1 = v2 = v3 = total_0
        c = 0
        stop = min(check, columns)
        alive = True
        while True:
            while c < stop:
                row = 32 * c
                codes = load(block + 32 * order[c])
                high, low = high_nibbles(codes), low_nibbles(codes)
                codes = load(block + 32 * order[c + 1])
                next_high, next_low = high_nibbles(codes), low_nibbles(codes)
                at = table_0 + row
                pair = add(
                    add(lookup(load_table(at), high), lookup(load_table(at + 16), low)),
                    add(lookup(load_table(at + 32), next_high), lookup(load_table(at + 48), next_low)),
                )
                total_0, odd_0 = add16(total_0, pair), add16(odd_0, odd_bytes(pair))
                at = table_1 + row
                pair = add(
                    add(lookup(load_table(at), high), lookup(load_table(at + 16), low)),
                    add(lookup(load_table(at + 32), next_high), lookup(load_table(at + 48), next_low)),
                )
                total_1, odd_1 = add16(total_1, pair), add16(odd_1, odd_bytes(pair))
                at = table_2 + row
                pair = add(
                    add(lookup(load_table(at), high), lookup(load_table(at + 16), low)),
                    add(lookup(load_table(at + 32), next_high), lookup(load_table(at + 48), next_low)),
                )
                total_2, odd_2 = add16(total_2, pair), add16(odd_2, odd_bytes(pair))
                at = table_3 + row
                pair = add(
                    add(lookup(load_table(at), high), lookup(load_table(at + 16), low)),
                    add(lookup(load_table(at + 32), next_high), lookup(load_table(at + 48), next_low)),
                )
                total_3, odd_3 = add16(total_3, pair), add16(odd_3, odd_bytes(pair))
                c += 2
            u0, v0 = under16(limit_0, even_sums(total_0, odd_0)), under16(limit_0, odd_0)
            u1, v1 = under16(limit_1, even_sums(total_1, odd_1)), under16(limit_1, odd_1)
            u2, v2 = under16(limit_2, even_sums(total_2, odd_2)), under16(limit_2, odd_2)
            u3, v3 = under16(limit_3, even_sums(total_3, odd_3)), under16(limit_3, odd_3)
            left = union(union(union(u0, u1), union(u2, u3)), union(union(v0, v1), union(v2, v3)))
            alive = any_set(left)
            if stop == columns or not alive:
                break
            stop = min(stop + STEP, columns)
        if alive:
            at = 32 * (b - first)
            counts[0] = _write(set_lanes16(u0, v0), at, found[0], counts[0])
            counts[1] = _write(set_lanes16(u1, v1), at, found[1], counts[1])
            counts[2] = _write(set_lanes16(u2, v2), at, found[2], counts[2])
            counts[3] = _write(set_lanes16(u3, v3), at, found[3], counts[3])


@compiled
def filter_wide_1(
    blocks: Bytes, first: int, last: int, tables: Bytes, order: Columns, check: int, limits: Columns,
    found: Found, counts: Columns,
) -> None:  # fmt: skip
    """16-bit sums, one query by two blocks."""
    columns = len(order)
    per_block = 32 * blocks.shape[1]
    tables_at = np.int64(tables.ctypes.data)
    limit = splat16(limits[0])
    start = np.int64(blocks.ctypes.data)
    count = counts[0]
    for b in range(first, last, 2):
        block_a = start + b * per_block
        block_b = block_a + per_block if b + 1 < last else block_a
        total_a = total_b = odd_a = odd_b = splat(np.int64(0))
        u_a = u_b = v_a = v_b = total_a
        c = 0
        stop = min(check, columns)
        alive = True
        while True:
            while c < stop:
                at, next_at = 32 * order[c], 32 * order[c + 1]
                codes_a, codes_b = load(block_a + at), load(block_b + at)
                table = load_table(tables_at + 32 * c)
                pair_a, pair_b = lookup(table, high_nibbles(codes_a)), lookup(table, high_nibbles(codes_b))
                table = load_table(tables_at + 32 * c + 16)
                pair_a = add(pair_a, lookup(table, low_nibbles(codes_a)))
                pair_b = add(pair_b, lookup(table, low_nibbles(codes_b)))
                codes_a, codes_b = load(block_a + next_at), load(block_b + next_at)
                table = load_table(tables_at + 32 * c + 32)
                pair_a = add(pair_a, lookup(table, high_nibbles(codes_a)))
                pair_b = add(pair_b, lookup(table, high_nibbles(codes_b)))
                table = load_table(tables_at + 32 * c + 48)
                pair_a = add(pair_a, lookup(table, low_nibbles(codes_a)))
                pair_b = add(pair_b, lookup(table, low_nibbles(codes_b)))
                total_a, odd_a = add16(total_a, pair_a), add16(odd_a, odd_bytes(pair_a))
                total_b, odd_b = add16(total_b, pair_b), add16(odd_b, odd_bytes(pair_b))
                c += 2
            u_a, v_a = under16(limit, even_sums(total_a, odd_a)), under16(limit, odd_a)
            u_b, v_b = under16(limit, even_sums(total_b, odd_b)), under16(limit, odd_b)
            alive = any_set(union(union(u_a, v_a), union(u_b, v_b)))
            if stop == columns or not alive:
                break
            stop = min(stop + STEP, columns)
        if alive:
            count = _write(set_lanes16(u_a, v_a), 32 * (b - first), found[0], count)
            if b + 1 < last:
                count = _write(set_lanes16(u_b, v_b), 32 * (b - first) + 32, found[0], count)
    counts[0] = count
