"""The SIMD types and operations that the filters are made of, for AVX2 and for AVX-512 with VBMI.

numba has no vector type of its own; here a *group* becomes one that compiled functions hold in local
variables, so that a filter reads as ordinary code: for each of a few queries, a pair of registers. A pair,
because two lookups then share the load of a table. A register holds the same byte of the codes of one block
(AVX2, 32 codes) or of two (AVX-512, 64 codes). How many queries a group has is part of its type.

A *step* takes a few byte columns, whose bits make *fields*, each the index into a table:
- AVX2 looks four bits up (``vpshufb``): two fields, the nibbles of one column;
- VBMI looks six bits up (``vpermb``): four fields, the low six bits of three columns, and their high bits, two
  of each.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from cbid.search._compile import HAS_AVX2, HAS_VBMI

__all__ = [
    "AT_ONCE",
    "BLOCKS",
    "COLUMNS",
    "ENTRIES",
    "FIELDS",
    "GROUP",
    "LANES",
    "SIX_BIT",
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
    "prefetch_step",
    "prefetch_steps",
    "store_group",
    "store_lanes",
    "total_cost",
    "under",
    "zeros",
]

SIX_BIT = HAS_VBMI
# A step takes as many columns as leave the sums of a group in registers: those that spill cost more than lookups.
COLUMNS = 3 if SIX_BIT else 1  # bytes of a code per step
FIELDS = 4 if SIX_BIT else 2  # per step
# Steps without a branch in between: how long a loop takes is foretold well only if it is short.
AT_ONCE = 1 if SIX_BIT else 4
ENTRIES = 64 if SIX_BIT else 16  # of a field's table
LANES = 64 if SIX_BIT else 32  # codes per register
BLOCKS = 2 * LANES // 32  # per pair of registers
GROUP = 8 if SIX_BIT else 4  # queries whose sums fit the registers beside the fields of a step

BIT, BYTE, WORD, INDEX, LONG = (ir.IntType(size) for size in (1, 8, 16, 32, 64))
BYTES = ir.VectorType(BYTE, LANES)  # one register
WORDS = ir.VectorType(WORD, LANES // 2)
COLUMN = ir.VectorType(BYTE, 32)  # a byte of the codes of one block
TABLE = ir.VectorType(BYTE, ENTRIES)
PAIR = ir.LiteralStructType([BYTES, BYTES])
COSTS = ir.VectorType(ir.DoubleType(), 8)


class GroupType(types.Type):
    """A pair of registers for each of ``size`` queries."""

    def __init__(self, size: int) -> None:
        self.size = size
        super().__init__(name=f"CodeGroup{size}")


class CostsType(types.Type):
    """Eight sums of costs, one for each bit of a byte, the lowest first."""

    def __init__(self) -> None:
        super().__init__(name="CodeCosts")


class LimitsType(types.Type):
    """A register for each of ``size`` queries, with one number in all places."""

    def __init__(self, size: int) -> None:
        self.size = size
        super().__init__(name=f"CodeLimits{size}")


@register_model(GroupType)
class GroupModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, ir.ArrayType(PAIR, fe_type.size))


@register_model(CostsType)
class CostsModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, COSTS)


@register_model(LimitsType)
class LimitsModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, ir.ArrayType(BYTES, fe_type.size))


Emit = Callable[..., ir.Value]


def _operation(emit: Emit, arity: int, result: types.Type | None = None) -> Any:
    """A numba function of ``arity`` arguments that becomes, where it is called, what ``emit`` writes: a
    group of the size of the first argument, or ``result``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> ir.Value:
        return emit(builder, *values)

    def typed(*given: Any) -> Any:
        arguments = [types.int64 if isinstance(t, types.Integer) else t for t in given]
        return (result or GroupType(given[0].size))(*arguments), generate

    def unary(typing_context, a):  # type: ignore[no-untyped-def]
        return typed(a)

    def binary(typing_context, a, b):  # type: ignore[no-untyped-def]
        return typed(a, b)

    def ternary(typing_context, a, b, c):  # type: ignore[no-untyped-def]
        return typed(a, b, c)

    def septenary(typing_context, a, b, c, d, e, f, g):  # type: ignore[no-untyped-def]
        return typed(a, b, c, d, e, f, g)

    return intrinsic({1: unary, 2: binary, 3: ternary, 7: septenary}[arity])


def _array(builder: ir.IRBuilder, values: list[ir.Value]) -> ir.Value:
    out = ir.Constant(ir.ArrayType(values[0].type, len(values)), ir.Undefined)
    for i, value in enumerate(values):
        out = builder.insert_value(out, value, i)
    return out


def _items(builder: ir.IRBuilder, array: ir.Value) -> list[ir.Value]:
    return [builder.extract_value(array, i) for i in range(array.type.count)]


