"""Which level of bounds (see `_sums`) a group of queries is scanned with.

More parts take longer to add up; fewer let more codes pass that turn out not to be wanted. How many, the weights tell
beforehand for random codes. Where stored codes are not like that, what was seen in the last chunk overrules it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.compile import helper
from cbid.search.kernels.registers import AT_ONCE, COLUMNS
from cbid.search.kernels.sums import wrong_share
from cbid.search.kernels.tables import LEVELS, Tables, room_below

__all__ = ["Plans", "judge_level", "make_plans", "plan_level"]

Numbers = NDArray[np.int64]


class Plans(NamedTuple):
    """One for the group from each query on; blocks are counted from the first one of the scan."""

    level: Numbers  # (q,)
    until: Numbers  # (q,) the block from which on it is chosen anew
    too_loose: Numbers  # (q, LEVELS + 1) the block up to which a level is not to be chosen


@helper
def make_plans(n_queries: int) -> Plans:
    return Plans(
        np.zeros(n_queries, np.int64), np.zeros(n_queries, np.int64), np.zeros((n_queries, LEVELS + 1), np.int64)
    )


@helper
def _candidate_cost(tables: Tables) -> float:
    """What the exact distance of a candidate costs, against adding the sum of one part to the average."""
    return 1300.0 + 8.0 * tables.excess.shape[1]


@helper
def _enough_steps(tables: Tables, parts: int) -> bool:
    """Whether so many parts have some steps each: one or none, and they only take time."""
    return parts == 1 or AT_ONCE * parts <= len(tables.offsets) // COLUMNS


@helper
def plan_level(plans: Plans, q: int, tables: Tables, threshold: np.float32, first: int) -> None:
    """Choose the level to scan the blocks from ``first`` on with."""
    room = room_below(threshold, tables.base[q])
    best, cheapest = 0, np.inf
    parts = 1
    for level in range(LEVELS + 1):
        if cheapest <= parts or not _enough_steps(tables, parts):
            break
        if plans.too_loose[q, level] <= first:
            share = 0.0 if room <= 0.0 else wrong_share(tables, q, room, level)
            cost = (parts if level > 0 else 0) + share * _candidate_cost(tables)
            if cost < cheapest:
                best, cheapest = level, cost
        parts *= 2
    plans.level[q], plans.until[q] = best, first + first // 4 + 1


@helper
def judge_level(plans: Plans, q: int, tables: Tables, wrong: float, first: int, last: int) -> None:
    """Rule out a level for a while that let so many ``wrong`` candidates a query pass in blocks first <= b < last
    that more parts, which about halve them, were cheaper.

    Their share falls about as 1 / (codes seen), with the number of codes nearer than the threshold.
    """
    level = plans.level[q]
    excess = wrong / (32.0 * (last - first)) * _candidate_cost(tables) / (4.0 * 2.0**level)
    if excess > 1.0 and level < LEVELS and _enough_steps(tables, 2 ** (level + 1)):
        plans.too_loose[q, : level + 1] = last + int(last * min(excess, 1e6))
        plans.until[q] = last
