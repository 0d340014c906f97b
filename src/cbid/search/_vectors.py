"""64 bytes, one of each code of two blocks, as a numba type, and the AVX2 operations that the filters need.

numba has no vector type of its own; here a pair of AVX2 registers becomes one that compiled functions hold in
local variables, so that a filter reads as ordinary code. A pair, because two lookups can then share the load of
their table; not one register of AVX-512, which loads and looks up no faster where it was tried (Zen 4).

The operations on 16-bit sums see the bytes of a register as 16 little-endian numbers: the bytes of codes 0, 2,
4... are their low halves, those of codes 1, 3, 5... their high halves.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from cbid.search._compile import HAS_AVX2

__all__ = [
    "add",
    "add16",
    "add_saturating",
    "any_set",
    "even_sums",
    "high_nibbles",
    "load",
    "load_table",
    "lookup",
    "low_nibbles",
    "lowest_lane",
    "odd_bytes",
    "prefetch",
    "set_lanes",
    "set_lanes16",
    "splat",
    "splat16",
    "under",
    "under16",
    "union",
    "zeros",
]

BIT, BYTE, WORD, INDEX, LANES = (ir.IntType(size) for size in (1, 8, 16, 32, 64))
BYTES = ir.VectorType(BYTE, 32)  # one register
WORDS = ir.VectorType(WORD, 16)
TABLE = ir.VectorType(BYTE, 16)
PAIR = ir.LiteralStructType([BYTES, BYTES])


class RegisterType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Bytes32")


class PairType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Bytes64")


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
    """A numba function of one or two ``arguments`` that becomes, where it is called, what ``emit`` writes."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> ir.Value:
        return emit(builder, *values)

    def unary(typing_context, a):  # type: ignore[no-untyped-def]
        return result(*arguments), generate

    def binary(typing_context, a, b):  # type: ignore[no-untyped-def]
        return result(*arguments), generate

    return intrinsic(unary if len(arguments) == 1 else binary)


def _halves(emit: Emit) -> Emit:
    """An operation on pairs from one on registers; what is given as a register is used for both halves."""

    def on_pairs(builder: ir.IRBuilder, *values: ir.Value) -> ir.Value:
        out = ir.Constant(PAIR, ir.Undefined)
        for half in (0, 1):
            parts = [builder.extract_value(v, half) if v.type == PAIR else v for v in values]
            out = builder.insert_value(out, emit(builder, *parts), half)
        return out

    return on_pairs


def _words(emit: Emit) -> Emit:
    """An operation on the bytes of a register from one on its 16-bit numbers."""

    def on_bytes(builder: ir.IRBuilder, *values: ir.Value) -> ir.Value:
        return builder.bitcast(emit(builder, *(builder.bitcast(v, WORDS) for v in values)), BYTES)

    return on_bytes


def _constant(of: ir.VectorType, value: int) -> ir.Constant:
    return ir.Constant(of, [value] * of.count)


def _call(builder: ir.IRBuilder, name: str, result: ir.Type, *values: ir.Value) -> ir.Value:
    kind = ir.FunctionType(result, [v.type for v in values])
    return builder.call(builder.module.globals.get(name) or ir.Function(builder.module, kind, name), values)


