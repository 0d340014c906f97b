"""Locality-sensitive hashing against the collision probabilities of the papers."""

import numpy as np
import pytest

from cbid.coders import LSH, PStableLSH, ShiftInvariantLSH
from cbid.coders.rivals.lsh import neighbour_distance

T = 20_000


@pytest.mark.parametrize("angle", [0.1, 0.5, 1.5, 3.0])
def test_bits_differ_with_probability_angle_over_pi(angle):
    """T independent bits: the share that differ is within four deviations of angle / pi."""
    X = np.zeros((2, 5))
    X[0, 0], X[1, :2] = 3, (np.cos(angle), np.sin(angle))  # lengths do not matter
    bits = LSH(n_bits=T, center=False).fit(X).transform(X)
    p = angle / np.pi
    assert np.mean(bits[0] != bits[1]) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / T))


def test_angles_are_measured_around_the_mean_or_the_origin():
    X = np.random.default_rng(0).standard_normal((50, 4))
    around = LSH(n_bits=16).fit(X)
    np.testing.assert_array_equal(LSH(n_bits=16).fit(X + 100).transform(X + 100), around.transform(X))
    origin = LSH(n_bits=16, center=False).fit(X + 100)
    np.testing.assert_array_equal(origin.intercept_, 0)
    assert len(np.unique(origin.encode(X + 100), axis=0)) < len(np.unique(around.encode(X), axis=0))


def test_center_is_a_bool():
    with pytest.raises(ValueError, match="center='mean'"):
        LSH(center="mean").fit(np.eye(3))


@pytest.mark.parametrize("r", [0.3, 1.0, 2.5, 10.0])
@pytest.mark.parametrize("p", [1, 2])
def test_bits_differ_as_the_law_says(p, r):
    """At distance r the projections differ by r times a p-stable variable s, and parities differ by a triangle wave
    in r s / width, whose Fourier series has the law's characteristic function in it: exp(-u^2 / 2) or exp(-u)."""
    X = np.zeros((2, 3))
    X[1] = r / 3 if p == 1 else r / np.sqrt(3)
    coder = PStableLSH(n_bits=T, p=p, width=2.0).fit(X)
    bits = coder.transform(X)
    m = np.arange(1, 200, 2)
    u = m * np.pi * r / 2.0
    expected = 0.5 - 4 / np.pi**2 * np.sum((np.exp(-(u**2) / 2) if p == 2 else np.exp(-u)) / m**2)
    assert np.mean(bits[0] != bits[1]) == pytest.approx(expected, abs=4 * np.sqrt(0.25 / T))


def test_a_bit_is_the_parity_of_the_cell():
    X = np.random.default_rng(0).standard_normal((200, 3))
    coder = PStableLSH(n_bits=8, width=0.7).fit(X)
    cell = np.floor(X @ coder.coef_.T + coder.intercept_)
    np.testing.assert_array_equal(coder.transform(X), np.where(cell % 2 == 0, 1, -1))
    assert np.abs(coder.project(X)).max() <= 0.5


@pytest.mark.parametrize("p", [1, 2])
def test_the_width_is_four_distances_to_the_nearest(p):
    """Points 3 apart on a line, each there twice: copies do not count."""
    X = 3.0 * np.repeat(np.arange(30), 2)[:, None]
    assert PStableLSH(n_bits=2, p=p).fit(X).width_ == pytest.approx(12)


@pytest.mark.parametrize(
    ("params", "message"), [({"p": 3}, "p=3"), ({"width": 0.0}, "width=0.0"), ({}, "width=None")]
)
def test_wrong_settings_are_rejected(params, message):
    with pytest.raises(ValueError, match=message):
        PStableLSH(**params).fit(np.ones((5, 2)))


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


def test_the_kth_nearest_on_a_circle():
    """All points see the same: the nearest two are one step away, the next two two steps."""
    angle = 2 * np.pi * np.arange(60) / 60
    X = 5 * np.column_stack([np.cos(angle), np.sin(angle)]) + 100
    for k, steps in ((1, 1), (2, 1), (3, 2), (59, 30), (500, 30)):
        expected = 10 * np.sin(np.pi * steps / 60)
        assert neighbour_distance(X, k, name="r", rng=np.random.default_rng(0)) == pytest.approx(expected)
    one_more = np.vstack([X, X[:10]])
    assert neighbour_distance(one_more, 1, name="r", rng=np.random.default_rng(0)) == pytest.approx(
        10 * np.sin(np.pi / 60)
    )


def test_one_point_has_no_distance():
    with pytest.raises(ValueError, match="r=None"):
        neighbour_distance(np.ones((5, 2)), 1, name="r", rng=np.random.default_rng(0))
