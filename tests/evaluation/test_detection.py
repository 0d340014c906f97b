"""Log-average detection rate on curves whose answer is known."""

import numpy as np
import pytest

from cbid.evaluation import log_average_detection_rate


def test_a_flat_curve_has_its_own_height():
    assert log_average_detection_rate([0.001, 1.0], [0.7, 0.7]) == pytest.approx(0.7)


def test_a_step_counts_the_reference_rates_behind_it():
    """References are 10^(-2 + i/4): five of nine are at least 0.1, where the rate rises from 0.2 to 0.8."""
    assert log_average_detection_rate([0.01, 0.1], [0.2, 0.8]) == pytest.approx((4 * 0.2 + 5 * 0.8) / 9)


def test_no_point_in_reach_counts_as_nothing():
    """The only point lies at 0.5 false positives an image, within reach of the last two references (0.56 and 1)."""
    assert log_average_detection_rate([0.5], [0.9]) == pytest.approx(2 * 0.9 / 9)
    assert log_average_detection_rate([], []) == 0


def test_a_better_curve_is_never_worse():
    rng = np.random.default_rng(0)
    x, y = np.sort(rng.random(30)), np.sort(rng.random(30))
    assert log_average_detection_rate(x, y + 0.1) >= log_average_detection_rate(x, y)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"false_positives \(2,\)"):
        log_average_detection_rate([0.1, 0.2], [0.5])
