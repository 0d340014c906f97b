"""Eigenfunctions along an axis against cosines, and the best products against all of them."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.coders.rivals.eigenfunctions import BINS, best_products, grid_eigenfunctions, histograms, interpolate


def test_uniform_density_has_cosines():
    """The smoothest functions of an interval [0, R] are cos(m pi x / R); of a Gaussian much narrower than R their
    eigenvalues are exp(-sigma^2 (m pi / R)^2 / 2), but for what the ends change."""
    R, sigma = 10.0, 0.4
    values, functions = grid_eigenfunctions(np.full((1, BINS), 1 / BINS), np.array([R / BINS]), sigma)
    x = (np.arange(BINS) + 0.5) / BINS
    for m in range(1, 6):
        cosine = np.cos(m * np.pi * x)
        assert abs(np.corrcoef(cosine, functions[0, m - 1])[0, 1]) > 0.99
        assert abs(values[0, m - 1] - np.exp(-((sigma * m * np.pi / R) ** 2) / 2)) < 0.02


def test_a_gap_in_the_density_is_where_the_first_function_changes_sign():
    density = np.full((1, BINS), 1e-6)
    density[0, :20] = density[0, 30:] = 1
    _, functions = grid_eigenfunctions(density / density.sum(), np.array([1 / BINS]), 0.05)
    sign = np.sign(functions[0, 0])
    assert (sign[:20] == sign[0]).all()
    assert (sign[30:] == -sign[0]).all()


def test_functions_are_orthonormal_under_their_measure():
    rng = np.random.default_rng(0)
    density = rng.random((3, BINS))
    density /= density.sum(axis=1, keepdims=True)
    step, sigma = np.array([0.1, 0.2, 0.3]), 0.5
    _, functions = grid_eigenfunctions(density, step, sigma)
    for p, h, g in zip(density, step, functions):
        W = np.exp(-((h * (np.arange(BINS)[:, None] - np.arange(BINS))) ** 2) / (2 * sigma**2))
        measure = p * (W @ p)
        measure /= measure.sum()
        np.testing.assert_allclose(g[:6] * measure @ g[:6].T, np.eye(6), atol=1e-8)
        np.testing.assert_allclose(g[:6] @ measure, 0, atol=1e-8)  # and to the constant


def test_histograms_keep_what_lies_outside_at_the_ends():
    P = np.array([[-5.0], [0.01], [0.5], [9.0]])
    density = histograms(P, np.zeros(1), np.ones(1))[0]
    np.testing.assert_allclose(density.sum(), 1)
    np.testing.assert_allclose(density[[0, BINS // 2, -1]], 0.9 * np.array([2, 1, 1]) / 4 + 0.1 / BINS)


def test_interpolation_is_linear_between_the_middles_of_bins():
    line = np.arange(BINS, dtype=float)[None] + 0.5
    x = np.array([[-3.0], [0.3], [0.505], [7.0]])
    expected = np.clip(x * BINS, 0.5, BINS - 0.5)
    np.testing.assert_allclose(interpolate(x, np.zeros(1), np.ones(1), line), expected)


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(0.01, 0.99), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(1, 30))
def test_the_best_products_of_all(values, count):
    """Against every choice of at most one function on each axis."""
    values = -np.sort(-np.array(values), axis=1)
    every = [
        np.prod([values[axis, j - 1] for axis, j in enumerate(chosen) if j])
        for chosen in itertools.product(range(4), repeat=len(values))
        if any(chosen)
    ]
    factors, products = best_products(values, count)
    np.testing.assert_allclose(products, np.sort(every)[::-1][:count])
    for row, product in zip(factors, products):
        used = row[row >= 0]
        assert len(set(used // 3)) == len(used) > 0  # different axes
        np.testing.assert_allclose(values.ravel()[used].prod(), product)
