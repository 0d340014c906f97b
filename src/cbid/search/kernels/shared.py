"""Shared lookups: for many queries under one weight vector, half of the lookups are made once for all queries.

The cost of a stored nibble only depends on its XOR with the nibble of the query, which has sixteen values. For the
high nibbles of a pair of blocks, all sixteen results are written to the first-level cache, and a query adds the
results of its own nibbles: a load where `filters` has a shuffle. Low nibbles are looked up as in `filters`. Loads and
shuffles use different ports of a core, so half of each takes less time than all of one kind.

All queries have one scale, set by the largest budget among them. It is used with AVX2 only: six-bit lookups are
faster without it.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from cbid.search.kernels.bounds import limit_within, passing_share, sum_limit
from cbid.search.kernels.compile import HAS_AVX2, helper, lean
from cbid.search.kernels.tables import Tables, budget_below, make_tables, steps_until
from cbid.search.kernels.vectors import (
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
    any_set,
    array_of,
    average,
    constant,
    halves_of,
    items,
    limits_all,
    load,
    load_group,
    load_table,
    lookup,
    lowest_lane,
    operation,
    pair,
    prefetch_step,
    shift_down,
    store_group,
    store_lanes,
    under,
    zeros,
)

SHARED_LOOKUPS = HAS_AVX2 and not SIX_BIT
MOST_COLUMNS = 32  # their results, 32 KiB, fill a first-level cache; a pass uses about half of it
MANY_SHARING = 64  # from this many queries on, shared lookups are faster
AT_A_TIME = 8  # pairs of blocks: enough to hide the cost of a call
VALUES = 16  # of a nibble
PAIR_BYTES = 2 * LANES  # of a result: a register for each half of the pair
# The share of codes, per byte column, that may pass a shared limit: sharing saves time in proportion to the columns,
# while the cost of a candidate hardly depends on them.
PASSING_MOST = 1 / 40_000

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


# ---- operations ----


def _place(builder: ir.IRBuilder, address: ir.Value, offset: int) -> ir.Value:
    return builder.add(address, ir.Constant(LONG, offset))


def _look_up_column(
    builder: ir.IRBuilder,
    column: ir.Value,
    per_block: ir.Value,
    table: ir.Value,
    results: ir.Value,
    nibbles: ir.Value,
) -> ir.Value:
    """Store the sixteen results of the high nibbles of a byte column at ``results``, by the ``table`` of a query of
    zeros, and the low nibbles at ``nibbles``. ``column`` is its address in the first block of the pair."""
    costs = load_table(builder, table)
    mask = constant(BYTES, VALUES - 1)
    for half in range(2):
        stored = load(builder, column, COLUMN)
        high = builder.and_(shift_down(builder, stored, 4), mask)
        _store(builder, builder.and_(stored, mask), _place(builder, nibbles, LANES * half))
        for own in range(VALUES):
            result = lookup(builder, costs, builder.xor(high, constant(BYTES, own)))
            _store(builder, result, _place(builder, results, PAIR_BYTES * own + LANES * half))
        column = builder.add(column, per_block)
    return ir.Constant(BIT, 0)


def _store(builder: ir.IRBuilder, register: ir.Value, address: ir.Value) -> None:
    builder.store(register, builder.inttoptr(address, BYTES.as_pointer()), align=LANES)


def _add_shared(
    builder: ir.IRBuilder, sums: ir.Value, tables: ir.Value, per_table: ir.Value, words: ir.Value,
    per_word: ir.Value, results: ir.Value, nibbles: ir.Value,
) -> ir.Value:  # fmt: skip
    """Add the costs of AT_ONCE columns to the sums of a group.

    ``tables`` is the address of the tables of low nibbles of the first query, ``words`` the address of the offsets
    (uint16), from ``results`` on, of the results of its high nibbles. Those of the next query are ``per_table`` and
    ``per_word`` bytes further.
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
            place = builder.add(results, builder.and_(place, ir.Constant(LONG, 0xFFFF)))
            for half in range(2):
                result = load(builder, _place(builder, place, LANES * half), BYTES)
                cost = builder.add(lookup(builder, table, fields[half]), result)  # fits in a byte
                total[half] = add_saturating(builder, total[half], cost)
    return array_of(builder, [pair(builder, total) for total in totals])


