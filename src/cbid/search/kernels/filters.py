"""The filters: they find the codes whose lower bound is below a limit, the candidates.

A SIMD filter looks up fields for the codes of a few blocks at once and compares the sums with a limit. It has the
quantised tables of one query (``.._one``) or of a group of GROUP queries (``.._all``). The sums of a group stay in
registers, and the bytes of the codes are split into fields only once. The portable filter is for processors without
AVX2. Candidates are written as offsets from the first code, in order. Masks say which codes of a segment
a search keeps: one pass each, where numpy would copy or widen indices.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.compile import compiled, helper, lean
from cbid.search.kernels.tables import LEVELS
from cbid.search.kernels.vectors import (
    AT_ONCE,
    BLOCKS,
    COLUMNS,
    ENTRIES,
    FIELDS,
    GROUP,
    LANES,
    PIECE,
    add_step,
    add_steps,
    any_set,
    average,
    limits_all,
    limits_one,
    load_group,
    load_mask,
    lowest_lane,
    prefetch_piece,
    store_group,
    store_lanes,
    under,
    zeros,
)

Columns = NDArray[np.int64]
Found = NDArray[np.int32]
Scratch = NDArray[np.uint8]

CHECK_EVERY = 12 // COLUMNS  # steps between two checks whether a code in the blocks can still pass
STEP_TABLES = FIELDS * ENTRIES
STEP_BYTES = 32 * COLUMNS * BLOCKS
# A filter for one query waits for memory, so it prefetches the codes that follow, from AHEAD bytes behind the blocks
# that it scans, into the first-level cache.
AHEAD = 4096


class FilterPass(NamedTuple):
    """The arguments of a SIMD filter that do not depend on the query; numbers only, so that passing them is cheap."""

    source: int  # address of the first block
    n_blocks: int  # a multiple of BLOCKS
    per_block: int  # bytes
    offsets: int | np.int64  # address of the offsets of the byte columns in a block, in scan order
    steps: int
    level: int | np.int64  # 2**level parts
    check: int | np.int64  # steps after which blocks are skipped as soon as no code in them can pass
    scratch: int | np.int64  # address of the memory of `make_scratch`


@lean
def _write(lanes: int, size: int, offset: int, found: Found, counts: Columns) -> None:
    """Append the codes whose bit is set in two masks for each of ``size`` queries, at the address ``lanes``, to the
    codes ``found`` for each."""
    for i in range(2 * size):
        left, slot = load_mask(lanes + 8 * i), i // 2
        count = counts[slot]
        while left != 0:
            found[slot, count] = offset + LANES * (i % 2) + lowest_lane(left)
            count += 1
            left &= left - np.uint64(1)
        counts[slot] = count


@helper
def make_scratch() -> Scratch:
    """Make the memory of a filter: from `_first_register` on, a register of 15s, LEVELS groups, and the masks
    of a group, which take at most two registers."""
    scratch = np.empty((2 * GROUP * LEVELS + 4) * LANES, np.uint8)
    scratch[: 2 * LANES] = 15
    return scratch


@lean
def _first_register(scratch: int) -> int:
    return int(scratch + LANES - 1) // LANES * LANES


@lean
def _fetch_ahead(fetched: int, end: int, lead: int) -> int:
    """Prefetch the piece ``lead`` bytes ahead of each piece from the address ``fetched`` to ``end``; return the new
    address."""
    while fetched < end:
        prefetch_piece(fetched + lead)
        fetched += PIECE
    return fetched


def _filter(name: str, size: int, load_limits: Any, in_parts: bool) -> Any:
    alone = size == 1
    group_bytes = 2 * size * LANES

    def scan(given: FilterPass, ends: Columns, tables: int, limits_at: int, found: Found, counts: Columns) -> None:
        """Form 8-bit sums by the tables (size, steps, FIELDS, ENTRIES) at the address ``tables``, and append the
        codes below the limits, (size,) int64 up to 255 at ``limits_at``, to ``found`` and ``counts``. If
        ``in_parts``, there is one sum for each of 2**level parts, which end at ``ends`` (see `bounds`). The limit
        applies to their average: of the sums of two parts, then of two such averages, and so on."""
        source, n_blocks, per_block, offsets_at, steps, level, check, scratch = given
        per_query = STEP_TABLES * steps
        limits = load_limits(limits_at)
        fetched = source
        lead = BLOCKS * per_block + AHEAD
        low_bits = _first_register(scratch)
        averages = low_bits + LANES
        lanes = averages + group_bytes * LEVELS
        stride = len(ends) >> level if in_parts else 0
        for b in range(0, n_blocks, BLOCKS):
            block = source + b * per_block
            sums = zeros(limits)
            part, step = 0, 0
            turn = ends[stride - 1] if in_parts else steps
            stop = min(check, turn)
            while True:
                while step + AT_ONCE <= stop:
                    if alone:
                        fetched = _fetch_ahead(fetched, block + STEP_BYTES * (step + AT_ONCE), lead)
                    at, tables_at = offsets_at + 8 * COLUMNS * step, tables + STEP_TABLES * step
                    sums = add_steps(sums, block, per_block, at, low_bits, tables_at, per_query)
                    step += AT_ONCE
                while step < stop:
                    if alone:
                        fetched = _fetch_ahead(fetched, block + STEP_BYTES * (step + 1), lead)
                    at, tables_at = offsets_at + 8 * COLUMNS * step, tables + STEP_TABLES * step
                    sums = add_step(sums, block, per_block, at, low_bits, tables_at, per_query)
                    step += 1
                if stop >= check or stop == steps:
                    mean = sums
                    if in_parts:
                        for i in range(level):  # the remaining parts count as zero
                            before = zeros(limits)
                            if part >> i & 1:
                                before = load_group(sums, averages + group_bytes * i)
                            mean = average(before, mean)
                    passing = under(limits, mean)
                    alive = any_set(passing)
                    if stop == steps or not alive:
                        break
                if in_parts and stop == turn:
                    place, full = averages, part  # an average is stored at each level where part has a bit
                    while full % 2 == 1:
                        sums = average(load_group(sums, place), sums)
                        place, full = place + group_bytes, full // 2
                    store_group(sums, place)
                    sums = zeros(limits)
                    part += 1
                    turn = ends[stride * (part + 1) - 1]
                stop = min(max(stop + CHECK_EVERY, check), turn)
            if alone:  # also for skipped columns, which the next blocks may need
                fetched = _fetch_ahead(fetched, block + BLOCKS * per_block, lead)
            if alive:
                store_lanes(passing, lanes)
                _write(lanes, size, 32 * b, found, counts)

    # numba names a compiled function by its qualified name and a count. Kernels that were compiled in two processes
    # may count alike: with one name for all filters, a kernel from the cache would call the filter of another.
    scan.__qualname__ = name
    return lean(scan)


whole_one, whole_all = _filter("whole_one", 1, limits_one, False), _filter("whole_all", GROUP, limits_all, False)
parts_one, parts_all = _filter("parts_one", 1, limits_one, True), _filter("parts_all", GROUP, limits_all, True)


@helper
def filter_portable(
    blocks: NDArray[np.uint8],
    first: int,
    last: int,
    excess: NDArray[np.float64],
    preferred: NDArray[np.uint8],
    budget: float,
    candidates: NDArray[np.int32],
) -> int:
    """Find codes of blocks first <= b < last whose excess is at most ``budget``, by float32 tables over whole bytes.

    Write their offsets from the first code of the first block to ``candidates``, in order; return how many. Sums
    are rounded, so a few codes may cost slightly more.
    """
    width = blocks.shape[1]
    tables = np.zeros((width, 256), np.float32)  # in units of budget
    for j in range(width):
        for s in range(8 * j, 8 * j + 8):
            cost = np.float32(min(excess[s] / budget, 2.0))
            for value in range(256):
                if (value >> (7 - s % 8) & 1) != preferred[s]:
                    tables[j, value] += cost
    limit = np.float32(1.0 + 2e-7 * (8 * width + 8))
    sums = np.empty(32, np.float32)
    count = 0
    for b in range(first, last):
        sums[:] = 0
        for j in range(width):
            table = tables[j]
            column = blocks[b, j]
            for lane in range(32):
                sums[lane] += table[column[lane]]
        for lane in range(32):
            if sums[lane] <= limit:
                candidates[count] = (b - first) * 32 + lane
                count += 1
    return count


@compiled
def mask_by_table(labels: NDArray[np.unsignedinteger], table: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return table[labels]: 1 where the label of a code is wanted."""
    keep = np.empty(len(labels), np.uint8)
    for i in range(len(labels)):
        keep[i] = table[labels[i]]
    return keep


@compiled
def mark_ids(ids: NDArray[np.int64], first: int, table: NDArray[np.uint8]) -> None:
    """Set table[id - first] to 1 for each of ``ids``, in any order; ids outside the table are skipped."""
    for i in range(len(ids)):
        place = ids[i] - first
        if 0 <= place < len(table):
            table[place] = 1


@compiled
def mask_by_ids(ids: NDArray[np.int64], first: int, table: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return table[ids - first]."""
    keep = np.empty(len(ids), np.uint8)
    for i in range(len(ids)):
        keep[i] = table[ids[i] - first]
    return keep


@compiled
def mask_by_merging(ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return 1 where an id is in ``wanted``; both are ascending."""
    keep = np.zeros(len(ids), np.uint8)
    i = j = 0
    while i < len(ids) and j < len(wanted):
        here, there = ids[i], wanted[j]
        keep[i] = here == there
        # Branch-free: the branch would be unpredictable.
        i += here <= there
        j += here >= there
    return keep
