"""Per-query tables: the exact costs of bits, and the 8-bit lower bounds that the SIMD filters add.

A distance is base + sum_s excess_s [bit s is not the preferred one]. ``base`` is the cost of the cheaper value of
every bit, ``excess`` the additional cost of the other value. The exact distance is this sum in float64, rounded
once to float32. For the filters, the bits of some byte columns form *fields* (see `vectors`), each with a table
floor(scale * excess of the value of the field). The sum of floors is at most scale times the excess of the code. So
a code whose sum reaches a limit cannot be nearer than the threshold.

The scale, and so the sharpness of the bound, depends on how sums are formed: see `bounds`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.compile import helper, lean
from cbid.search.kernels.vectors import (
    AT_ONCE,
    COLUMNS,
    ENTRIES,
    FIELDS,
    GROUP,
    SIX_BIT,
    add_costs,
    no_costs,
    total_cost,
)

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bytes = NDArray[np.uint8]
Columns = NDArray[np.int64]

HALF_ENTRIES = 8 if SIX_BIT else 4  # values of half a field
HALF_BITS = 3 if SIX_BIT else 2
LEVELS = 5  # a code is cut into up to 2**LEVELS parts


class Tables(NamedTuple):
    """Tables of q queries. A step reads COLUMNS byte columns, in the order of `columns`, as FIELDS fields."""

    base: Floats  # (q,)
    costs: Floats  # (q, 8 bytes) excess, with the lowest bit of each byte first
    nearest_code: Bytes  # (q, bytes) the preferred bits, packed
    excess: Floats  # (q, 8 bytes), zero for padding bits
    preferred: Bytes  # (q, 8 bytes)
    unit: Floats  # (q,) the value of every excess if they are equal, else 0: whole multiples of it lose nothing
    columns: Columns  # (COLUMNS steps,) byte columns in scan order, padded with `bytes`
    offsets: Columns  # (COLUMNS steps,) their offsets in a block; padding has the offset of column 0
    mean: Floats  # (q,) of the excess of random codes
    deviation: Floats  # (q,) standard deviation of it
    typical: Floats  # (q, steps) nearly every random code costs more than this in the steps so far
    quantised: Bytes  # (q + GROUP - 1, steps, FIELDS, ENTRIES), rebuilt as the threshold falls
    scale: Floats  # (q,) of the quantised costs
    ends: Columns  # (2**LEVELS,) steps at which parts of about equal cost end
    costliest: Floats  # (LEVELS + 1,) the share of the cost in the costliest of 2**level parts


@helper
def make_tables(if_zero: Floats, if_one: Floats) -> Tables:
    """Make tables from the costs (q, t) of a stored 0 and a stored 1; the quantised ones are still empty."""
    n_queries, n_bits = if_zero.shape
    width = (n_bits + 7) // 8
    base = np.zeros(n_queries)
    costs = np.zeros((n_queries, 8 * width))
    nearest_code = np.zeros((n_queries, width), np.uint8)
    excess = np.zeros((n_queries, 8 * width))
    preferred = np.zeros((n_queries, 8 * width), np.uint8)
    unit = np.zeros(n_queries)
    for q in range(n_queries):
        flat = True
        for s in range(n_bits):
            zero, one = if_zero[q, s], if_one[q, s]
            base[q] += min(zero, one)
            excess[q, s] = abs(one - zero)
            preferred[q, s] = one < zero
            if zero != one:
                if unit[q] == 0.0:
                    unit[q] = excess[q, s]
                flat = flat and excess[q, s] == unit[q]
            costs[q, s // 8 * 8 + 7 - s % 8] = excess[q, s]
            nearest_code[q, s // 8] |= (one < zero) << (7 - s % 8)
        if not flat:
            unit[q] = 0.0

    cost = _column_costs(excess)
    columns = _column_order(cost)
    steps = len(columns) // COLUMNS
    offsets = np.zeros(len(columns), np.int64)
    for c in range(len(columns)):
        if columns[c] < width:
            offsets[c] = 32 * columns[c]
    expected, deviation = np.zeros(n_queries), np.zeros(n_queries)
    typical = np.zeros((n_queries, steps))
    for q in range(n_queries):
        mean, variance = base[q], 0.0
        for c in range(len(columns)):
            if columns[c] < width:
                for s in range(8 * columns[c], 8 * columns[c] + 8):
                    mean += excess[q, s] / 2
                    variance += excess[q, s] ** 2 / 4
            typical[q, c // COLUMNS] = mean - 3.0 * np.sqrt(variance)
        expected[q], deviation[q] = mean - base[q], np.sqrt(variance)
    ends, costliest = _part_ends(columns, cost)
    quantised = np.zeros((n_queries + GROUP - 1, steps, FIELDS, ENTRIES), np.uint8)
    return Tables(
        base, costs, nearest_code, excess, preferred, unit, columns, offsets, expected, deviation,
        typical, quantised, np.zeros(n_queries), ends, costliest,
    )  # fmt: skip


@helper
def _column_costs(excess: Floats) -> Floats:
    """The cost of all bits of each byte column, over all queries."""
    # Plain loops: numba takes seconds to compile sorting, broadcasting and sums of numpy.
    cost = np.zeros(excess.shape[1] // 8)
    for q in range(len(excess)):
        for s in range(excess.shape[1]):
            cost[s // 8] += excess[q, s]
    return cost


@helper
def _column_order(cost: Floats) -> Columns:
    """The order of the byte columns, padded to whole steps.

    The costliest come first if a quarter of them has at least half of the cost. Otherwise it is the stored order,
    which the processor fetches faster.
    """
    width = len(cost)
    columns = np.zeros(-(-width // COLUMNS) * COLUMNS, np.int64)
    for c in range(len(columns)):
        columns[c] = min(c, width)
        place = c if c < width else 0
        while place > 0 and cost[columns[place - 1]] < cost[c]:
            columns[place], columns[place - 1] = columns[place - 1], c
            place -= 1
    total = carried = 0.0
    for c in range(width):
        total += cost[c]
        if c < (width + 3) // 4:
            carried += cost[columns[c]]
    if 2.0 * carried < total:
        for c in range(width):
            columns[c] = c
    return columns


@helper
def _part_ends(columns: Columns, cost: Floats) -> tuple[Columns, Floats]:
    """The ends of 2**LEVELS parts of about equal cost, at multiples of AT_ONCE steps, and the share of the
    costliest of 2**level parts."""
    steps = len(columns) // COLUMNS
    carried = np.zeros(steps + 1)  # by the steps before
    for c in range(len(columns)):
        if c % COLUMNS == 0:
            carried[c // COLUMNS + 1] = carried[c // COLUMNS]
        if columns[c] < len(cost):
            carried[c // COLUMNS + 1] += cost[columns[c]]
    total = max(carried[steps], 1e-300)
    ends = np.full(2**LEVELS, steps)
    step = 0
    for part in range(len(ends) - 1):
        while step < steps and carried[step] + carried[step + 1] < 2.0 * (part + 1) / len(ends) * total:
            step += 1
        ends[part] = min((step + AT_ONCE // 2) // AT_ONCE * AT_ONCE, steps)
    costliest = np.zeros(LEVELS + 1)
    for level in range(LEVELS + 1):
        size, begin = len(ends) >> level, 0
        for part in range(size - 1, len(ends), size):
            costliest[level] = max(costliest[level], (carried[ends[part]] - carried[begin]) / total)
            begin = ends[part]
    return ends, costliest


@lean
def budget_below(threshold: np.float32, base: float) -> float:
    """The largest excess of a code that is nearer than ``threshold``; not positive if there is none."""
    # A float64 sum that rounds to a float32 below the threshold is at most threshold (1 - 2**-25); the 1e-10 covers
    # the rounding of the sums themselves.
    return float(threshold) * (1.0 - 2.0**-25 + 1e-10) - base


@lean
def steps_until(typical: Floats, threshold: np.float32) -> int:
    """The number of steps after which nearly every random code costs more than ``threshold``."""
    steps = 0
    while steps < len(typical) and typical[steps] < threshold:
        steps += 1
    return steps


@lean
def _field_bit(columns: Columns, step: int, field: int, i: int, width: int) -> int:
    """The bit of the code that is bit i (lowest first) of a field, or -1 for padding."""
    if SIX_BIT:  # the low six bits of each of three bytes; then their high bits, two of each
        column = columns[3 * step + (i // 2 if field == 3 else field)]
        bit = 8 * column + (1 - i % 2 if field == 3 else 7 - i)
    else:  # the high and the low nibble of a byte
        column = columns[step]
        bit = 8 * column + (7 - i if field else 3 - i)
    return bit if column < width else -1


@lean
def _half_field(
    columns: Columns, step: int, field: int, first: int, excess: Floats, preferred: Bytes, scale: float,
    out: Singles,
) -> float:  # fmt: skip
    """Write scale * excess of each value of bits first, first + 1... of a field; return the largest."""
    most = 0.0
    out[0] = 0
    for i in range(HALF_BITS):
        s = _field_bit(columns, step, field, first + i, len(excess) // 8)
        cost = scale * excess[s] if s >= 0 else 0.0
        most += cost
        one_preferred = s >= 0 and preferred[s] == 1
        if_one, if_zero = (
            np.float32(0.0 if one_preferred else cost),
            np.float32(cost if one_preferred else 0.0),
        )
        for value in range(1 << i):
            out[(1 << i) + value] = out[value] + if_one
            out[value] += if_zero
    return most


@helper
def quantise(columns: Columns, excess: Floats, preferred: Bytes, whole: bool, scale: float, out: Bytes) -> None:
    """Write entries floor(scale * excess), capped so that fields 0 and 1, and 2 and 3, together fit in 8 bits."""
    # float32 is fast, with a smaller error than this; entries that are whole numbers must stay whole.
    scale *= 1.0 + 1e-6 if whole else 1.0 - 1e-6
    low, high = np.empty((2, HALF_ENTRIES), np.float32), np.empty((2, HALF_ENTRIES), np.float32)
    entries = np.empty(ENTRIES, np.int32)
    most, caps = np.empty(2), np.empty(2, np.float32)
    for step in range(len(out)):
        for pair in range(0, FIELDS, 2):
            for i in range(2):
                most[i] = 0.0
                for half in range(2):
                    values = high[i] if half else low[i]
                    first = HALF_BITS * half
                    most[i] += _half_field(columns, step, pair + i, first, excess, preferred, scale, values)
            caps[0] = np.floor(min(most[0], max(127.0, 255.0 - np.floor(most[1]))))
            caps[1] = np.floor(min(most[1], 255.0 - caps[0]))
            for i in range(2):
                cap = caps[i]
                # Two simple loops, which LLVM vectorises.
                for value in range(ENTRIES):
                    entry = high[i, value // HALF_ENTRIES] + low[i, value % HALF_ENTRIES]
                    entries[value] = np.int32(entry if entry < cap else cap)
                row = out[step, pair + i]
                for value in range(ENTRIES):
                    row[value] = entries[value]


@lean
def exact_distance(
    base: float, costs: Floats, nearest_code: Bytes, blocks: NDArray[np.uint8], position: int
) -> np.float32:
    """The distance of the code at ``position``: float64 sums in the order of the bytes, rounded once.

    There are eight sums, in vector registers, because the costs of the bits of a byte are contiguous.
    """
    block, lane = position // 32, position % 32
    costs_at = np.int64(costs.ctypes.data)
    sums = no_costs(base)
    for j in range(len(nearest_code)):
        sums = add_costs(sums, np.int64(blocks[block, j, lane] ^ nearest_code[j]), costs_at + 64 * j)
    return np.float32(total_cost(sums))
