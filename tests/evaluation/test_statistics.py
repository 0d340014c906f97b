"""Intervals and tests against scipy, and by hand."""

import numpy as np
import pytest
from scipy import stats

from cbid.evaluation import confidence_interval, mcnemar_test, paired_test


def test_the_interval_is_scipys():
    values = np.random.default_rng(0).normal(size=7)
    found = confidence_interval(values, 0.9)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (found.mean, found.low, found.high) == pytest.approx((values.mean(), expected.low, expected.high))


def test_it_covers_the_mean_as_often_as_it_says():
    """2,000 draws of five values: the share of intervals that hold the true mean is binomial around the level."""
    draws = np.random.default_rng(0).normal(3.0, size=(2000, 5))
    covered = np.mean([i.low <= 3 <= i.high for i in map(confidence_interval, draws)])
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 2000)


def test_the_paired_test_is_scipys():
    a, b = np.random.default_rng(0).normal(size=(2, 6))
    found = paired_test(a, b)
    expected = stats.ttest_rel(a, b)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.difference.low == pytest.approx(expected.confidence_interval().low)


def test_differences_without_spread():
    assert paired_test([1.0, 2.0], [1.0, 2.0]).p == 1
    assert paired_test([2.0, 3.0], [1.0, 2.0]).p == 0
    alone = paired_test([2.0], [1.0])
    assert alone.difference.mean == 1
    assert np.isnan([alone.p, alone.difference.low]).all()


def test_mcnemar_by_hand():
    """a alone is right five times, b alone never: two tails of five heads in a row, 2 / 32."""
    truth, a, b = [1] * 8, [1, 1, 1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 0, 1, 0, 1]
    assert mcnemar_test(truth, a, b) == pytest.approx(2 / 32)
    assert mcnemar_test(truth, a, a) == 1


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="a has 2 values, b 1"):
        paired_test([1, 2], [1])
    with pytest.raises(ValueError, match=r"values \("):
        confidence_interval([])
    with pytest.raises(ValueError, match="level=1"):
        confidence_interval([1, 2], 1.0)
    with pytest.raises(ValueError, match=r"truth \(1,\)"):
        mcnemar_test([1], [1, 2], [1, 2])
