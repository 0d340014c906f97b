"""A pytest plug-in that runs the six-bit filters on a processor without VBMI: their two instructions are emulated.

For a separate process (``-p tests.search.kernels.six_bit``) with its own cache: everything is compiled this way.
"""

from typing import Any

import pytest
from llvmlite import ir

BYTE, WORD, INDEX = (ir.IntType(size) for size in (8, 16, 32))


def _permute(builder, table, places):
    """vpermb: entry ``places[i] % 64`` of ``table`` in each lane i."""
    slot = builder.alloca(table.type)
    builder.store(table, slot)
    entries = builder.bitcast(slot, BYTE.as_pointer())
    out = ir.Constant(table.type, ir.Undefined)
    for lane in range(table.type.count):
        place = builder.and_(builder.extract_element(places, ir.Constant(INDEX, lane)), ir.Constant(BYTE, 63))
        entry = builder.load(builder.gep(entries, [builder.zext(place, INDEX)]))
        out = builder.insert_element(out, entry, ir.Constant(INDEX, lane))
    return out


def _average(builder, a, b):
    """vpavgb: (a + b + 1) // 2 in each lane."""
    words = ir.VectorType(WORD, a.type.count)
    one = ir.Constant(words, [1] * a.type.count)
    total = builder.add(builder.add(builder.zext(a, words), builder.zext(b, words)), one)
    return builder.trunc(builder.lshr(total, one), a.type)


EMULATED = {"llvm.x86.avx512.permvar.qi.512": _permute, "llvm.x86.avx512.pavg.b.512": _average}


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    """Before any file of the tests, which would compile filters for the processor that is there."""
    import cbid.search.kernels.compile as compiling

    compiling.HAS_VBMI = True

    import cbid.search.kernels.vectors as vectors

    assert vectors.SIX_BIT, "the filters had been made before"
    real_call = vectors.call

    def call(builder, name, result, *values):
        if name not in EMULATED:
            return real_call(builder, name, result, *values)
        emulated = "emulated_" + name.replace(".", "_")
        function = builder.module.globals.get(emulated)
        if function is None:
            kind = ir.FunctionType(result, [value.type for value in values])
            function = ir.Function(builder.module, kind, emulated)
            function.linkage = "internal"
            function.attributes.add("noinline")  # once for each module, not for each of hundreds of look-ups
            body = ir.IRBuilder(function.append_basic_block())
            body.ret(EMULATED[name](body, *function.args))
        return builder.call(function, values)

    vectors.call = call
