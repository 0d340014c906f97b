"""Many queries under one weight vector: half of the lookups are made once for all of them.

Such queries read a stored nibble alike, but for the XOR with their own: there are only sixteen readings of it. For
the high nibbles of a pair of blocks all sixteen are *spread* out in the first-level cache, and a query adds those of
its own nibbles: a load where `_filters` shuffles. Low nibbles are looked up as there. Loads and shuffles go through
different ports of a core, so half of each takes less time than all of one kind.

One scale serves all queries: the largest room that one of them has sets it. For AVX2; six-bit lookups need no help.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from cbid.search.kernels.compile import HAS_AVX2, helper
from cbid.search.kernels.registers import (
    AT_ONCE,
    BIT,
    BLOCKS,
    BYTES,
    COLUMN,
    GROUP,
    LANES,
    LONG,
    SIX_BIT,
    add_saturating,
    array_of,
    constant,
    halves_of,
    items,
    load,
    load_table,
    lookup,
    operation,
    pair,
    shift_down,
)
from cbid.search.kernels.sums import limit_within, sum_limit
from cbid.search.kernels.tables import Tables, make_tables, steps_until
from cbid.search.kernels.vectors import (
    any_set,
    average,
    limits_all,
    load_group,
    lowest_lane,
    prefetch_step,
    store_group,
    store_lanes,
    under,
    zeros,
)

__all__ = [
    "AT_A_TIME",
    "MANY_SHARING",
    "MOST_COLUMNS",
    "SPREAD",
    "Shared",
    "fit_scale",
    "make_shared",
    "set_limit",
    "shared_candidates",
]

SPREAD = HAS_AVX2 and not SIX_BIT
MOST_COLUMNS = 32  # what is spread of them, 32 KiB, is what a first-level cache holds; a pass takes about half of it
MANY_SHARING = 64  # from so many queries on it pays to spread readings for all of them
AT_A_TIME = 8  # pairs of blocks: as many as what they cost hides a call
VALUES = 16  # of a nibble
PAIR_BYTES = 2 * LANES  # of a reading: a register for each half of the pair

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


# ---- operations ----


def _place(builder: ir.IRBuilder, address: ir.Value, offset: int) -> ir.Value:
    return builder.add(address, ir.Constant(LONG, offset))


def _spread_column(
    builder: ir.IRBuilder,
    column: ir.Value,
    per_block: ir.Value,
    table: ir.Value,
    readings: ir.Value,
    nibbles: ir.Value,
) -> ir.Value:
    """The sixteen readings of the high nibbles of a byte column, by the ``table`` of a query of zeros, to
    ``readings``; the low nibbles to ``nibbles``. ``column`` is its address in the first block of the pair."""
    costs = load_table(builder, table)
    mask = constant(BYTES, VALUES - 1)
    for half in range(2):
        stored = load(builder, column, COLUMN)
        high = builder.and_(shift_down(builder, stored, 4), mask)
        _store(builder, builder.and_(stored, mask), _place(builder, nibbles, LANES * half))
        for own in range(VALUES):
            reading = lookup(builder, costs, builder.xor(high, constant(BYTES, own)))
            _store(builder, reading, _place(builder, readings, PAIR_BYTES * own + LANES * half))
        column = builder.add(column, per_block)
    return ir.Constant(BIT, 0)


def _store(builder: ir.IRBuilder, register: ir.Value, address: ir.Value) -> None:
    builder.store(register, builder.inttoptr(address, BYTES.as_pointer()), align=LANES)


def _add_spread(
    builder: ir.IRBuilder, sums: ir.Value, tables: ir.Value, per_table: ir.Value, words: ir.Value,
    per_word: ir.Value, readings: ir.Value, nibbles: ir.Value,
) -> ir.Value:  # fmt: skip
    """Sums of a group and what AT_ONCE columns cost it.

    ``tables`` is the address of the first query's tables of low nibbles, ``words`` that of where, from ``readings``
    on, those of its high nibbles lie (uint16); the next query's are ``per_table`` and ``per_word`` bytes on.
    """
    totals = [halves_of(builder, query) for query in items(builder, sums)]
    places, own_tables = [], []
    for _ in totals:
        places.append(load(builder, words, LONG))  # four at a time
        own_tables.append(tables)
        words, tables = builder.add(words, per_word), builder.add(tables, per_table)
    for i in range(AT_ONCE):
        fields = [load(builder, _place(builder, nibbles, PAIR_BYTES * i + LANES * half), BYTES) for half in range(2)]
        for query, total in enumerate(totals):
            table = load_table(builder, _place(builder, own_tables[query], VALUES * i))
            place = builder.lshr(places[query], ir.Constant(LONG, 16 * i))
            place = builder.add(readings, builder.and_(place, ir.Constant(LONG, 0xFFFF)))
            for half in range(2):
                reading = load(builder, _place(builder, place, LANES * half), BYTES)
                cost = builder.add(lookup(builder, table, fields[half]), reading)  # known to fit a byte
                total[half] = add_saturating(builder, total[half], cost)
    return array_of(builder, [pair(builder, total) for total in totals])


def _nothing(builder: ir.IRBuilder, first: ir.Value, *others: ir.Value) -> ir.Value:
    # Never run (see SPREAD), but the scans that name these must compile everywhere.
    return first if isinstance(first.type, ir.ArrayType) else ir.Constant(BIT, 0)


# column, bytes per block, table, readings, nibbles
_spread = operation(_spread_column if SPREAD else _nothing, 5, types.boolean)
# sums, tables, bytes per query, words, bytes per query, readings, nibbles
_add = operation(_add_spread if SPREAD else _nothing, 7)


# ---- the filter ----


class Shared(NamedTuple):
    """Queries under one weight vector. Columns stand in the order of ``tables``, filled up to steps of AT_ONCE.

    Up to 16 columns are spread in one *pass*: a code has one sum (level 0 of `_sums`), and from the middle of the
    columns on blocks are left when no code in them can pass. More take two passes, of about the same cost, with two
    sums each (level 2).
    """

    tables: Tables  # of a query whose bits are all zero: what it reads as a stored bit, others read as a difference
    level: int
    passes: Numbers  # (passes, 3) where its columns begin, have their middle, and end
    codes: Bytes  # (q, bytes)
    words: NDArray[np.uint16]  # (q + GROUP, columns) where the readings of the high nibbles lie
    lows: Bytes  # (q + GROUP, columns, VALUES) tables of the low nibbles
    highs: Bytes  # (columns, VALUES) tables of the high nibbles, of the query of zeros
    limits: Numbers  # (q + GROUP,) zero where nothing is wanted
    readings: Bytes  # of the columns of one pass, with room to begin at a line of the cache
    nibbles: Bytes  # the low ones, likewise
    sums: Bytes  # a pair for each query, and for a group, likewise
    lanes: NDArray[np.uint64]  # (2 GROUP,) which codes pass


@helper
def make_shared(weights: Floats, codes: Bytes) -> Shared:
    """For packed ``codes`` (q, bytes) of queries under ``weights`` (1, t); scale and limits are still to be set."""
    n_queries = len(codes)
    tables = make_tables(np.zeros(weights.shape), weights)
    used = min(len(tables.columns), codes.shape[1])  # what comes after are columns that fill up a step
    columns = -(-used // AT_ONCE) * AT_ONCE
    level = 0 if 2 * columns <= MOST_COLUMNS else 2
    passes = np.full((1 if level == 0 else 2, 3), columns)
    passes[0, 0] = 0
    if level > 0:
        quarter = len(tables.ends) // 4
        for part in range(3):  # parts end after whole steps of AT_ONCE, or with the last column
            end = min(-(-tables.ends[quarter * (part + 1) - 1] // AT_ONCE) * AT_ONCE, columns)
            passes[part // 2, 1 + part % 2] = end
        passes[1, 0] = passes[0, 2]
    words = np.zeros((n_queries + GROUP, columns), np.uint16)
    for begin, _, end in passes:
        for q in range(n_queries):
            for column in range(begin, end):
                own = codes[q, tables.columns[column]] >> 4 if column < used else 0
                words[q, column] = ((column - begin) * VALUES + own) * PAIR_BYTES
    return Shared(
        tables, level, passes, codes, words, np.zeros((n_queries + GROUP, columns, VALUES), np.uint8),
        np.zeros((columns, VALUES), np.uint8), np.zeros(n_queries + GROUP, np.int64),
        np.zeros((columns * VALUES + 1) * PAIR_BYTES, np.uint8), np.zeros((columns + 1) * PAIR_BYTES, np.uint8),
        np.zeros((n_queries + 2 * GROUP + 1) * PAIR_BYTES, np.uint8), np.zeros(2 * GROUP, np.uint64),
    )  # fmt: skip


@helper
def fit_scale(shared: Shared, room: float, n_blocks: int) -> None:
    """Make the tables anew where their scale wastes too much of the range of the sums, ``room`` being the largest."""
    if shared.level == 0:
        columns = shared.words.shape[1]
        steps = 1 + steps_until(shared.tables.typical[0], np.float32(room))  # until there few blocks can be left
        shared.passes[0, 1] = min(-(-steps // AT_ONCE) * AT_ONCE, columns)
    before = shared.tables.scale[0]
    sum_limit(shared.tables, 0, room, shared.level, n_blocks)
    if shared.tables.scale[0] == before:
        return
    quantised, order, codes, lows = shared.tables.quantised[0], shared.tables.columns, shared.codes, shared.lows
    for column in range(len(order)):
        for value in range(VALUES):
            shared.highs[column, value] = quantised[column, 0, value]
    for q in range(len(codes)):
        for column in range(len(order)):
            own = codes[q, order[column]] & 15
            for value in range(VALUES):
                lows[q, column, value] = quantised[column, 1, value ^ own]


@helper
def set_limit(shared: Shared, q: int, room: float) -> None:
    """The limit of query q, whose room is finite and not above that of `fit_scale`."""
    shared.limits[q] = limit_within(shared.tables.scale[0], room, shared.level) if room > 0.0 else 0


@helper
def _aligned(memory: Bytes) -> int:
    return int(np.int64(memory.ctypes.data) + PAIR_BYTES - 1) // PAIR_BYTES * PAIR_BYTES


@helper
def _spread_pass(
    begin: int, end: int, source: int, per_block: int, offsets: Numbers, tables_at: int, readings: int, nibbles: int
) -> None:
    """What columns begin <= c < end of the pair of blocks at ``source`` read as, by their tables; where there are no
    more columns, nothing: tables are zero there."""
    for column in range(begin, end):
        prefetch_step(source + BLOCKS * (per_block + 32 * column))  # of the next pair, which memory sends late
        offset = offsets[column] if column < len(offsets) else 0
        _spread(source + offset, per_block, tables_at + VALUES * column, readings, nibbles)
        readings, nibbles = readings + VALUES * PAIR_BYTES, nibbles + PAIR_BYTES


@helper
def shared_candidates(
    shared: Shared, source: int, n_blocks: int, per_block: int, queries: NDArray[np.int32], codes: NDArray[np.int32]
) -> int:
    """Which of ``n_blocks``, up to AT_A_TIME pairs, at the address ``source`` hold codes below the limit of which
    query: query and code, counted from the first, of each, in order of the pairs, of the queries, and of the codes;
    returns how many."""
    # Arrays that are read inside of the loops by address: numba would count references to them each time.
    columns, n_queries, level, passes = shared.words.shape[1], len(shared.codes), shared.level, shared.passes
    readings, nibbles, sums_at = _aligned(shared.readings), _aligned(shared.nibbles), _aligned(shared.sums)
    shelf = sums_at + PAIR_BYTES * (n_queries + GROUP)
    words_at, lows_at = np.int64(shared.words.ctypes.data), np.int64(shared.lows.ctypes.data)
    limits_at, highs_at = np.int64(shared.limits.ctypes.data), np.int64(shared.highs.ctypes.data)
    offsets, lanes = shared.tables.offsets, shared.lanes
    lanes_at = np.int64(lanes.ctypes.data)
    per_word, per_table = 2 * columns, VALUES * columns
    count = 0
    for b in range(0, n_blocks, BLOCKS):
        for turn in range(len(passes)):
            begin, middle, end = passes[turn, 0], passes[turn, 1], passes[turn, 2]
            _spread_pass(begin, end, source + per_block * b, per_block, offsets, highs_at, readings, nibbles)
            for q in range(0, n_queries, GROUP):
                limits = limits_all(limits_at + 8 * q)
                low, word = lows_at + per_table * q, words_at + per_word * q
                sums = zeros(limits)
                for c in range(begin, middle, AT_ONCE):
                    low_of, word_of, nibble = low + VALUES * c, word + 2 * c, nibbles + PAIR_BYTES * (c - begin)
                    sums = _add(sums, low_of, per_table, word_of, per_word, readings, nibble)
                if middle < end or level > 0:  # a part of no columns has a sum of zero
                    if level == 0:
                        if not any_set(under(limits, sums)):
                            continue
                    else:
                        store_group(sums, shelf)
                        sums = zeros(limits)
                    for c in range(middle, end, AT_ONCE):
                        low_of, word_of, nibble = low + VALUES * c, word + 2 * c, nibbles + PAIR_BYTES * (c - begin)
                        sums = _add(sums, low_of, per_table, word_of, per_word, readings, nibble)
                    if level > 0:
                        sums = average(load_group(sums, shelf), sums)
                place = sums_at + PAIR_BYTES * q
                if turn + 1 < len(passes):
                    store_group(sums, place)
                    continue
                if turn > 0:
                    sums = average(load_group(sums, place), sums)
                passing = under(limits, sums)
                if any_set(passing):
                    store_lanes(passing, lanes_at)
                    for i in range(2 * GROUP):
                        left = lanes[i]
                        while left != 0:
                            queries[count] = q + i // 2
                            codes[count] = 32 * b + LANES * (i % 2) + lowest_lane(left)
                            count += 1
                            left &= left - np.uint64(1)
    return count