def _nothing(builder: ir.IRBuilder, first: ir.Value, *others: ir.Value) -> ir.Value:
    # Never executed (see SHARED_LOOKUPS), but the scans must compile on every processor.
    return first if isinstance(first.type, ir.ArrayType) else ir.Constant(BIT, 0)


# column, bytes per block, table, results, nibbles
_look_up = operation(_look_up_column if SHARED_LOOKUPS else _nothing, 5, types.boolean)
# sums, tables, bytes per query, words, bytes per query, results, nibbles
_add = operation(_add_shared if SHARED_LOOKUPS else _nothing, 7)


# ---- the filter ----


class Shared(NamedTuple):
    """Queries under one weight vector. Columns are in the order of ``tables``, padded to steps of AT_ONCE.

    Up to 16 columns are looked up in one *pass*: a code has one sum (level 0 of `bounds`), and from the middle of the
    columns on, blocks are skipped when no code in them can pass. More columns need two passes, of about equal cost,
    with two sums each (level 2).
    """

    tables: Tables  # of a query of zeros: its stored bits are the differences of other queries
    level: int
    passes: Numbers  # (passes, 3) begin, middle and end of its columns
    codes: Bytes  # (q, bytes)
    words: NDArray[np.uint16]  # (q + GROUP, columns) offsets of the results of the high nibbles
    lows: Bytes  # (q + GROUP, columns, VALUES) tables of the low nibbles
    highs: Bytes  # (columns, VALUES) tables of the high nibbles, of the query of zeros
    limits: Numbers  # (q + GROUP,) zero if no code is wanted
    results: Bytes  # of the columns of one pass, with space for alignment to a cache line
    nibbles: Bytes  # the low ones, likewise
    sums: Bytes  # a pair for each query, and for a group, likewise
    lanes: NDArray[np.uint64]  # (2 GROUP,) which codes pass


