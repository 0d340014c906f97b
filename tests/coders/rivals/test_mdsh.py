"""Multidimensional spectral hashing: the affinity that its codes rebuild, and the eigenfunctions."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid import codes
from cbid.coders import MultidimensionalSpectralHashing
from cbid.coders.rivals.spectral import BINS, best_products, grid_eigenfunctions, histograms, interpolate


@pytest.fixture
def X():
    """Uniform in a box, so that the axes are independent."""
    return np.random.default_rng(0).random((4000, 3)) * [4.0, 3.0, 2.0]


def test_functions_of_single_axes_by_their_eigenvalues(X):
    """On an interval R the Gaussian's eigenvalues are near exp(-sigma^2 (m pi / R)^2 / 2), R being the axis less its
    5 % of outliers: for sigma = .3 about .97 and .90 along the width of 4, .95 along 3 and .89 along 2."""
    coder = MultidimensionalSpectralHashing(n_bits=4, sigma=0.3).fit(X)
    ranges = coder.high_ - coder.low_
    axis = coder.axis_[coder.factors_[:, 0]]
    assert [round(float(r)) for r in ranges[axis][:3]] == [4, 3, 4]
    modes = np.array([1, 1, 2])
    np.testing.assert_allclose(
        coder.weights_[:3], np.exp(-(0.3**2) * (modes * np.pi / ranges[axis][:3]) ** 2 / 2), atol=0.02
    )
    assert (np.diff(coder.weights_) <= 0).all()


def test_the_affinity_sums_over_all_products_of_axes(X):
    """product over axes of (1 + sum) - 1 has a term for every choice of at most one bit on each axis."""
    coder = MultidimensionalSpectralHashing(n_bits=7, sigma=0.5).fit(X)
    axis = coder.axis_[coder.factors_[:, 0]]
    bits = coder.transform(X[:20]).astype(float)
    expected = np.zeros((20, 20))
    by_axis = [[None, *np.flatnonzero(axis == j)] for j in range(3)]
    for chosen in itertools.product(*by_axis):
        chosen = [s for s in chosen if s is not None]
        if chosen:
            h = bits[:, chosen].prod(axis=1)
            expected += coder.weights_[chosen].prod() * np.outer(h, h)
    packed = coder.encode(X[:20])
    np.testing.assert_allclose(coder.affinity(packed, packed), expected)


def test_with_products_as_bits_weighted_hamming_distance_is_the_affinity(X):
    """sum w h h' = sum w - 2 sum of w over bits that differ."""
    coder = MultidimensionalSpectralHashing(n_bits=24, sigma=0.5, outer=True).fit(X)
    assert coder.factors_.shape[1] > 1
    packed = coder.encode(X[:30])
    distance = codes.weighted_hamming(packed, packed, coder.weights_)
    np.testing.assert_allclose(coder.affinity(packed, packed), coder.weights_.sum() - 2 * distance, atol=1e-5)


def test_products_of_functions_are_products_of_bits(X):
    coder = MultidimensionalSpectralHashing(n_bits=24, sigma=0.5, outer=True).fit(X)
    bits = coder.transform(X)
    singles = {f[0]: s for s, f in enumerate(coder.factors_) if (f >= 0).sum() == 1}
    compared = 0
    for s, factors in enumerate(coder.factors_):
        found = [singles.get(f) for f in factors[factors >= 0]]
        if len(found) > 1 and None not in found:
            np.testing.assert_array_equal(bits[:, s], bits[:, found].prod(axis=1))
            assert coder.weights_[s] == pytest.approx(coder.weights_[found].prod())
            compared += 1
    assert compared > 5
    # Products take the places of weaker functions of single axes.
    assert coder.weights_[-1] > MultidimensionalSpectralHashing(n_bits=24, sigma=0.5).fit(X).weights_[-1]


@pytest.mark.parametrize("outer", [False, True])
def test_the_affinity_follows_the_kernel(X, outer):
    """With more bits the affinity of codes correlates with exp(-||x - y||^2 / 2 sigma^2) more."""
    sample, sigma = X[:200], 0.7
    wanted = np.exp(-((sample[:, None] - sample) ** 2).sum(axis=2) / (2 * sigma**2))[np.triu_indices(200, 1)]

    def correlation(n_bits):
        coder = MultidimensionalSpectralHashing(n_bits=n_bits, sigma=sigma, outer=outer).fit(X)
        packed = coder.encode(sample)
        return np.corrcoef(coder.affinity(packed, packed)[np.triu_indices(200, 1)], wanted)[0, 1]

    assert correlation(3) < correlation(12) - 0.05
    assert correlation(32) > 0.7


def test_limits_and_settings(X):
    with pytest.raises(ValueError, match=r"n_bits=50\b.*\b49\b"):
        MultidimensionalSpectralHashing(n_bits=50, sigma=1.0).fit(X[:, :1])
    for params, message in (({"sigma": -1.0}, "sigma=-1.0"), ({"outer": "yes"}, "outer='yes'")):
        with pytest.raises(ValueError, match=message):
            MultidimensionalSpectralHashing(**params).fit(X)


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
