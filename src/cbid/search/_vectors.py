"""A register of 32 bytes as a numba type, and the AVX2 operations that the filters need.

numba has no vector type of its own; here ``<32 x i8>`` becomes one that compiled functions hold in local
variables, so that a filter reads as ordinary code and LLVM keeps the values in registers. The operations
ending in 16 see the same register as 16 little-endian 16-bit numbers: the bytes of codes 0, 2, 4... are their
low halves, those of codes 1, 3, 5... their high halves.
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
    "any_set",
    "even_sums",
    "high_nibbles",
    "load",
    "load_table",
    "lookup",
    "low_nibbles",
    "lowest_lane",
    "odd_bytes",
    "set_lanes",
    "set_lanes16",
    "splat",
    "splat16",
    "under",
    "under16",
    "union",
]

BYTE, WORD, BITS = ir.IntType(8), ir.IntType(16), ir.IntType(32)
BYTES = ir.VectorType(BYTE, 32)
WORDS = ir.VectorType(WORD, 16)


class VectorType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Bytes32")


vector = VectorType()


@register_model(VectorType)
class VectorModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, BYTES)


Emit = Callable[[ir.IRBuilder, Any], ir.Value]


def _constant(of: ir.VectorType, value: int) -> ir.Constant:
    return ir.Constant(of, [value] * of.count)


def _call(builder: ir.IRBuilder, name: str, result: ir.Type, *values: ir.Value) -> ir.Value:
    kind = ir.FunctionType(result, [v.type for v in values])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, values)


def _words(emit: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    """An operation on bytes from one on 16-bit numbers."""

    def on_bytes(builder: ir.IRBuilder, *values: ir.Value) -> ir.Value:
        return builder.bitcast(emit(builder, *(builder.bitcast(v, WORDS) for v in values)), BYTES)

    return on_bytes


def _shuffle(builder: ir.IRBuilder, table: ir.Value, index: ir.Value) -> ir.Value:
    if HAS_AVX2:
        return _call(builder, "llvm.x86.avx2.pshuf.b", BYTES, table, index)
    # Never run (see `simd_wanted`), but the scans that name the filters must compile everywhere.
    return _constant(BYTES, 0)


def _subtract_saturating(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    name = "llvm.usub.sat.v32i8" if a.type == BYTES else "llvm.usub.sat.v16i16"
    return _call(builder, name, a.type, a, b)


def _operation(emit: Callable[..., ir.Value], *arguments: types.Type, result: types.Type = vector) -> Any:
    """A numba function of ``arguments`` that becomes, wherever it is called, what ``emit`` writes."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> ir.Value:
        return emit(builder, *values)

    if len(arguments) == 1:

        @intrinsic
        def operation(typing_context, a):  # type: ignore[no-untyped-def]
            return result(*arguments), generate

    else:

        @intrinsic
        def operation(typing_context, a, b):  # type: ignore[no-untyped-def]
            return result(*arguments), generate

    return operation


# ---- loads; an address is an integer, as `array.ctypes.data` gives it ----


def _load(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    value = builder.load(builder.inttoptr(address, BYTES.as_pointer()))
    value.align = 1
    return value


def _load_table(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    half = ir.VectorType(BYTE, 16)
    value = builder.load(builder.inttoptr(address, half.as_pointer()))
    value.align = 1
    twice = ir.Constant(ir.VectorType(BITS, 32), [*range(16), *range(16)])
    return builder.shuffle_vector(value, ir.Constant(half, ir.Undefined), twice)


def _splat(of: ir.VectorType) -> Callable[..., ir.Value]:
    def emit(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
        undefined = ir.Constant(of, ir.Undefined)
        first = builder.insert_element(undefined, builder.trunc(number, of.element), ir.Constant(BITS, 0))
        every = ir.Constant(ir.VectorType(BITS, of.count), [0] * of.count)
        return builder.bitcast(builder.shuffle_vector(first, undefined, every), BYTES)

    return emit


load = _operation(_load, types.int64)  # 32 bytes
load_table = _operation(_load_table, types.int64)  # 16 bytes, in both halves
splat = _operation(_splat(BYTES), types.int64)  # one byte in all places
splat16 = _operation(_splat(WORDS), types.int64)


# ---- looking nibbles up and adding ----


def _low_nibbles(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    return builder.and_(a, _constant(BYTES, 15))


def _high_nibbles(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    # There is no shift of bytes; what a shift of 16-bit numbers brings in from the neighbour is masked away.
    shifted = builder.lshr(builder.bitcast(a, WORDS), _constant(WORDS, 4))
    return _low_nibbles(builder, builder.bitcast(shifted, BYTES))


low_nibbles = _operation(_low_nibbles, vector)
high_nibbles = _operation(_high_nibbles, vector)
lookup = _operation(_shuffle, vector, vector)  # table, nibbles
add = _operation(lambda b, x, y: _call(b, "llvm.uadd.sat.v32i8", BYTES, x, y), vector, vector)  # saturating
union = _operation(lambda b, x, y: b.or_(x, y), vector, vector)


# ---- 16-bit sums of bytes ----
# ``total`` adds whole 16-bit numbers, so that the odd codes' bytes spill into it; `even_sums` takes them out.

add16 = _operation(_words(lambda b, x, y: b.add(x, y)), vector, vector)  # wraps around
odd_bytes = _operation(_words(lambda b, x: b.lshr(x, _constant(WORDS, 8))), vector)
even_sums = _operation(
    _words(lambda b, total, odd: b.sub(total, b.shl(odd, _constant(WORDS, 8)))), vector, vector
)


# ---- comparing with a limit ----


def _any_set(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    return builder.icmp_unsigned("!=", builder.bitcast(a, ir.IntType(256)), ir.Constant(ir.IntType(256), 0))


def _set_lanes(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    return builder.bitcast(builder.icmp_unsigned("!=", a, _constant(BYTES, 0)), BITS)


def _set_lanes16(builder: ir.IRBuilder, even: ir.Value, odd: ir.Value) -> ir.Value:
    flags = [builder.icmp_unsigned("!=", builder.bitcast(v, WORDS), _constant(WORDS, 0)) for v in (even, odd)]
    interleaved = ir.Constant(ir.VectorType(BITS, 32), [i // 2 + 16 * (i % 2) for i in range(32)])
    return builder.bitcast(builder.shuffle_vector(*flags, interleaved), BITS)


under = _operation(_subtract_saturating, vector, vector)  # limit, sums: not zero where sum < limit
under16 = _operation(_words(_subtract_saturating), vector, vector)
any_set = _operation(_any_set, vector, result=types.boolean)
set_lanes = _operation(_set_lanes, vector, result=types.uint32)  # bit i: byte i is not zero
set_lanes16 = _operation(_set_lanes16, vector, vector, result=types.uint32)  # from the even and the odd codes


def _lowest(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    return builder.zext(builder.cttz(a, ir.Constant(ir.IntType(1), 0)), ir.IntType(64))


lowest_lane = _operation(_lowest, types.uint32, result=types.int64)
