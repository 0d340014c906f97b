"""Confidence intervals of a mean over repeats, and tests whether two methods differ."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_real


@dataclass(frozen=True)
class Interval:
    """A mean and the ends of its confidence interval, which are NaN for one value."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Mean of a - b over repeats with its interval, and the p-value of the difference."""

    difference: Interval
    p: float


def confidence_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Return Student's interval for the mean of values (n,), one for each repeat."""
    from scipy.stats import t

    check_real("level", level, 0, 1, open_below=True)
    v = _values("values", values)
    if len(v) == 1:
        return Interval(float(v[0]), np.nan, np.nan)
    half = t.ppf((1 + level) / 2, len(v) - 1) * v.std(ddof=1) / np.sqrt(len(v))
    return Interval(float(v.mean()), float(v.mean() - half), float(v.mean() + half))


def paired_test(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> Comparison:
    """Run Student's two-sided paired test of two methods on the same repeats; p is NaN for one repeat.

    Repeats that share training images are not independent, so p is somewhat too small.
    """
    from scipy.stats import t

    x, y = _values("a", a), _values("b", b)
    if len(x) != len(y):
        raise ValueError(f"a has {len(x)} values, b {len(y)}: expected one for each repeat")
    interval = confidence_interval(x - y, level)
    if len(x) == 1:
        return Comparison(interval, np.nan)
    error = (x - y).std(ddof=1) / np.sqrt(len(x))
    if error == 0:
        return Comparison(interval, 1.0 if interval.mean == 0 else 0.0)
    return Comparison(interval, float(2 * t.sf(abs(interval.mean) / error, len(x) - 1)))


def mcnemar_test(truth: ArrayLike, a: ArrayLike, b: ArrayLike) -> float:
    """Return the exact two-sided p-value of McNemar's test: two classifiers are right equally often.

    Only samples that exactly one of them gets right count; under the null hypothesis each is a fair coin.
    """
    from scipy.stats import binomtest

    true, first, second = (np.asarray(v) for v in (truth, a, b))
    if not true.shape == first.shape == second.shape or true.ndim != 1:
        raise ValueError(f"truth {true.shape}, a {first.shape}, b {second.shape}: expected three arrays (n,)")
    only_first = int(np.sum((first == true) & (second != true)))
    only_second = int(np.sum((second == true) & (first != true)))
    if only_first + only_second == 0:
        return 1.0
    return float(binomtest(only_first, only_first + only_second).pvalue)


def _values(name: str, values: ArrayLike) -> NDArray[Any]:
    v = np.asarray(values, dtype=float)
    if v.ndim != 1 or not len(v):
        raise ValueError(f"{name} {v.shape}: expected (n,), n at least 1")
    return v
