"""Cells of p-stable projections against their law."""

import numpy as np
import pytest

from cbid.coders import PStableLSH

T = 20_000


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
    ("params", "message"), [({"p": 3}, "p=3"), ({"width": 0.0}, "width=0.0"), ({}, "give width")]
)
def test_what_is_not_accepted(params, message):
    with pytest.raises(ValueError, match=message):
        PStableLSH(**params).fit(np.ones((5, 2)))
