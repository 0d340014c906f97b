"""How the load benchmark tells flat memory from growing memory."""

import numpy as np
import pytest

from benchmarks.service_load import is_flat, trend


def test_the_slope_of_a_line():
    """600 s with two measurements a second, 3 MiB a minute: the last half has the same slope and no error."""
    found = trend(400 + 3 * np.arange(1200) / 120, 600)
    assert found["per_minute"] == pytest.approx(3)
    assert found["standard_error"] == pytest.approx(0, abs=1e-9)
    assert found["mean"] == pytest.approx(400 + 3 * 7.5, abs=0.1)
    assert not is_flat(found)  # 0.7 percent


def test_a_warm_up_in_the_first_half_does_not_count():
    sizes = np.r_[np.linspace(200, 460, 600), np.full(600, 460.0)]
    assert trend(sizes, 600)["per_minute"] == pytest.approx(0)
    assert is_flat(trend(sizes, 600))


def test_noise_is_flat_and_steps_are_not():
    """The run of 0.1.0 rose in steps from 460 to 495 MiB in its last half."""
    rng = np.random.default_rng(0)
    assert is_flat(trend(rng.normal(460, 3, 1200), 600))
    steps = np.r_[np.full(600, 460.0), np.repeat([460, 468, 470, 475, 482, 495], 100)]
    assert not is_flat(trend(steps, 600))


def test_too_few_measurements_have_no_trend():
    assert trend([1.0] * 30, 15) is None
