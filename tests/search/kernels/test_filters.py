"""The SIMD filters alone, against the same sums in numpy."""

import numpy as np
import pytest

from cbid.search.kernels.compile import HAS_AVX2, compiled
from cbid.search.kernels.filters import FilterPass, make_scratch, parts_all, parts_one, whole_all, whole_one
from cbid.search.kernels.tables import LEVELS
from cbid.search.kernels.vectors import BLOCKS, COLUMNS, ENTRIES, FIELDS, GROUP, SIX_BIT

pytestmark = pytest.mark.skipif(not HAS_AVX2, reason="there is no SIMD filter without AVX2")


@compiled
def run(source, n_blocks, width, tables, offsets, check, ends, level, limits, found, counts):
    scratch = make_scratch()
    at, steps = np.int64(offsets.ctypes.data), len(offsets) // COLUMNS
    given = FilterPass(source, n_blocks, 32 * width, at, steps, level, check, np.int64(scratch.ctypes.data))
    if len(counts) == 1 and level == 0:
        whole_one(given, ends, tables, limits, found, counts)
    elif len(counts) == 1:
        parts_one(given, ends, tables, limits, found, counts)
    elif level == 0:
        whole_all(given, ends, tables, limits, found, counts)
    else:
        parts_all(given, ends, tables, limits, found, counts)
    scratch[0] = 0  # keeps the memory alive until here


def fields(columns):
    """Values (FIELDS, n) of the fields of the COLUMNS byte columns of a step, (COLUMNS, n)."""
    if SIX_BIT:
        return np.array([*(columns & 63), columns[0] >> 6 | columns[1] >> 6 << 2 | columns[2] >> 6 << 4])
    return np.array([columns[0] >> 4, columns[0] & 15])


def averages(codes, tables, ends, level):
    """The averages (n,) of saturating sums of 2**level parts, formed two by two and rounded up."""
    parts, begin = [], 0
    for end in ends[(len(ends) >> level) - 1 :: len(ends) >> level]:
        total = np.zeros(len(codes), int)
        for step in range(begin, end):
            values = fields(codes[:, COLUMNS * step : COLUMNS * (step + 1)].T)
            total += sum(tables[step, field][values[field]].astype(int) for field in range(FIELDS))
        parts.append(np.minimum(total, 255))
        begin = end
    while len(parts) > 1:
        parts = [(a + b + 1) // 2 for a, b in zip(parts[::2], parts[1::2])]
    return parts[0]


@pytest.mark.long  # compiles the filters alone; the tests of scans check the candidates they need
@pytest.mark.parametrize("size", [1, GROUP])
@pytest.mark.parametrize("level", range(LEVELS + 1))
def test_candidates_are_the_codes_below_the_limit(level, size):
    rng = np.random.default_rng([level, size])
    for n_steps in (1, 2, 7, 32, 45):
        width, n_blocks = COLUMNS * n_steps, 6 * BLOCKS
        blocks = rng.integers(0, 256, (n_blocks, width, 32), dtype=np.uint8)
        codes = blocks.transpose(0, 2, 1).reshape(-1, width)
        ends = np.sort(rng.integers(0, n_steps + 1, 2**LEVELS))
        ends[-1] = n_steps
        tables = rng.integers(0, 60, (size, n_steps, FIELDS, ENTRIES), dtype=np.uint8)
        expected = np.array([averages(codes, table, ends, level) for table in tables])
        limits = np.quantile(expected, 0.02 + 0.3 * rng.random(size)).astype(np.int64)[:size] + 1
        limits = np.minimum(limits, 255)
        for check in (1, n_steps // 2 + 1, n_steps + 1):
            found = np.full((size, 32 * n_blocks), -1, np.int32)
            counts = np.zeros(size, np.int64)
            offsets = 32 * np.arange(width)
            run(
                blocks.ctypes.data, n_blocks, width, tables.ctypes.data, offsets, check, ends, level,
                limits.ctypes.data, found, counts,
            )  # fmt: skip
            for slot in range(size):
                wanted = np.flatnonzero(expected[slot] < limits[slot])
                np.testing.assert_array_equal(found[slot, : counts[slot]], wanted)
