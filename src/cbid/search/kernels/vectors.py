"""The SIMD operations of the filters, for AVX2 and for AVX-512 with VBMI.

A *step* reads a few byte columns and divides their bits into *fields*, each an index into a table:
- AVX2 looks up four bits (``vpshufb``): two fields, the nibbles of one column;
- VBMI looks up six bits (``vpermb``): four fields, the low six bits of three columns, and two high bits of each.
"""

from llvmlite import ir
from numba import types

from cbid.search.kernels.compile import HAS_AVX2
from cbid.search.kernels.registers import (
    AT_ONCE,
    BIT,
    BLOCKS,
    BYTE,
    BYTES,
    COLUMN,
    COLUMNS,
    COSTS,
    ENTRIES,
    FIELDS,
    GROUP,
    INDEX,
    LANES,
    LONG,
    PAIR,
    SIX_BIT,
    CostsType,
    Emit,
    LimitsType,
    add_saturating,
    array_of,
    call,
    constant,
    each,
    halves,
    halves_of,
    items,
    keep_order,
    load,
    load_table,
    lookup,
    operation,
    pair,
    pick,
    shift_down,
)

__all__ = [
    "PIECE",
    "add_costs",
    "add_step",
    "add_steps",
    "any_set",
    "average",
    "limits_all",
    "limits_one",
    "load_group",
    "lowest_lane",
    "no_costs",
    "prefetch_piece",
    "prefetch_step",
    "store_group",
    "store_lanes",
    "total_cost",
    "under",
    "zeros",
]


def _load_fields(
    builder: ir.IRBuilder, block: ir.Value, per_block: ir.Value, offsets: ir.Value, low_bits: ir.Value | None
) -> list[ir.Value]:
    """Load the fields of a step, a pair of registers each, for the codes of BLOCKS blocks from ``block`` on.

    The blocks are ``per_block`` bytes apart. ``offsets`` is the address of the offsets of the columns in a block.
    ``low_bits`` is the address of a register of 15s, loaded in each step; None keeps the mask in a register.
    """
    columns = []
    for c in range(COLUMNS):
        offset = load(builder, builder.add(offsets, ir.Constant(LONG, 8 * c)), LONG)
        address = builder.add(block, offset)
        loaded = []
        for _ in range(BLOCKS):
            loaded.append(load(builder, address, COLUMN))
            address = builder.add(address, per_block)
        if SIX_BIT:
            loaded = [pick(builder, a, b, list(range(64))) for a, b in (loaded[:2], loaded[2:])]
        columns.append(pair(builder, loaded))
    if SIX_BIT:
        return _six_bit_fields(builder, *columns)
    if low_bits is None:
        return _nibbles(builder, constant(BYTES, 15), *columns)
    keep_order(builder)  # the mask is loaded again, and its register is free in between
    return _nibbles(builder, load(builder, low_bits, BYTES), *columns)


def _nibbles(builder: ir.IRBuilder, mask: ir.Value, *columns: ir.Value) -> list[ir.Value]:
    low = halves(lambda b, x: b.and_(x, mask))
    high = halves(lambda b, x: b.and_(shift_down(b, x, 4), mask))
    return [emit(builder, column) for column in columns for emit in (high, low)]


def _six_bit_fields(builder: ir.IRBuilder, *columns: ir.Value) -> list[ir.Value]:
    def high_bits(b: ir.IRBuilder, *bytes_: ir.Value) -> ir.Value:
        parts = [shift_down(b, x, by) for x, by in zip(bytes_, (6, 4, 2))]
        masked = [b.and_(x, constant(BYTES, mask)) for x, mask in zip(parts, (3, 12, 0xF0))]
        return b.or_(b.or_(masked[0], masked[1]), masked[2])

    # vpermb only uses the low six bits of an index, so these need no mask.
    return [*columns, halves(high_bits)(builder, *columns)]


PIECE = 256  # bytes prefetched at a time


