"""How sharp the bounds are: into how many parts a code is cut, and the limit that goes with it.

Sums are bytes. Every table entry is rounded down and loses half a unit on average, so a bound is the sharper the more
units a distance takes. At *level* 0 one sum goes over the whole code and saturates just above the limit. At level l
there are 2**l sums, of parts that cost about the same, and 2**l times the units; what is held against the limit is
their average, formed two by two (``vpavgb``). That costs a few instructions a part. Parts are scaled so that those of
a code at the limit seldom saturate, for what is cut off is lost.
"""

import math

import numpy as np

from cbid.search.kernels.compile import helper
from cbid.search.kernels.registers import COLUMNS, FIELDS
from cbid.search.kernels.tables import Tables, quantise

__all__ = ["WHOLE_MOST", "limit_within", "passing_share", "sum_limit", "wrong_share"]

WHOLE_MOST = 254.0
# What the costliest part of a code at the limit comes to, if it costs as much of its all as the others. Where all
# weights are equal, whole numbers (which lose nothing) matter more than parts that saturate.
PART_MOST, EQUAL_PART_MOST = 200.0, 230.0


@helper
def _most(tables: Tables, q: int, level: int) -> float:
    """The largest sum of all parts that tables for this level are made for."""
    if level == 0:
        return WHOLE_MOST
    return (EQUAL_PART_MOST if tables.unit[q] > 0.0 else PART_MOST) / max(tables.costliest[level], 2.0**-level)


@helper
def sum_limit(tables: Tables, q: int, room: float, level: int, n_blocks: int) -> int:
    """The limit that averages of parts of query q stay below when what it costs is at most ``room``.

    Makes the tables anew where the scale of the last ones is another level's, or wastes too much of the range of the
    sums to scan ``n_blocks`` with them.
    """
    used = 0.85 if n_blocks >= 64 else 0.6
    most = _most(tables, q, level)
    if not used * most <= tables.scale[q] * room <= most * (1.0 + 1e-9):
        scale = 0.0 if room == np.inf else _whole(most / room, tables.unit[q])
        if scale != tables.scale[q]:
            tables.scale[q] = scale
            whole = tables.unit[q] * scale >= 1.0
            quantise(tables.columns, tables.excess[q], tables.preferred[q], whole, scale, tables.quantised[q])
        if scale == 0.0:  # all costs are zero, and all codes pass
            return 1
    return limit_within(tables.scale[q], room, level)


@helper
def limit_within(scale: float, room: float, level: int) -> int:
    """The limit that averages of parts stay below where tables of this scale cost at most ``room``."""
    # Each average may round up by a half, and so each level adds at most a half.
    return int((int(scale * room) + level * 2.0 ** (level - 1)) / 2.0**level) + 1


@helper
def wrong_share(tables: Tables, q: int, room: float, level: int) -> float:
    """The share of random codes that cost query q more than ``room`` and yet pass its limit, as a normal
    distribution of what they cost has it."""
    most = _most(tables, q, level)
    if tables.unit[q] > 0.0 and most / room * tables.unit[q] >= 1.0:
        return 0.0
    if room == np.inf or tables.spread[q] == 0.0:
        return 1.0
    lost = 0.5 * FIELDS * (len(tables.columns) // COLUMNS) / most
    deviations = math.sqrt(2.0) * tables.spread[q]
    nearer = math.erfc((tables.mean[q] - room) / deviations)
    return 0.5 * (math.erfc((tables.mean[q] - (1.0 + lost) * room) / deviations) - nearer)


@helper
def passing_share(tables: Tables, q: int, room: float, level: int) -> float:
    """The share of random codes that pass the limit of query q, wanted or not."""
    if tables.spread[q] == 0.0:
        return 1.0
    nearer = 0.5 * math.erfc((tables.mean[q] - room) / (math.sqrt(2.0) * tables.spread[q]))
    return nearer + wrong_share(tables, q, room, level)


@helper
def _whole(scale: float, unit: float) -> float:
    """``scale``, lowered so that multiples of ``unit`` become whole numbers: equal weights lose nothing."""
    steps = np.floor(scale * unit)
    # The factor keeps floor() from falling one short; `room_below` has more to spare.
    return scale if steps < 1.0 else steps / unit * (1.0 + 1e-12)