def _each(emit: Emit) -> Emit:
    """An operation on groups and limits from one on registers."""

    def on_groups(builder: ir.IRBuilder, *groups: ir.Value) -> ir.Value:
        queries = zip(*(_items(builder, group) for group in groups))
        return _array(builder, [_halves(emit)(builder, *values) for values in queries])

    return on_groups


def _halves(emit: Emit) -> Emit:
    """An operation on pairs from one on registers; what is given as a register is used for both halves."""

    def on_pairs(builder: ir.IRBuilder, *values: ir.Value) -> ir.Value:
        results = []
        for half in (0, 1):
            parts = [builder.extract_value(v, half) if v.type == PAIR else v for v in values]
            results.append(emit(builder, *parts))
        return _pair(builder, results)

    return on_pairs


def _words(emit: Emit) -> Emit:
    """An operation on the bytes of a register from one on its 16-bit numbers."""

    def on_bytes(builder: ir.IRBuilder, *values: ir.Value) -> ir.Value:
        return builder.bitcast(emit(builder, *(builder.bitcast(v, WORDS) for v in values)), BYTES)

    return on_bytes


def _pair(builder: ir.IRBuilder, registers: list[ir.Value]) -> ir.Value:
    return builder.insert_value(
        builder.insert_value(ir.Constant(PAIR, ir.Undefined), registers[0], 0), registers[1], 1
    )


def _halves_of(builder: ir.IRBuilder, pair: ir.Value) -> list[ir.Value]:
    return [builder.extract_value(pair, half) for half in (0, 1)]


def _constant(of: ir.VectorType, value: int) -> ir.Constant:
    return ir.Constant(of, [value] * of.count)


def _call(builder: ir.IRBuilder, name: str, result: ir.Type, *values: ir.Value) -> ir.Value:
    kind = ir.FunctionType(result, [v.type for v in values])
    return builder.call(builder.module.globals.get(name) or ir.Function(builder.module, kind, name), values)


