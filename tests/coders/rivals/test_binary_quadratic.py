"""Descent over bits: never uphill, no better flip at the end, and often the optimum."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cbid.coders.rivals.binary_quadratic import descend, energy


def problem(seed, n):
    rng = np.random.default_rng(seed)
    Q = rng.standard_normal((n, n))
    return Q + Q.T, rng.standard_normal(n), np.sign(rng.standard_normal(n))


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_ends_no_higher_where_no_flip_lowers_the_energy(seed, n):
    Q, p, start = problem(seed, n)
    b = descend(Q, p, start)
    assert set(np.abs(b)) == {1.0}
    assert energy(Q, p, b) <= energy(Q, p, start) + 1e-9
    for i in range(n):
        flipped = b.copy()
        flipped[i] *= -1
        assert energy(Q, p, flipped) >= energy(Q, p, b) - 1e-6


def test_attractive_pairs_with_a_common_pull_reach_the_optimum():
    """All pairs attract and all bits are pulled down: every start ends at -1 everywhere, the optimum of all 2^6."""
    Q, p = -np.ones((6, 6)), np.full(6, 0.5)
    best = min(product([-1.0, 1.0], repeat=6), key=lambda b: energy(Q, p, np.array(b)))
    assert best == (-1.0,) * 6
    np.testing.assert_array_equal(descend(Q, p, np.array([1.0, -1, -1, -1, -1, 1])), best)


def test_inputs_are_left_alone():
    Q, p, start = problem(0, 5)
    copies = Q.copy(), start.copy()
    descend(Q, p, start)
    np.testing.assert_array_equal(Q, copies[0])
    np.testing.assert_array_equal(start, copies[1])
