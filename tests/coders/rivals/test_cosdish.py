"""COSDISH: sampled columns of the similarity, and descent over bits."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbid.coders import COSDISH
from cbid.coders.rivals.sdh import Columns, descend, energy, improve_drawn
from tests.coders.blobs import blobs

X, Y = blobs(n=50, d=4, k=4)
DRAWN = np.array([3, 7, 8, 20, 41])
REST = np.setdiff1d(np.arange(50), DRAWN)


@pytest.fixture
def columns():
    return Columns(Y, DRAWN, REST, 4)


def dense(columns):
    return np.where(Y[:, None] == Y[DRAWN], 1.0, -columns.other)


def test_columns_add_up_to_zero_and_are_the_dense_ones(columns):
    S = dense(columns)
    assert abs(S.sum()) < 1e-9
    rng = np.random.default_rng(0)
    V, U = rng.standard_normal((5, 3)), rng.standard_normal((45, 3))
    np.testing.assert_allclose(columns.among_drawn(), S[DRAWN])
    np.testing.assert_allclose(columns.among_rest(V), S[REST] @ V)
    np.testing.assert_allclose(columns.from_rest(U), S[REST].T @ U)


@pytest.mark.parametrize("seed", range(5))
def test_one_bit_never_raises_its_objective(columns, seed):
    """||S_rest - B_rest b'||^2 + ||S_drawn - b b'||^2 for one bit."""
    S = dense(columns)

    def value(B):
        return np.sum((S - B @ B[DRAWN].T) ** 2)

    B = np.sign(np.random.default_rng(seed).standard_normal((50, 1)))
    before, rest = value(B), B[REST].copy()
    improve_drawn(columns, B, 1)
    np.testing.assert_array_equal(B[REST], rest)
    assert value(B) <= before + 1e-9


def test_later_bits_explain_what_earlier_ones_left(columns):
    """Bits of the drawn samples against the greedy problem of each, by hand."""
    S, t = dense(columns), 3
    B = np.sign(np.random.default_rng(7).standard_normal((50, t)))
    start = B.copy()
    improve_drawn(columns, B, t)
    for k in range(t):
        left = t * S - B[:, :k] @ B[DRAWN, :k].T  # rest and drawn, given the bits before

        def value(b, k=k, left=left):
            whole = start[:, k].copy()
            whole[DRAWN] = b
            return np.sum((left - np.outer(whole, b)) ** 2)

        assert value(B[DRAWN, k]) <= value(start[DRAWN, k]) + 1e-9
        for i in range(5):
            flipped = B[DRAWN, k].copy()
            flipped[i] *= -1
            assert value(flipped) >= value(B[DRAWN, k]) - 1e-9


def test_bits_of_a_class_agree_and_classes_differ():
    """With classes far apart, codes of one class are one code, and classes differ in about half of the bits."""
    X, y = blobs(n=80, d=8, k=4, apart=8.0)
    bits = COSDISH(n_bits=32).fit(X, y).transform(X).astype(float)
    distances = (1 - bits @ bits.T / 32) / 2
    same = y[:, None] == y
    assert distances[same].mean() < 0.02
    assert 0.35 < distances[~same].mean() < 0.75


def test_more_columns_than_samples():
    assert COSDISH(n_bits=64).fit(X, Y).transform(X).shape == (50, 64)
    assert COSDISH(n_bits=4, n_columns=500).fit(X, Y).transform(X).shape == (50, 4)


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