def _pick(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, places: list[int]) -> ir.Value:
    """The elements of a and b (one after the other) at ``places``."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INDEX, len(places)), places))


# ---- loads; an address is an integer, as `array.ctypes.data` gives it ----


def _load(builder: ir.IRBuilder, address: ir.Value, of: ir.Type) -> ir.Value:
    value = builder.load(builder.inttoptr(address, of.as_pointer()))
    value.align = 1
    return value


def _keep_order(builder: ir.IRBuilder) -> None:
    """No instruction, but LLVM moves no load or store past it."""
    builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)


def _load_table(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    table = _load(builder, address, TABLE)
    return _pick(builder, table, table, [i % ENTRIES for i in range(LANES)])


def _load_fields(
    builder: ir.IRBuilder, block: ir.Value, per_block: ir.Value, offsets: ir.Value, low_bits: ir.Value | None
) -> list[ir.Value]:
    """The fields of a step, a pair of registers each, for the codes of BLOCKS blocks from ``block`` on, which are
    ``per_block`` bytes apart.

    ``offsets`` is the address of where the step's columns lie in a block, ``low_bits`` that of a register of 15's,
    which is then loaded for each step; without it one is kept.
    """
    columns = []
    for c in range(COLUMNS):
        offset = _load(builder, builder.add(offsets, ir.Constant(LONG, 8 * c)), LONG)
        address = builder.add(block, offset)
        loaded = []
        for _ in range(BLOCKS):
            loaded.append(_load(builder, address, COLUMN))
            address = builder.add(address, per_block)
        if SIX_BIT:
            loaded = [_pick(builder, a, b, list(range(64))) for a, b in (loaded[:2], loaded[2:])]
        columns.append(_pair(builder, loaded))
    if SIX_BIT:
        return _six_bit_fields(builder, *columns)
    if low_bits is None:
        return _nibbles(builder, _constant(BYTES, 15), *columns)
    _keep_order(builder)  # so that the mask is loaded anew, and its register free in between
    return _nibbles(builder, _load(builder, low_bits, BYTES), *columns)


def _shift_down(builder: ir.IRBuilder, a: ir.Value, by: int) -> ir.Value:
    # There is no shift of bytes: what this one brings in from the neighbour has to be masked or ignored.
    return _words(lambda b, x: b.lshr(x, _constant(WORDS, by)))(builder, a)


def _nibbles(builder: ir.IRBuilder, mask: ir.Value, *columns: ir.Value) -> list[ir.Value]:
    low = _halves(lambda b, x: b.and_(x, mask))
    high = _halves(lambda b, x: b.and_(_shift_down(b, x, 4), mask))
    return [emit(builder, column) for column in columns for emit in (high, low)]


def _six_bit_fields(builder: ir.IRBuilder, *columns: ir.Value) -> list[ir.Value]:
    def high_bits(b: ir.IRBuilder, *bytes_: ir.Value) -> ir.Value:
        parts = [_shift_down(b, x, by) for x, by in zip(bytes_, (6, 4, 2))]
        masked = [b.and_(x, _constant(BYTES, mask)) for x, mask in zip(parts, (3, 12, 0xF0))]
        return b.or_(b.or_(masked[0], masked[1]), masked[2])

    # vpermb looks at the low six bits of an index only, so these need no mask.
    return [*columns, _halves(high_bits)(builder, *columns)]


def _prefetch(steps: int) -> Emit:
    """Fetch as many bytes from ``address`` on as so many steps read."""

    def emit(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
        # To read, into the second level (the first takes too few requests at a time to keep memory busy), data.
        flags = [ir.Constant(INDEX, value) for value in (0, 2, 1)]
        for line in range(0, 32 * COLUMNS * BLOCKS * steps, 64):
            pointer = builder.inttoptr(builder.add(address, ir.Constant(LONG, line)), BYTE.as_pointer())
            _call(builder, "llvm.prefetch.p0", ir.VoidType(), pointer, *flags)
        return ir.Constant(BIT, 0)

    return emit


def _load_limits(size: int) -> Emit:
    """The numbers (int64) from ``address`` on, each in all places of a register."""

    def emit(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
        blank, limits = ir.Constant(BYTES, ir.Undefined), []
        for i in range(size):
            number = _load(builder, builder.add(address, ir.Constant(LONG, 8 * i)), LONG)
            first = builder.insert_element(blank, builder.trunc(number, BYTE), ir.Constant(INDEX, 0))
            limits.append(_pick(builder, first, blank, [0] * LANES))
        return _array(builder, limits)

    return emit


def _zeros(builder: ir.IRBuilder, like: ir.Value) -> ir.Value:
    nothing = ir.Constant(PAIR, [_constant(BYTES, 0)] * 2)
    return ir.Constant(ir.ArrayType(PAIR, like.type.count), [nothing] * like.type.count)


def _store_group(builder: ir.IRBuilder, group: ir.Value, address: ir.Value) -> ir.Value:
    """Put a group away until `load_group`, so that the sums of the steps between have all registers."""
    registers = [half for query in _items(builder, group) for half in _halves_of(builder, query)]
    for i, register in enumerate(registers):
        place = builder.add(address, ir.Constant(LONG, LANES * i))
        builder.store(register, builder.inttoptr(place, BYTES.as_pointer()), align=LANES)
    _keep_order(builder)  # LLVM would see through this, and spill registers of its own choice inside of the loops
    return ir.Constant(BIT, 0)


def _load_group(builder: ir.IRBuilder, like: ir.Value, address: ir.Value) -> ir.Value:
    """A group of the size of ``like`` from where `store_group` put it."""
    pairs = []
    for i in range(0, 2 * like.type.count, 2):
        places = [builder.add(address, ir.Constant(LONG, LANES * j)) for j in (i, i + 1)]
        pairs.append(_pair(builder, [_load(builder, place, BYTES) for place in places]))
    return _array(builder, pairs)


prefetch_step = _operation(_prefetch(1), 1, types.boolean)
prefetch_steps = _operation(_prefetch(AT_ONCE), 1, types.boolean)
limits_one = _operation(_load_limits(1), 1, LimitsType(1))
limits_all = _operation(_load_limits(GROUP), 1, LimitsType(GROUP))
zeros = _operation(_zeros, 1)  # as many as there are limits
store_group = _operation(_store_group, 2, types.boolean)
load_group = _operation(_load_group, 2)  # like, address


# ---- looking up and adding bytes ----


def _lookup(builder: ir.IRBuilder, table: ir.Value, field: ir.Value) -> ir.Value:
    if SIX_BIT:
        return _call(builder, "llvm.x86.avx512.permvar.qi.512", BYTES, table, field)
    if HAS_AVX2:
        return _call(builder, "llvm.x86.avx2.pshuf.b", BYTES, table, field)
    # Never run (see `simd_wanted`), but the scans that name the filters must compile everywhere.
    return _constant(BYTES, 0)


def _add_saturating(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return _call(builder, f"llvm.uadd.sat.v{LANES}i8", BYTES, a, b)


def _add_step(
    builder: ir.IRBuilder, sums: ir.Value, fields: list[ir.Value], tables: ir.Value, per_query: ir.Value
) -> ir.Value:
    """Sums and what ``fields`` cost by the tables of a step, from the address ``tables`` on, ``per_query``
    bytes apart."""
    plus = _halves(lambda b, x, y: b.add(x, y))  # fields 0 and 1, as 2 and 3, are known to fit a byte
    plus_saturating = _halves(_add_saturating)  # runs in half as many places of the core
    out = []
    for total in _items(builder, sums):
        if (
            not SIX_BIT and sums.type.count > 1
        ):  # tables of the next query, loaded early, would push sums out of the 16 registers
            _keep_order(builder)
        costs = []
        for i, field in enumerate(fields):
            table = _load_table(builder, builder.add(tables, ir.Constant(LONG, ENTRIES * i)))
            costs.append(_halves(_lookup)(builder, table, field))
        for i in range(0, FIELDS, 2):
            total = plus_saturating(builder, total, plus(builder, costs[i], costs[i + 1]))
        out.append(total)
        tables = builder.add(tables, per_query)
    return _array(builder, out)


def _average(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """(a + b + 1) // 2."""
    if SIX_BIT:
        return _call(builder, "llvm.x86.avx512.pavg.b.512", BYTES, a, b)
    # As in `_lookup`, without AVX2 never run.
    return _call(builder, "llvm.x86.avx2.pavg.b", BYTES, a, b) if HAS_AVX2 else a


