"""The SIMD types and operations that the filters are made of, for AVX2 and for AVX-512 with VBMI.

numba has no vector type of its own; here a pair of registers becomes one that compiled functions hold in
local variables, so that a filter reads as ordinary code. A pair, because two lookups then share the load of a
table. A register holds the same byte of the codes of one block (AVX2, 32 codes) or of two (AVX-512, 64
codes).

A *step* takes a few byte columns, whose bits make four *fields*, each the index into a table:
- AVX2 looks four bits up (``vpshufb``): the nibbles of two columns;
- VBMI looks six bits up (``vpermb``): the low six bits of three columns, and their high bits, two of each.

The operations on 16-bit sums see the bytes of a register as little-endian 16-bit numbers: the bytes of codes
0, 2, 4... are their low halves, those of codes 1, 3, 5... their high halves.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from cbid.search._compile import HAS_AVX2, HAS_VBMI

__all__ = [
    "BLOCKS",
    "COLUMNS",
    "ENTRIES",
    "FIELDS",
    "LANES",
    "SIX_BIT",
    "add",
    "add16",
    "add_saturating",
    "any_set",
    "even_sums",
    "load_fields",
    "load_table",
    "lookup",
    "lowest_lane",
    "odd_bytes",
    "prefetch_step",
    "set_lanes",
    "set_lanes16",
    "splat",
    "splat16",
    "under",
    "under16",
    "union",
    "zeros",
]

SIX_BIT = HAS_VBMI
FIELDS = 4  # per step
COLUMNS = 3 if SIX_BIT else 2  # bytes of a code per step
ENTRIES = 64 if SIX_BIT else 16  # of a field's table
LANES = 64 if SIX_BIT else 32  # codes per register
BLOCKS = 2 * LANES // 32  # per pair of registers

BIT, BYTE, WORD, INDEX, LONG = (ir.IntType(size) for size in (1, 8, 16, 32, 64))
BYTES = ir.VectorType(BYTE, LANES)  # one register
WORDS = ir.VectorType(WORD, LANES // 2)
COLUMN = ir.VectorType(BYTE, 32)  # a byte of the codes of one block
TABLE = ir.VectorType(BYTE, ENTRIES)
PAIR = ir.LiteralStructType([BYTES, BYTES])


class RegisterType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="CodeBytes")


class PairType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="CodeBytesPair")


@register_model(RegisterType)
class RegisterModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, BYTES)


@register_model(PairType)
class PairModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, PAIR)


register, pair = RegisterType(), PairType()
Emit = Callable[..., ir.Value]


def _operation(emit: Emit, *arguments: types.Type, result: types.Type = pair) -> Any:
    """A numba function of ``arguments`` that becomes, where it is called, what ``emit`` writes."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> ir.Value:
        return emit(builder, *values)

    def unary(typing_context, a):  # type: ignore[no-untyped-def]
        return result(*arguments), generate

    def binary(typing_context, a, b):  # type: ignore[no-untyped-def]
        return result(*arguments), generate

    def ternary(typing_context, a, b, c):  # type: ignore[no-untyped-def]
        return result(*arguments), generate

    return intrinsic((unary, binary, ternary)[len(arguments) - 1])


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


