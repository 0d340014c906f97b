"""Spectral hashing on boxes, whose eigenfunctions are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.coders import SpectralHashing
from cbid.coders.rivals.spectral import smoothest_modes


def box(a, b, n=40):
    """A grid over a rectangle of sides a > b."""
    x, y = np.meshgrid(np.linspace(0, a, n), np.linspace(0, b, n))
    return np.column_stack([x.ravel(), y.ravel()])


def test_eigenfunctions_come_in_the_order_of_their_eigenvalues():
    """Sides 2.5 and 1: frequencies m / R are .4, .8, 1.2, 1.6 and 2 along the long side, 1 and 2 along the short."""
    coder = SpectralHashing(n_bits=5).fit(box(2.5, 1))
    assert coder.axis_.tolist() == [0, 0, 1, 0, 0]
    assert coder.mode_.tolist() == [1, 2, 1, 3, 4]


def test_bits_are_signs_of_cosines():
    """Along an interval, mode m changes its sign m times, at odd multiples of R / 2m."""
    X = box(2.5, 1)
    bits = SpectralHashing(n_bits=5).fit(X).transform(X)
    expected = [np.cos(np.pi * m * X[:, j] / r) for j, m, r in ((0, 1, 2.5), (0, 2, 2.5), (1, 1, 1), (0, 3, 2.5))]
    for bit, value in zip(bits.T, expected):
        clear = np.abs(value) > 1e-6
        agree = bit[clear] == np.sign(value[clear])
        assert agree.all() or not agree.any()  # an axis may point the other way; odd modes then turn


@settings(deadline=None)
@given(st.lists(st.floats(0.05, 10), min_size=1, max_size=6), st.integers(1, 40))
def test_no_smoother_mode_is_left_out(ranges, count):
    ranges = np.array(ranges)
    axis, mode = smoothest_modes(ranges, count)
    frequency = mode / ranges[axis]
    assert len(set(zip(axis, mode))) == count
    assert (np.diff(frequency) >= 0).all()
    everything = np.sort((np.arange(1, count + 1) / ranges[:, None]).ravel())[:count]
    np.testing.assert_allclose(frequency, everything)


def test_more_bits_than_axes():
    X = np.linspace(0, 1, 64)[:, None]
    bits = SpectralHashing(n_bits=8).fit(X).transform(X)
    np.testing.assert_array_equal((np.diff(bits, axis=0) != 0).sum(axis=0), np.arange(1, 9))


def test_nothing_to_learn_from():
    with pytest.raises(ValueError, match="X"):
        SpectralHashing().fit(np.ones((4, 2)))