def _add_steps(steps: int) -> Emit:
    """Sums and what so many steps cost, the first of which has its offsets and tables at these addresses."""

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


add_step = _operation(_add_steps(1), 7)  # sums, block, bytes per block, offsets, low_bits, tables, bytes per query
add_steps = _operation(_add_steps(AT_ONCE), 7)
average = _operation(_each(_average), 2)


# ---- comparing with a limit ----


def _subtract(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return _call(builder, f"llvm.usub.sat.v{LANES}i8", BYTES, a, b)


def _any_set(builder: ir.IRBuilder, group: ir.Value) -> ir.Value:
    registers = [half for query in _items(builder, group) for half in _halves_of(builder, query)]
    while len(registers) > 1:
        registers = [builder.or_(a, b) for a, b in zip(registers[::2], registers[1::2])]
    if HAS_AVX2 and not SIX_BIT:  # LLVM would take the register apart
        longs = builder.bitcast(registers[0], ir.VectorType(LONG, LANES // 8))
        empty = _call(builder, "llvm.x86.avx.ptestz.256", INDEX, longs, longs)
        return builder.icmp_unsigned("==", empty, ir.Constant(INDEX, 0))
    whole = ir.IntType(8 * LANES)
    return builder.icmp_unsigned("!=", builder.bitcast(registers[0], whole), ir.Constant(whole, 0))


def _store_lanes(builder: ir.IRBuilder, group: ir.Value, address: ir.Value) -> ir.Value:
    """At ``address``, for each query and half, 64 bits: bit i is set where byte i is not zero."""
    registers = [half for query in _items(builder, group) for half in _halves_of(builder, query)]
    for i, register in enumerate(registers):
        mask = builder.bitcast(builder.icmp_unsigned("!=", register, _constant(BYTES, 0)), ir.IntType(LANES))
        mask = builder.zext(mask, LONG) if LANES < 64 else mask
        place = builder.add(address, ir.Constant(LONG, 8 * i))
        builder.store(mask, builder.inttoptr(place, LONG.as_pointer()))
    return ir.Constant(BIT, 0)


def _lowest_lane(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    return builder.cttz(lanes, ir.Constant(BIT, 0))


under = _operation(_each(_subtract), 2)  # limits, sums: not zero where sum < limit
any_set = _operation(_any_set, 1, types.boolean)
store_lanes = _operation(_store_lanes, 2, types.boolean)
lowest_lane = _operation(_lowest_lane, 1, types.int64)


# ---- exact costs: on any processor, for LLVM knows how to do without the registers ----


def _no_costs(builder: ir.IRBuilder, base: ir.Value) -> ir.Value:
    return builder.insert_element(_constant(COSTS, 0), base, ir.Constant(INDEX, 0))


def _add_costs(builder: ir.IRBuilder, sums: ir.Value, byte: ir.Value, address: ir.Value) -> ir.Value:
    """Sums and, where bit i of ``byte`` is set, the i-th of eight float64 from ``address`` on."""
    chosen = builder.bitcast(builder.trunc(byte, BYTE), ir.VectorType(BIT, 8))
    return builder.fadd(sums, builder.select(chosen, _load(builder, address, COSTS), _constant(COSTS, 0)))


def _total_cost(builder: ir.IRBuilder, sums: ir.Value) -> ir.Value:
    while sums.type.count > 1:
        half = sums.type.count // 2
        halves = (_pick(builder, sums, sums, list(range(i, i + half))) for i in (0, half))
        sums = builder.fadd(*halves)
    return builder.extract_element(sums, ir.Constant(INDEX, 0))


no_costs = _operation(_no_costs, 1, CostsType())  # but for the one given
add_costs = _operation(_add_costs, 3, CostsType())
total_cost = _operation(_total_cost, 1, types.float64)