def _load_table(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    table = _load(builder, address, TABLE)
    return _pick(builder, table, table, [i % ENTRIES for i in range(LANES)])


def _load_fields(builder: ir.IRBuilder, block: ir.Value, per_block: ir.Value, offsets: ir.Value) -> ir.Value:
    """The four fields of a step, for the codes of BLOCKS blocks from ``block`` on, ``per_block`` bytes apart.

    ``offsets`` is the address of where the step's columns lie in a block.
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
    fields = _six_bit_fields(builder, *columns) if SIX_BIT else _nibbles(builder, *columns)
    out = ir.Constant(ir.ArrayType(PAIR, FIELDS), ir.Undefined)
    for i, field in enumerate(fields):
        out = builder.insert_value(out, field, i)
    return out


def _shift_down(builder: ir.IRBuilder, a: ir.Value, by: int) -> ir.Value:
    # There is no shift of bytes: what this one brings in from the neighbour has to be masked or ignored.
    return _words(lambda b, x: b.lshr(x, _constant(WORDS, by)))(builder, a)


def _nibbles(builder: ir.IRBuilder, *columns: ir.Value) -> list[ir.Value]:
    mask = _constant(BYTES, 15)
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


def _prefetch_step(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Fetch as many bytes from ``address`` on as a step reads."""
    # To read, into the second level (the first takes too few requests at a time to keep memory busy), data.
    flags = [ir.Constant(INDEX, value) for value in (0, 2, 1)]
    for line in range(0, 32 * COLUMNS * BLOCKS, 64):
        pointer = builder.inttoptr(builder.add(address, ir.Constant(LONG, line)), BYTE.as_pointer())
        _call(builder, "llvm.prefetch.p0", ir.VoidType(), pointer, *flags)
    return ir.Constant(BIT, 0)


def _splat(of: ir.VectorType) -> Emit:
    def emit(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
        blank = ir.Constant(of, ir.Undefined)
        first = builder.insert_element(blank, builder.trunc(number, of.element), ir.Constant(INDEX, 0))
        return builder.bitcast(_pick(builder, first, blank, [0] * of.count), BYTES)

    return emit


def _zeros(builder: ir.IRBuilder, ignored: ir.Value) -> ir.Value:
    return ir.Constant(PAIR, [_constant(BYTES, 0)] * 2)


load_fields = _operation(_load_fields, types.int64, types.int64, types.int64, result=types.UniTuple(pair, FIELDS))
load_table = _operation(_load_table, types.int64, result=register)
prefetch_step = _operation(_prefetch_step, types.int64, result=types.boolean)
splat = _operation(_splat(BYTES), types.int64, result=register)  # one byte in all places
splat16 = _operation(_splat(WORDS), types.int64, result=register)
zeros = _operation(_zeros, types.int64)


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


lookup = _operation(_halves(_lookup), register, pair)  # table, field
add = _operation(_halves(lambda b, x, y: b.add(x, y)), pair, pair)  # where the sum is known to fit a byte
add_saturating = _operation(_halves(_add_saturating), pair, pair)  # runs in half as many places of the core
union = _operation(_halves(lambda b, x, y: b.or_(x, y)), pair, pair)


# ---- 16-bit sums of bytes ----
# ``total`` adds whole 16-bit numbers, so that the odd codes' bytes spill into it; `even_sums` takes them out.


def _even_sums(builder: ir.IRBuilder, total: ir.Value, odd: ir.Value) -> ir.Value:
    return builder.sub(total, builder.shl(odd, _constant(WORDS, 8)))


add16 = _operation(_halves(_words(lambda b, x, y: b.add(x, y))), pair, pair)
odd_bytes = _operation(_halves(_words(lambda b, x: b.lshr(x, _constant(WORDS, 8)))), pair)
even_sums = _operation(_halves(_words(_even_sums)), pair, pair)


# ---- comparing with a limit ----


def _subtract(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    name = f"llvm.usub.sat.v{LANES}i8" if a.type == BYTES else f"llvm.usub.sat.v{LANES // 2}i16"
    return _call(builder, name, a.type, a, b)


def _any_set(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    either = builder.or_(builder.extract_value(a, 0), builder.extract_value(a, 1))
    whole = ir.IntType(8 * LANES)
    return builder.icmp_unsigned("!=", builder.bitcast(either, whole), ir.Constant(whole, 0))


def _flag_lanes(builder: ir.IRBuilder, flags: list[ir.Value]) -> ir.Value:
    """A mask of 64 bits for each register from its flags."""
    masks = [
        builder.zext(builder.bitcast(f, ir.IntType(LANES)), LONG) if LANES < 64 else builder.bitcast(f, LONG)
        for f in flags
    ]
    out = ir.Constant(ir.ArrayType(LONG, 2), ir.Undefined)
    return builder.insert_value(builder.insert_value(out, masks[0], 0), masks[1], 1)


def _set_lanes(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    halves = [builder.extract_value(a, half) for half in (0, 1)]
    return _flag_lanes(builder, [builder.icmp_unsigned("!=", v, _constant(BYTES, 0)) for v in halves])


def _set_lanes16(builder: ir.IRBuilder, even: ir.Value, odd: ir.Value) -> ir.Value:
    flags = []
    for half in (0, 1):
        words = [builder.bitcast(builder.extract_value(v, half), WORDS) for v in (even, odd)]
        set_even, set_odd = (builder.icmp_unsigned("!=", w, _constant(WORDS, 0)) for w in words)
        places = [i // 2 + LANES // 2 * (i % 2) for i in range(LANES)]
        flags.append(_pick(builder, set_even, set_odd, places))
    return _flag_lanes(builder, flags)


def _lowest_lane(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    return builder.cttz(lanes, ir.Constant(BIT, 0))


under = _operation(_halves(_subtract), register, pair)  # limit, sums: not zero where sum < limit
under16 = _operation(_halves(_words(_subtract)), register, pair)
any_set = _operation(_any_set, pair, result=types.boolean)
masks = types.UniTuple(types.uint64, 2)  # for each register: bit i is set where byte i is not zero
set_lanes = _operation(_set_lanes, pair, result=masks)
set_lanes16 = _operation(_set_lanes16, pair, pair, result=masks)  # from the even and the odd codes
lowest_lane = _operation(_lowest_lane, types.uint64, result=types.int64)
