"""Random hyperplanes against their law."""

import numpy as np
import pytest

from cbid.coders import LSH

T = 20_000


@pytest.mark.parametrize("angle", [0.1, 0.5, 1.5, 3.0])
def test_bits_differ_with_probability_angle_over_pi(angle):
    """T independent bits: the share that differ is within four deviations of angle / pi."""
    X = np.zeros((2, 5))
    X[0, 0], X[1, :2] = 3, (np.cos(angle), np.sin(angle))  # lengths do not matter
    bits = LSH(n_bits=T, center=False).fit(X).transform(X)
    p = angle / np.pi
    assert np.mean(bits[0] != bits[1]) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / T))


def test_angles_are_measured_around_the_mean_unless_told_otherwise():
    X = np.random.default_rng(0).standard_normal((50, 4))
    around = LSH(n_bits=16).fit(X)
    np.testing.assert_array_equal(LSH(n_bits=16).fit(X + 100).transform(X + 100), around.transform(X))
    origin = LSH(n_bits=16, center=False).fit(X + 100)
    np.testing.assert_array_equal(origin.intercept_, 0)
    assert len(np.unique(origin.encode(X + 100), axis=0)) < len(np.unique(around.encode(X), axis=0))


def test_center_is_a_bool():
    with pytest.raises(ValueError, match="center='mean'"):
        LSH(center="mean").fit(np.eye(3))
