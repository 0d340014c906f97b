"""Shift-invariant codes against the kernel's closed form."""

import numpy as np
import pytest

from cbid.coders import ShiftInvariantLSH

T = 20_000


@pytest.mark.parametrize("r", [0.2, 0.7, 1.5, 5.0])
def test_bits_differ_as_the_kernel_says(r):
    """8/pi^2 sum_m (1 - K(m r)) / (4 m^2 - 1), with K(r) = exp(-gamma r^2) (eq. 9 of the paper)."""
    gamma = 0.8
    X = np.zeros((2, 4))
    X[1, 2] = r
    bits = ShiftInvariantLSH(n_bits=T, gamma=gamma).fit(X).transform(X)
    m = np.arange(1, 5000)
    expected = 8 / np.pi**2 * np.sum((1 - np.exp(-gamma * (m * r) ** 2)) / (4 * m**2 - 1))
    assert np.mean(bits[0] != bits[1]) == pytest.approx(expected, abs=4 * np.sqrt(0.25 / T))


def test_the_width_is_that_of_the_fiftieth_neighbour():
    """On a circle of 1,000 points the 50th nearest is 25 steps away, at the same distance for all."""
    angle = 2 * np.pi * np.arange(1000) / 1000
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    r = 2 * np.sin(np.pi * 25 / 1000)
    assert ShiftInvariantLSH(n_bits=2).fit(X).bandwidth_ == pytest.approx(1 / (2 * r**2), rel=1e-6)


def test_gamma_is_positive():
    with pytest.raises(ValueError, match="gamma=0"):
        ShiftInvariantLSH(gamma=0).fit(np.eye(3))
