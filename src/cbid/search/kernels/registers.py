"""SIMD registers in numba: their types, and the parts that operations are built from.

numba has no vector type. The type defined here is a *group*: a pair of registers for each of a few queries, which
compiled functions hold in local variables. It is a pair because two lookups then share the load of a table. A
register holds the same byte of the codes of one block (AVX2, 32 codes) or two (AVX-512, 64 codes). The number of
queries in a group is part of its type.

Operations are functions that emit LLVM instructions; `operation` turns them into numba functions.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from cbid.search.kernels.compile import HAS_AVX2, HAS_VBMI

__all__ = [
    "AT_ONCE",
    "BIT",
    "BLOCKS",
    "BYTE",
    "BYTES",
    "COLUMN",
    "COLUMNS",
    "COSTS",
    "ENTRIES",
    "FIELDS",
    "GROUP",
    "INDEX",
    "LANES",
    "LONG",
    "PAIR",
    "SIX_BIT",
    "CostsType",
    "Emit",
    "LimitsType",
    "add_saturating",
    "array_of",
    "call",
    "constant",
    "each",
    "halves",
    "halves_of",
    "items",
    "keep_order",
    "load",
    "load_table",
    "lookup",
    "operation",
    "pair",
    "pick",
    "shift_down",
    "words",
]

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
