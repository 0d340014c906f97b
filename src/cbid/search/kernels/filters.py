"""The SIMD filters: fields looked up for the codes of a few blocks at once, sums compared with a limit.

Each filter goes over ``n_blocks``, a multiple of BLOCKS, of ``per_block`` bytes from the address ``source``
on, with the quantised tables of one query (``.._one``) or of a group of GROUP (``.._all``), whose sums stay in
registers while the bytes of the codes are split into fields only once. From ``check`` steps on, blocks are
left as soon as no code in them can pass. Candidates are written as offsets from the first code, in order.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.compile import helper
from cbid.search.kernels.registers import AT_ONCE, BLOCKS, COLUMNS, ENTRIES, FIELDS, GROUP, LANES
from cbid.search.kernels.tables import LEVELS
from cbid.search.kernels.vectors import (
    PIECE,
    add_step,
    add_steps,
    any_set,
    average,
    limits_all,
    limits_one,
    load_group,
    lowest_lane,
    prefetch_piece,
    store_group,
    store_lanes,
    under,
    zeros,
)

__all__ = ["make_shelf", "parts_all", "parts_one", "whole_all", "whole_one"]

Columns = NDArray[np.int64]
Lanes = NDArray[np.uint64]  # two masks for each query
Found = NDArray[np.int32]
Shelf = NDArray[np.uint8]

LOOK = 12 // COLUMNS  # steps between two looks at whether the blocks can be left
STEP_TABLES = FIELDS * ENTRIES
STEP_BYTES = 32 * COLUMNS * BLOCKS
# A filter for one query waits for memory, which a core draws on half as fast again from several places as from one.
# So while it scans a window of addresses it fetches the next window, a piece from each of its eighths in turn. What
# is shorter than two windows is fetched in order, so many bytes ahead.
WINDOW = 1 << 16
AHEAD = 4096


@helper
def _write(lanes: Lanes, offset: int, found: Found, counts: Columns) -> None:
    """Append the codes whose bit is set in ``lanes`` to those ``found`` for each query."""
    for i in range(len(lanes)):
        left, slot = lanes[i], i // 2
        count = counts[slot]
        while left != 0:
            found[slot, count] = offset + LANES * (i % 2) + lowest_lane(left)
            count += 1
            left &= left - np.uint64(1)
        counts[slot] = count


@helper
def make_shelf() -> Shelf:
    """Memory that a filter needs: a register of 15's, from `_first_place` on, and LEVELS groups."""
    shelf = np.empty((2 * GROUP * LEVELS + 2) * LANES, np.uint8)
    shelf[: 2 * LANES] = 15
    return shelf


@helper
def _first_place(shelf: Shelf) -> int:
    return int(np.int64(shelf.ctypes.data) + LANES - 1) // LANES * LANES


@helper
def _fetch_ahead(fetched: int, end: int, lead: int) -> int:
    """For each piece from the address ``fetched`` on that begins before ``end``, fetch the one ``lead`` bytes ahead
    or, if that is 0, one of the next window."""
    while fetched < end:
        number = fetched % WINDOW // PIECE
        far = WINDOW + number % 8 * (WINDOW // 8) + number // 8 * PIECE - fetched % WINDOW
        prefetch_piece(fetched + (lead if lead > 0 else far))
        fetched += PIECE
    return fetched


def _filter(size: int, load_limits: Any, in_parts: bool) -> Any:
    alone = size == 1
    group_bytes = 2 * size * LANES

    @helper
    def scan(
        source: int, n_blocks: int, per_block: int, tables: int, offsets: Columns, check: int, ends: Columns,
        level: int, limits_at: int, shelf: Shelf, found: Found, counts: Columns,
    ) -> None:  # fmt: skip
        """8-bit sums. ``tables`` is the address of (size, steps, FIELDS, ENTRIES), ``limits_at`` that of
        (size,) int64 up to 255. If ``in_parts``, one sum for each of the 2**level parts that a code has by ``ends``
        (see `_sums`), and their average: of those of two parts, then of two such averages, and so on."""
        steps = len(offsets) // COLUMNS
        offsets_at, per_query = np.int64(offsets.ctypes.data), STEP_TABLES * steps
        limits = load_limits(limits_at)
        lanes = np.empty(2 * size, np.uint64)
        fetched = source + -source % PIECE
        lead = 0 if n_blocks * per_block >= 2 * WINDOW else BLOCKS * per_block + AHEAD
        low_bits = _first_place(shelf)
        averages = low_bits + LANES
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
                        for i in range(level):  # what is still to come counts as zero
                            before = zeros(limits)
                            if part >> i & 1:
                                before = load_group(sums, averages + group_bytes * i)
                            mean = average(before, mean)
                    passing = under(limits, mean)
                    alive = any_set(passing)
                    if stop == steps or not alive:
                        break
                if in_parts and stop == turn:
                    place, full = averages, part  # an average waits at each level where part has a bit
                    while full % 2 == 1:
                        sums = average(load_group(sums, place), sums)
                        place, full = place + group_bytes, full // 2
                    store_group(sums, place)
                    sums = zeros(limits)
                    part += 1
                    turn = ends[stride * (part + 1) - 1]
                stop = min(max(stop + LOOK, check), turn)
            if alone:  # also for columns that were skipped, which the next blocks may need
                fetched = _fetch_ahead(fetched, block + BLOCKS * per_block, lead)
            if alive:
                store_lanes(passing, np.int64(lanes.ctypes.data))
                _write(lanes, 32 * b, found, counts)

    return scan


whole_one, whole_all = _filter(1, limits_one, False), _filter(GROUP, limits_all, False)
parts_one, parts_all = _filter(1, limits_one, True), _filter(GROUP, limits_all, True)
