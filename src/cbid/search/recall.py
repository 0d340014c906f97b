"""Promises of recall: the settings that are tested on sample queries, their order, and the test.

A setting is a number of candidates for the second look and, with IVF cells, a number of probes. A fixed-sequence
test takes settings from the safest to the cheapest, each at level delta, and stops at the first that fails. The
sequence must not depend on the sample. With cells, other queries choose it: see `frontier`.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass
class RecallPromise:
    """A setting with which the mean recall at k is at least ``recall``, with confidence 1 - delta."""

    k: int
    recall: float
    delta: float
    candidates: int
    n_queries: int
    stored_queries: bool  # calibrated on stored vectors, not on queries given for it
    valid: bool = True  # False once vectors were added or removed
    probes: int | None = None  # IVF cells to scan; None without cells


class Setting(NamedTuple):
    """A number of probes, as its place in the list of those that are considered, and a number of candidates."""

    place: int
    candidates: int


def geometric(largest: int, smallest: int) -> list[int]:
    """Return counts from ``largest`` down to ``smallest``, each about 16 % smaller than the one before."""
    counts = [largest]
    while counts[-1] > smallest:
        counts.append(max(min(int(counts[-1] / 2**0.25), counts[-1] - 1), smallest))
    return counts


def recall_losses(ranks: NDArray[np.int64], setting: Setting) -> NDArray[np.float64]:
    """Return the share of the true neighbours that each query misses (q,), from their ``ranks`` (probes, q, k)."""
    return (ranks[setting.place] >= setting.candidates).mean(axis=1)


def frontier(ranks: NDArray[np.int64], costs: NDArray[np.float64], counts: list[int]) -> list[Setting]:
    """Return the settings with a higher recall than every cheaper one, from the most expensive to the cheapest.

    ``ranks`` (probes, q, k) are of queries other than those of the test, and ``costs`` are (probes, counts).
    """
    found = np.array([[(at < count).mean() for count in counts] for at in ranks])
    order = np.lexsort((-found.ravel(), costs.ravel()))
    best = np.concatenate([[-1.0], np.maximum.accumulate(found.ravel()[order])[:-1]])
    chosen = order[found.ravel()[order] > best][::-1].tolist()
    return [Setting(at // len(counts), counts[at % len(counts)]) for at in chosen]


def queries_needed(recall: float, delta: float) -> int:
    """Return how many queries the test needs to promise ``recall``, if each finds all its neighbours."""
    return math.ceil(math.log(1 / delta) / math.log1p(1 - recall))


def p_value_of_mean(losses: NDArray[np.floating], limit: float, delta: float = 0.05) -> float:
    """Return a p-value of "the mean of the losses is at least ``limit``", for independent losses in [0, 1].

    A test by betting: the wealth prod_i (1 + v_i (limit - loss_i)), where the bet v_i in [0, 1] depends on earlier
    losses only, has an expectation of at most 1 if the mean loss is at least the limit. So it exceeds 1/p with
    probability at most p (Ville's inequality), for any number of losses. Small variances give small p-values.
    The bets are tuned for a test at level ``delta``; the p-value is valid at any level.

    References
    ----------
    Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 2024.
    """
    n = len(losses)
    earlier = np.arange(1, n + 1)
    means = (limit + np.concatenate([[0], np.cumsum(losses)[:-1]])) / earlier  # of the losses before each
    squares = np.concatenate([[0], np.cumsum((losses - means) ** 2)[:-1]])
    variances = (limit * (1 - limit) + squares) / earlier
    bets = np.minimum(np.sqrt(2 * math.log(1 / delta) / (n * np.maximum(variances, 1e-12))), 1)
    wealth = np.cumsum(np.log1p(bets * (limit - losses)))
    return float(np.exp(-max(wealth.max(initial=0), 0)))