def _prefetch(n_bytes: int, locality: int) -> Emit:
    """Prefetch ``n_bytes`` from ``address``, into the first-level cache (``locality`` 3) or the second (2)."""

    def emit(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
        flags = [ir.Constant(INDEX, value) for value in (0, locality, 1)]  # to read, data
        for line in range(0, n_bytes, 64):
            pointer = builder.inttoptr(builder.add(address, ir.Constant(LONG, line)), BYTE.as_pointer())
            call(builder, "llvm.prefetch.p0", ir.VoidType(), pointer, *flags)
        return ir.Constant(BIT, 0)

    return emit


def _load_limits(size: int) -> Emit:
    """Load ``size`` int64 numbers from ``address``, each into all lanes of a register."""

    def emit(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
        blank, limits = ir.Constant(BYTES, ir.Undefined), []
        for i in range(size):
            number = load(builder, builder.add(address, ir.Constant(LONG, 8 * i)), LONG)
            first = builder.insert_element(blank, builder.trunc(number, BYTE), ir.Constant(INDEX, 0))
            limits.append(pick(builder, first, blank, [0] * LANES))
        return array_of(builder, limits)

    return emit


def _zeros(builder: ir.IRBuilder, like: ir.Value) -> ir.Value:
    nothing = ir.Constant(PAIR, [constant(BYTES, 0)] * 2)
    return ir.Constant(ir.ArrayType(PAIR, like.type.count), [nothing] * like.type.count)


def _store_group(builder: ir.IRBuilder, group: ir.Value, address: ir.Value) -> ir.Value:
    """Store a group until `load_group`; in between, all registers are free for other sums."""
    registers = [half for query in items(builder, group) for half in halves_of(builder, query)]
    for i, register in enumerate(registers):
        place = builder.add(address, ir.Constant(LONG, LANES * i))
        builder.store(register, builder.inttoptr(place, BYTES.as_pointer()), align=LANES)
    keep_order(builder)  # otherwise LLVM keeps the group and spills registers inside the loops
    return ir.Constant(BIT, 0)


def _load_group(builder: ir.IRBuilder, like: ir.Value, address: ir.Value) -> ir.Value:
    """Load a group of the size of ``like`` that `store_group` stored."""
    pairs = []
    for i in range(0, 2 * like.type.count, 2):
        places = [builder.add(address, ir.Constant(LONG, LANES * j)) for j in (i, i + 1)]
        pairs.append(pair(builder, [load(builder, place, BYTES) for place in places]))
    return array_of(builder, pairs)


prefetch_step = operation(_prefetch(32 * COLUMNS * BLOCKS, locality=2), 1, types.boolean)
prefetch_piece = operation(_prefetch(PIECE, locality=3), 1, types.boolean)  # locality 2 was slower by a tenth
limits_one = operation(_load_limits(1), 1, LimitsType(1))
limits_all = operation(_load_limits(GROUP), 1, LimitsType(GROUP))
zeros = operation(_zeros, 1)  # as many as limits
store_group = operation(_store_group, 2, types.boolean)
load_group = operation(_load_group, 2)  # like, address


# ---- lookups and sums of bytes ----


def _add_step(
    builder: ir.IRBuilder, sums: ir.Value, fields: list[ir.Value], tables: ir.Value, per_query: ir.Value
) -> ir.Value:
    """Add the costs of ``fields`` to sums, by the tables of a step at the address ``tables``, ``per_query`` bytes
    apart."""
    plus = halves(lambda b, x, y: b.add(x, y))  # fields 0 and 1, and 2 and 3, fit in a byte
    plus_saturating = halves(add_saturating)  # runs on half as many ports of the core
    out = []
    for total in items(builder, sums):
        if not SIX_BIT and sums.type.count > 1:
            keep_order(builder)  # tables of the next query, loaded early, would push sums out of the 16 registers
        costs = []
        for i, field in enumerate(fields):
            table = load_table(builder, builder.add(tables, ir.Constant(LONG, ENTRIES * i)))
            costs.append(halves(lookup)(builder, table, field))
        for i in range(0, FIELDS, 2):
            total = plus_saturating(builder, total, plus(builder, costs[i], costs[i + 1]))
        out.append(total)
        tables = builder.add(tables, per_query)
    return array_of(builder, out)


def _average(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """(a + b + 1) // 2."""
    if SIX_BIT:
        return call(builder, "llvm.x86.avx512.pavg.b.512", BYTES, a, b)
    # As in `lookup`: never executed without AVX2.
    return call(builder, "llvm.x86.avx2.pavg.b", BYTES, a, b) if HAS_AVX2 else a


def _add_steps(steps: int) -> Emit:
    """Add the costs of ``steps`` steps to sums; the offsets and tables of the first are at these addresses."""

    def emit(
        builder: ir.IRBuilder, sums: ir.Value, block: ir.Value, per_block: ir.Value, offsets: ir.Value,
        low_bits: ir.Value, tables: ir.Value, per_query: ir.Value,
    ) -> ir.Value:  # fmt: skip
        for _ in range(steps):
            fields = _load_fields(builder, block, per_block, offsets, low_bits if sums.type.count > 1 else None)
            sums = _add_step(builder, sums, fields, tables, per_query)
            offsets = builder.add(offsets, ir.Constant(LONG, 8 * COLUMNS))
            tables = builder.add(tables, ir.Constant(LONG, FIELDS * ENTRIES))
        return sums

    return emit


add_step = operation(_add_steps(1), 7)  # sums, block, bytes per block, offsets, low_bits, tables, bytes per query
add_steps = operation(_add_steps(AT_ONCE), 7)
average = operation(each(_average), 2)


# ---- comparison with a limit ----


def _subtract(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return call(builder, f"llvm.usub.sat.v{LANES}i8", BYTES, a, b)


def _any_set(builder: ir.IRBuilder, group: ir.Value) -> ir.Value:
    registers = [half for query in items(builder, group) for half in halves_of(builder, query)]
    while len(registers) > 1:
        registers = [builder.or_(a, b) for a, b in zip(registers[::2], registers[1::2])]
    if HAS_AVX2 and not SIX_BIT:  # LLVM would split the register
        longs = builder.bitcast(registers[0], ir.VectorType(LONG, LANES // 8))
        empty = call(builder, "llvm.x86.avx.ptestz.256", INDEX, longs, longs)
        return builder.icmp_unsigned("==", empty, ir.Constant(INDEX, 0))
    whole = ir.IntType(8 * LANES)
    return builder.icmp_unsigned("!=", builder.bitcast(registers[0], whole), ir.Constant(whole, 0))


def _store_lanes(builder: ir.IRBuilder, group: ir.Value, address: ir.Value) -> ir.Value:
    """Store 64 bits for each query and half at ``address``: bit i is set if byte i is not zero."""
    registers = [half for query in items(builder, group) for half in halves_of(builder, query)]
    for i, register in enumerate(registers):
        mask = builder.bitcast(builder.icmp_unsigned("!=", register, constant(BYTES, 0)), ir.IntType(LANES))
        mask = builder.zext(mask, LONG) if LANES < 64 else mask
        place = builder.add(address, ir.Constant(LONG, 8 * i))
        builder.store(mask, builder.inttoptr(place, LONG.as_pointer()))
    return ir.Constant(BIT, 0)


def _lowest_lane(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    return builder.cttz(lanes, ir.Constant(BIT, 0))


under = operation(each(_subtract), 2)  # limits, sums: not zero if sum < limit
any_set = operation(_any_set, 1, types.boolean)
store_lanes = operation(_store_lanes, 2, types.boolean)
lowest_lane = operation(_lowest_lane, 1, types.int64)


# ---- exact costs: on any processor; LLVM replaces missing registers ----


def _no_costs(builder: ir.IRBuilder, base: ir.Value) -> ir.Value:
    return builder.insert_element(constant(COSTS, 0), base, ir.Constant(INDEX, 0))


def _add_costs(builder: ir.IRBuilder, sums: ir.Value, byte: ir.Value, address: ir.Value) -> ir.Value:
    """Add to sums, for each bit i set in ``byte``, the i-th of eight float64 at ``address``."""
    chosen = builder.bitcast(builder.trunc(byte, BYTE), ir.VectorType(BIT, 8))
    return builder.fadd(sums, builder.select(chosen, load(builder, address, COSTS), constant(COSTS, 0)))


def _total_cost(builder: ir.IRBuilder, sums: ir.Value) -> ir.Value:
    while sums.type.count > 1:
        half = sums.type.count // 2
        halves = (pick(builder, sums, sums, list(range(i, i + half))) for i in (0, half))
        sums = builder.fadd(*halves)
    return builder.extract_element(sums, ir.Constant(INDEX, 0))


no_costs = operation(_no_costs, 1, CostsType())  # zero, except for the first
add_costs = operation(_add_costs, 3, CostsType())
total_cost = operation(_total_cost, 1, types.float64)