def _pick(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, places: list[int]) -> ir.Value:
    """The elements of a and b (one after the other) at ``places``."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INDEX, len(places)), places))


# ---- loads; an address is an integer, as `array.ctypes.data` gives it ----


def _load_bytes(builder: ir.IRBuilder, address: ir.Value, of: ir.VectorType = BYTES) -> ir.Value:
    value = builder.load(builder.inttoptr(address, of.as_pointer()))
    value.align = 1
    return value


def _load(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    out = builder.insert_value(ir.Constant(PAIR, ir.Undefined), _load_bytes(builder, first), 0)
    return builder.insert_value(out, _load_bytes(builder, second), 1)


def _load_table(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    table = _load_bytes(builder, address, TABLE)
    return _pick(builder, table, table, 2 * list(range(16)))


def _prefetch(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    pointer = builder.inttoptr(address, BYTE.as_pointer())
    flags = [ir.Constant(INDEX, value) for value in (0, 3, 1)]  # to read, into every level of the cache, data
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


load = _operation(_load, types.int64, types.int64)  # 32 bytes from each of two addresses
load_table = _operation(_load_table, types.int64, result=register)  # 16 bytes, twice
prefetch = _operation(_prefetch, types.int64, result=types.boolean)
splat = _operation(_splat(BYTES), types.int64, result=register)  # one byte in all places
splat16 = _operation(_splat(WORDS), types.int64, result=register)
zeros = _operation(_zeros, types.int64)


# ---- looking nibbles up and adding ----


def _low_nibbles(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    return builder.and_(a, _constant(BYTES, 15))


def _high_nibbles(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    # There is no shift of bytes; what a shift of 16-bit numbers brings in from the neighbour is masked away.
    shifted = builder.lshr(builder.bitcast(a, WORDS), _constant(WORDS, 4))
    return _low_nibbles(builder, builder.bitcast(shifted, BYTES))


def _lookup(builder: ir.IRBuilder, table: ir.Value, nibbles: ir.Value) -> ir.Value:
    if HAS_AVX2:
        return _call(builder, "llvm.x86.avx2.pshuf.b", BYTES, table, nibbles)
    # Never run (see `simd_wanted`), but the scans that name the filters must compile everywhere.
    return _constant(BYTES, 0)


def _add_saturating(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return _call(builder, "llvm.uadd.sat.v32i8", BYTES, a, b)


low_nibbles = _operation(_halves(_low_nibbles), pair)
high_nibbles = _operation(_halves(_high_nibbles), pair)
lookup = _operation(_halves(_lookup), register, pair)  # table, nibbles
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
    name = "llvm.usub.sat.v32i8" if a.type == BYTES else "llvm.usub.sat.v16i16"
    return _call(builder, name, a.type, a, b)


def _any_set(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    either = builder.or_(builder.extract_value(a, 0), builder.extract_value(a, 1))
    whole = ir.IntType(256)
    return builder.icmp_unsigned("!=", builder.bitcast(either, whole), ir.Constant(whole, 0))


def _lanes(builder: ir.IRBuilder, flags: list[ir.Value]) -> ir.Value:
    """64 bits from the flags of the first and of the second block."""
    low, high = (builder.zext(builder.bitcast(f, INDEX), LANES) for f in flags)
    return builder.or_(low, builder.shl(high, ir.Constant(LANES, 32)))


def _set_lanes(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    halves = [builder.extract_value(a, half) for half in (0, 1)]
    return _lanes(builder, [builder.icmp_unsigned("!=", v, _constant(BYTES, 0)) for v in halves])


def _set_lanes16(builder: ir.IRBuilder, even: ir.Value, odd: ir.Value) -> ir.Value:
    flags = []
    for half in (0, 1):
        words = [builder.bitcast(builder.extract_value(v, half), WORDS) for v in (even, odd)]
        set_words = [builder.icmp_unsigned("!=", w, _constant(WORDS, 0)) for w in words]
        flags.append(_pick(builder, *set_words, [i // 2 + 16 * (i % 2) for i in range(32)]))
    return _lanes(builder, flags)


def _lowest_lane(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    return builder.cttz(lanes, ir.Constant(BIT, 0))


under = _operation(_halves(_subtract), register, pair)  # limit, sums: not zero where sum < limit
under16 = _operation(_halves(_words(_subtract)), register, pair)
any_set = _operation(_any_set, pair, result=types.boolean)
set_lanes = _operation(_set_lanes, pair, result=types.uint64)  # bit i: byte i is not zero
set_lanes16 = _operation(_set_lanes16, pair, pair, result=types.uint64)  # from the even and the odd codes
lowest_lane = _operation(_lowest_lane, types.uint64, result=types.int64)
