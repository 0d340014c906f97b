"""How sharp the lower bounds are: the parts of a code, the limit that goes with them, and the choice of a level.

Sums are bytes. Every table entry is rounded down and loses half a unit on average, so a bound is sharper if a
distance has more units. At *level* 0 there is one sum for the whole code, which saturates just above the limit. At
level l there are 2**l sums, of parts of about equal cost, and 2**l times the units. Their average, formed two by two
(``vpavgb``), is compared with the limit. This takes a few instructions per part. The scale is chosen so that the
parts of a code at the limit seldom saturate, because saturation loses cost.

More parts take longer to add; fewer let more codes pass that are too far. How many pass is predicted from the
weights, for random codes. If the stored codes are different, the count in the last chunk overrides the prediction.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.compile import helper, lean
from cbid.search.kernels.tables import LEVELS, Tables, budget_below, quantise
from cbid.search.kernels.vectors import AT_ONCE, COLUMNS, FIELDS

WHOLE_MOST = 254.0
# The sum of the costliest part of a code at the limit, if its cost is proportional to that of the other parts. If all
# weights are equal, whole numbers (which lose nothing) matter more than parts that saturate.
PART_MOST, EQUAL_PART_MOST = 200.0, 230.0

Numbers = NDArray[np.int64]


# ---- limits ----


@lean
def _most(tables: Tables, q: int, level: int) -> float:
    """The largest sum of all parts that the tables of this level are made for."""
    if level == 0:
        return WHOLE_MOST
    return (EQUAL_PART_MOST if tables.unit[q] > 0.0 else PART_MOST) / max(tables.costliest[level], 2.0**-level)


@lean
def sum_limit(tables: Tables, q: int, budget: float, level: int, n_blocks: int) -> int:
    """The limit below which the averages of parts of query q stay if the excess is at most ``budget``.

    Rebuilds the tables if their scale belongs to another level, or wastes too much of the range of the sums for a
    scan of ``n_blocks``.
    """
    used = 0.85 if n_blocks >= 64 else 0.6
    most = _most(tables, q, level)
    if not used * most <= tables.scale[q] * budget <= most * (1.0 + 1e-9):
        scale = 0.0 if budget == np.inf else _whole(most / budget, tables.unit[q])
        if scale != tables.scale[q]:
            tables.scale[q] = scale
            whole = tables.unit[q] * scale >= 1.0
            quantise(tables.columns, tables.excess[q], tables.preferred[q], whole, scale, tables.quantised[q])
        if scale == 0.0:  # all costs are zero, and all codes pass
            return 1
    return limit_within(tables.scale[q], budget, level)


@lean
def limit_within(scale: float, budget: float, level: int) -> int:
    """The limit below which the averages of parts stay, for tables of this scale and an excess up to ``budget``."""
    # Each average may round up by a half, so each level adds at most a half.
    return int((int(scale * budget) + level * 2.0 ** (level - 1)) / 2.0**level) + 1


@lean
def _whole(scale: float, unit: float) -> float:
    """``scale``, lowered so that multiples of ``unit`` become whole numbers: equal weights lose nothing."""
    steps = np.floor(scale * unit)
    # The factor keeps floor() from being one too small; `budget_below` has a larger margin.
    return scale if steps < 1.0 else steps / unit * (1.0 + 1e-12)


# ---- how many random codes pass, by a normal distribution of their excess ----


@lean
def _false_share(tables: Tables, q: int, budget: float, level: int) -> float:
    """The share of random codes that pass the limit of query q although their excess is above ``budget``."""
    most = _most(tables, q, level)
    if tables.unit[q] > 0.0 and most / budget * tables.unit[q] >= 1.0:
        return 0.0
    if budget == np.inf or tables.deviation[q] == 0.0:
        return 1.0
    lost = 0.5 * FIELDS * (len(tables.columns) // COLUMNS) / most
    deviations = math.sqrt(2.0) * tables.deviation[q]
    nearer = math.erfc((tables.mean[q] - budget) / deviations)
    return 0.5 * (math.erfc((tables.mean[q] - (1.0 + lost) * budget) / deviations) - nearer)


@lean
def passing_share(tables: Tables, q: int, budget: float, level: int) -> float:
    """The share of random codes that pass the limit of query q."""
    if tables.deviation[q] == 0.0:
        return 1.0
    nearer = 0.5 * math.erfc((tables.mean[q] - budget) / (math.sqrt(2.0) * tables.deviation[q]))
    return nearer + _false_share(tables, q, budget, level)


# ---- the level of a group of queries ----


class Plans(NamedTuple):
    """The level of each group, at the place of its first query; blocks are counted from the first of the scan."""

    level: Numbers  # (q,)
    until: Numbers  # (q,) the block at which it is chosen again
    too_loose: Numbers  # (q, LEVELS + 1) the block until which a level is excluded


@helper
def make_plans(n_queries: int) -> Plans:
    """Make empty plans."""
    return Plans(
        np.zeros(n_queries, np.int64), np.zeros(n_queries, np.int64), np.zeros((n_queries, LEVELS + 1), np.int64)
    )


@lean
def _candidate_cost(tables: Tables) -> float:
    """The time of the exact distance of a candidate, relative to adding the sum of one part to the average."""
    return 1300.0 + 8.0 * tables.excess.shape[1]


@lean
def _enough_steps(tables: Tables, parts: int) -> bool:
    """Whether ``parts`` parts have several steps each; with fewer, they only take time."""
    return parts == 1 or AT_ONCE * parts <= len(tables.offsets) // COLUMNS


@lean
def plan_level(plans: Plans, q: int, tables: Tables, threshold: np.float32, first: int) -> None:
    """Choose the level for the blocks from ``first`` on."""
    budget = budget_below(threshold, tables.base[q])
    best, cheapest = 0, np.inf
    parts = 1
    for level in range(LEVELS + 1):
        if cheapest <= parts or not _enough_steps(tables, parts):
            break
        if plans.too_loose[q, level] <= first:
            share = 0.0 if budget <= 0.0 else _false_share(tables, q, budget, level)
            cost = (parts if level > 0 else 0) + share * _candidate_cost(tables)
            if cost < cheapest:
                best, cheapest = level, cost
        parts *= 2
    plans.level[q], plans.until[q] = best, first + first // 4 + 1


@lean
def judge_level(plans: Plans, q: int, tables: Tables, n_false: float, first: int, last: int) -> None:
    """Exclude the level for a while if more parts would have been faster in blocks first <= b < last.

    ``n_false`` is the number of false candidates per query; twice the parts about halve it. The share of false
    candidates falls about as 1 / (codes seen), like the number of codes nearer than the threshold.
    """
    level = plans.level[q]
    excess = n_false / (32.0 * (last - first)) * _candidate_cost(tables) / (4.0 * 2.0**level)
    if excess > 1.0 and level < LEVELS and _enough_steps(tables, 2 ** (level + 1)):
        plans.too_loose[q, : level + 1] = last + int(last * min(excess, 1e6))
        plans.until[q] = last