@helper
def make_shared(weights: Floats, codes: Bytes) -> Shared:
    """Make shared tables for packed ``codes`` (q, bytes) under ``weights`` (1, t), without scale and limits."""
    n_queries = len(codes)
    tables = make_tables(np.zeros(weights.shape), weights)
    used = min(len(tables.columns), codes.shape[1])  # the rest is padding
    columns = -(-used // AT_ONCE) * AT_ONCE
    level = 0 if 2 * columns <= MOST_COLUMNS else 2
    passes = np.full((1 if level == 0 else 2, 3), columns)
    passes[0, 0] = 0
    if level > 0:
        quarter = len(tables.ends) // 4
        for part in range(3):  # parts end at whole steps of AT_ONCE, or at the last column
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


@lean
def share_weights(tables: Tables) -> bool:
    """Whether all queries are codes under one weight vector."""
    for q in range(len(tables.base)):
        if tables.base[q] != 0.0:
            return False
        for s in range(tables.excess.shape[1]):
            if tables.excess[q, s] != tables.excess[0, s]:
                return False
    return True


@lean
def most_passing(shared: Shared) -> float:
    """The share of codes that may pass; with more, separate limits for each query are faster."""
    return PASSING_MOST * len(shared.tables.columns)


@lean
def ready_to_share(shared: Shared, thresholds: NDArray[np.float32], n_blocks: int) -> bool:
    """Set the limits of all queries for the next blocks; False if too many codes would pass."""
    budget = 0.0
    for i in range(len(thresholds)):
        budget = max(budget, budget_below(thresholds[i], 0.0))
    if not 0.0 < budget < np.inf or passing_share(shared.tables, 0, budget, shared.level) > most_passing(shared):
        return False
    fit_scale(shared, budget, n_blocks)
    for i in range(len(thresholds)):
        set_limit(shared, i, budget_below(thresholds[i], 0.0))
    return True


@lean
def fit_scale(shared: Shared, budget: float, n_blocks: int) -> None:
    """Rebuild the tables if their scale wastes too much of the range of the sums for the largest ``budget``."""
    if shared.level == 0:
        columns = shared.words.shape[1]
        steps = 1 + steps_until(shared.tables.typical[0], np.float32(budget))  # before, few blocks can be skipped
        shared.passes[0, 1] = min(-(-steps // AT_ONCE) * AT_ONCE, columns)
    before = shared.tables.scale[0]
    sum_limit(shared.tables, 0, budget, shared.level, n_blocks)
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


@lean
def set_limit(shared: Shared, q: int, budget: float) -> None:
    """Set the limit of query q, whose budget is finite and at most the one of `fit_scale`."""
    shared.limits[q] = limit_within(shared.tables.scale[0], budget, shared.level) if budget > 0.0 else 0


@lean
def _aligned(memory: Bytes) -> int:
    return int(np.int64(memory.ctypes.data) + PAIR_BYTES - 1) // PAIR_BYTES * PAIR_BYTES


@lean
def _look_up_pass(
    begin: int, end: int, source: int, per_block: int, offsets: Numbers, tables_at: int, results: int, nibbles: int
) -> None:
    """Store the results of columns begin <= c < end of the pair of blocks at ``source``; padding columns have tables
    of zeros."""
    for column in range(begin, end):
        prefetch_step(source + BLOCKS * (per_block + 32 * column))  # of the next pair
        offset = offsets[column] if column < len(offsets) else 0
        _look_up(source + offset, per_block, tables_at + VALUES * column, results, nibbles)
        results, nibbles = results + VALUES * PAIR_BYTES, nibbles + PAIR_BYTES


@lean
def shared_candidates(
    shared: Shared, source: int, n_blocks: int, per_block: int, queries: NDArray[np.int32], codes: NDArray[np.int32]
) -> int:
    """Find the codes below the limit of each query in ``n_blocks``, up to AT_A_TIME pairs, at the address ``source``.

    Write the query and the code of each, by pair of blocks, query and code; return how many.
    """
    # The loops read arrays by address: otherwise numba counts references each time.
    columns, n_queries, level, passes = shared.words.shape[1], len(shared.codes), shared.level, shared.passes
    results, nibbles, sums_at = _aligned(shared.results), _aligned(shared.nibbles), _aligned(shared.sums)
    held = sums_at + PAIR_BYTES * (n_queries + GROUP)
    words_at, lows_at = np.int64(shared.words.ctypes.data), np.int64(shared.lows.ctypes.data)
    limits_at, highs_at = np.int64(shared.limits.ctypes.data), np.int64(shared.highs.ctypes.data)
    offsets, lanes = shared.tables.offsets, shared.lanes
    lanes_at = np.int64(lanes.ctypes.data)
    per_word, per_table = 2 * columns, VALUES * columns
    count = 0
    for b in range(0, n_blocks, BLOCKS):
        for turn in range(len(passes)):
            begin, middle, end = passes[turn, 0], passes[turn, 1], passes[turn, 2]
            _look_up_pass(begin, end, source + per_block * b, per_block, offsets, highs_at, results, nibbles)
            for q in range(0, n_queries, GROUP):
                limits = limits_all(limits_at + 8 * q)
                low, word = lows_at + per_table * q, words_at + per_word * q
                sums = zeros(limits)
                for c in range(begin, middle, AT_ONCE):
                    low_of, word_of, nibble = low + VALUES * c, word + 2 * c, nibbles + PAIR_BYTES * (c - begin)
                    sums = _add(sums, low_of, per_table, word_of, per_word, results, nibble)
                if middle < end or level > 0:  # a part without columns has a sum of zero
                    if level == 0:
                        if not any_set(under(limits, sums)):
                            continue
                    else:
                        store_group(sums, held)
                        sums = zeros(limits)
                    for c in range(middle, end, AT_ONCE):
                        low_of, word_of, nibble = low + VALUES * c, word + 2 * c, nibbles + PAIR_BYTES * (c - begin)
                        sums = _add(sums, low_of, per_table, word_of, per_word, results, nibble)
                    if level > 0:
                        sums = average(load_group(sums, held), sums)
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
