"""SIMD in numba: register types, and the operations of the filters, for AVX2 and for AVX-512 with VBMI.

numba has no vector type. The type defined here is a *group*: a pair of registers for each of a few queries, which
compiled functions hold in local variables. It is a pair because two lookups then share the load of a table. A
register holds the same byte of the codes of one block (AVX2, 32 codes) or two (AVX-512, 64 codes). The number of
queries in a group is part of its type. Operations are functions that emit LLVM instructions; `operation` turns them
into numba functions.

A *step* reads a few byte columns and divides their bits into *fields*, each an index into a table:
- AVX2 looks up four bits (``vpshufb``): two fields, the nibbles of one column;
- VBMI looks up six bits (``vpermb``): four fields, the low six bits of three columns, and two high bits of each.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from cbid.search.kernels.compile import HAS_AVX2, HAS_VBMI

SIX_BIT = HAS_VBMI
# A step has as many columns as leave the sums of a group in registers: spilled sums cost more than lookups.
COLUMNS = 3 if SIX_BIT else 1  # bytes of a code per step
FIELDS = 4 if SIX_BIT else 2  # per step
# Steps without a branch in between: only the length of short loops is predicted well.
AT_ONCE = 1 if SIX_BIT else 4
ENTRIES = 64 if SIX_BIT else 16  # in the table of a field
LANES = 64 if SIX_BIT else 32  # codes per register
BLOCKS = 2 * LANES // 32  # per pair of registers
GROUP = 8 if SIX_BIT else 4  # queries whose sums fit in registers beside the fields of a step

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
    """Eight sums of costs, one per bit of a byte, the lowest first."""

    def __init__(self) -> None:
        super().__init__(name="CodeCosts")


class LimitsType(types.Type):
    """A register for each of ``size`` queries, with one number in all lanes."""

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


def operation(emit: Emit, arity: int, result: types.Type | None = None) -> Any:
    """Return a numba function of ``arity`` arguments that is replaced by the instructions of ``emit``.

    It returns ``result`` or, by default, a group of the size of the first argument.
    """

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

    def quinary(typing_context, a, b, c, d, e):  # type: ignore[no-untyped-def]
        return typed(a, b, c, d, e)

    def septenary(typing_context, a, b, c, d, e, f, g):  # type: ignore[no-untyped-def]
        return typed(a, b, c, d, e, f, g)

    return intrinsic({1: unary, 2: binary, 3: ternary, 5: quinary, 7: septenary}[arity])


def array_of(builder: ir.IRBuilder, values: list[ir.Value]) -> ir.Value:
    out = ir.Constant(ir.ArrayType(values[0].type, len(values)), ir.Undefined)
    for i, value in enumerate(values):
        out = builder.insert_value(out, value, i)
    return out


def items(builder: ir.IRBuilder, array: ir.Value) -> list[ir.Value]:
    return [builder.extract_value(array, i) for i in range(array.type.count)]


def each(emit: Emit) -> Emit:
    """Lift an operation on registers to groups and limits."""

    def on_groups(builder: ir.IRBuilder, *groups: ir.Value) -> ir.Value:
        queries = zip(*(items(builder, group) for group in groups))
        return array_of(builder, [halves(emit)(builder, *values) for values in queries])

    return on_groups


def halves(emit: Emit) -> Emit:
    """Lift an operation on registers to pairs; an argument that is a register is used for both halves."""

    def on_pairs(builder: ir.IRBuilder, *values: ir.Value) -> ir.Value:
        results = []
        for half in (0, 1):
            parts = [builder.extract_value(v, half) if v.type == PAIR else v for v in values]
            results.append(emit(builder, *parts))
        return pair(builder, results)

    return on_pairs


def words(emit: Emit) -> Emit:
    """Lift an operation on 16-bit numbers to the bytes of a register."""

    def on_bytes(builder: ir.IRBuilder, *values: ir.Value) -> ir.Value:
        return builder.bitcast(emit(builder, *(builder.bitcast(v, WORDS) for v in values)), BYTES)

    return on_bytes


def pair(builder: ir.IRBuilder, registers: list[ir.Value]) -> ir.Value:
    return builder.insert_value(
        builder.insert_value(ir.Constant(PAIR, ir.Undefined), registers[0], 0), registers[1], 1
    )


def halves_of(builder: ir.IRBuilder, pair: ir.Value) -> list[ir.Value]:
    return [builder.extract_value(pair, half) for half in (0, 1)]


def constant(of: ir.VectorType, value: int) -> ir.Constant:
    return ir.Constant(of, [value] * of.count)


def call(builder: ir.IRBuilder, name: str, result: ir.Type, *values: ir.Value) -> ir.Value:
    kind = ir.FunctionType(result, [v.type for v in values])
    return builder.call(builder.module.globals.get(name) or ir.Function(builder.module, kind, name), values)


def pick(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, places: list[int]) -> ir.Value:
    """The elements of the concatenation of a and b at ``places``."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INDEX, len(places)), places))


# ---- loads; an address is an integer, such as `array.ctypes.data` ----


def load(builder: ir.IRBuilder, address: ir.Value, of: ir.Type) -> ir.Value:
    value = builder.load(builder.inttoptr(address, of.as_pointer()))
    value.align = 1
    return value


def keep_order(builder: ir.IRBuilder) -> None:
    """Emit no instruction, but a barrier that LLVM moves no load or store across."""
    builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)


def load_table(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    table = load(builder, address, TABLE)
    return pick(builder, table, table, [i % ENTRIES for i in range(LANES)])


# ---- operations on one register ----


def shift_down(builder: ir.IRBuilder, a: ir.Value, by: int) -> ir.Value:
    # There is no shift of bytes: bits shifted in from the neighbour must be masked or ignored.
    return words(lambda b, x: b.lshr(x, constant(WORDS, by)))(builder, a)


def lookup(builder: ir.IRBuilder, table: ir.Value, field: ir.Value) -> ir.Value:
    if SIX_BIT:
        return call(builder, "llvm.x86.avx512.permvar.qi.512", BYTES, table, field)
    if HAS_AVX2:
        return call(builder, "llvm.x86.avx2.pshuf.b", BYTES, table, field)
    # Never executed (see `simd_wanted`), but the scans must compile on every processor.
    return constant(BYTES, 0)


def add_saturating(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return call(builder, f"llvm.uadd.sat.v{LANES}i8", BYTES, a, b)


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
prefetch_piece = operation(_prefetch(PIECE, locality=3), 1, types.boolean)
prefetch_line = operation(_prefetch(64, locality=3), 1, types.boolean)
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


def _load_mask(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return load(builder, address, LONG)


under = operation(each(_subtract), 2)  # limits, sums: not zero if sum < limit
any_set = operation(_any_set, 1, types.boolean)
store_lanes = operation(_store_lanes, 2, types.boolean)
load_mask = operation(_load_mask, 1, types.uint64)
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
