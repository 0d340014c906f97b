"""Three ways to form the sums of quantised costs, from the cheapest to the sharpest.

Every table entry is rounded down and loses half a unit on average, so a bound is the sharper the more units a
distance takes:
- *narrow*: one 8-bit sum, which saturates just above the limit;
- *halved*: two 8-bit sums, of about half of the cost each, whose average is held against the limit. Twice as many
  units, for one more instruction;
- *wide*: 16-bit sums of such averages, each of two *segments*, which are a few steps. Several times as many units;
  the filter takes about a tenth longer.

Halves and segments are scaled so that those of a code at the limit seldom saturate, for what is cut off is lost.
"""

import numpy as np

from cbid.search._compile import helper
from cbid.search._tables import Tables, quantise, segment_steps
from cbid.search._vectors import COLUMNS

__all__ = ["HALVED", "NARROW", "NARROW_MOST", "WAYS", "WIDE", "sum_limit"]

NARROW, HALVED, WIDE = 0, 1, 2
WAYS = 3
NARROW_MOST = 254.0
# Of a code at the limit whose halves cost the same. Where all weights are equal, distances of random codes spread
# less, and whole numbers (which lose nothing) matter more.
HALF_MOST, EQUAL_HALF_MOST = 200.0, 230.0


@helper
def _most(tables: Tables, q: int, way: int) -> float:
    """The largest limit that sums formed in this way are made for."""
    if way == WIDE:
        return float(tables.widest[q])
    if way == HALVED:
        return 2.0 * (EQUAL_HALF_MOST if tables.unit[q] > 0.0 else HALF_MOST)
    return NARROW_MOST


@helper
def sum_limit(tables: Tables, q: int, room: float, way: int, n_blocks: int) -> int:
    """The limit that sums (or averages of halves) of query q stay below when what it costs is at most ``room``.

    Makes the tables anew where the scale of the last ones is another way's, or wastes too much of the range of the
    sums to scan ``n_blocks`` with them.
    """
    used = 0.85 if n_blocks >= 64 else 0.6
    most = _most(tables, q, way)
    if not used * most <= tables.scale[q] * room <= most * (1.0 + 1e-9):
        scale = 0.0 if room == np.inf else _whole(most / room, tables.unit[q])
        if scale != tables.scale[q]:
            tables.scale[q] = scale
            whole = tables.unit[q] * scale >= 1.0
            quantise(tables.columns, tables.excess[q], tables.preferred[q], whole, scale, tables.quantised[q])
        if scale == 0.0:  # all costs are zero, and all codes pass
            return 1
    largest = int(tables.scale[q] * room)
    if way == NARROW:
        return largest + 1
    steps = len(tables.columns) // COLUMNS
    averages = 1 if way == HALVED else -(-steps // (2 * segment_steps(steps)))
    return (largest + averages) // 2 + 1  # each of them may be rounded up


@helper
def _whole(scale: float, unit: float) -> float:
    """``scale``, lowered so that multiples of ``unit`` become whole numbers: equal weights lose nothing."""
    steps = np.floor(scale * unit)
    # The factor keeps floor() from falling one short; `room_below` has more to spare.
    return scale if steps < 1.0 else steps / unit * (1.0 + 1e-12)
