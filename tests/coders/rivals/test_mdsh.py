"""Multidimensional spectral hashing: the affinity that its codes rebuild."""

import itertools

import numpy as np
import pytest

from cbid import codes
from cbid.coders import MultidimensionalSpectralHashing


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
    with pytest.raises(ValueError, match=r"n_bits=50 .* 1 axes, whose grids hold 49"):
        MultidimensionalSpectralHashing(n_bits=50, sigma=1.0).fit(X[:, :1])
    for params, message in (({"sigma": -1.0}, "sigma=-1.0"), ({"outer": "yes"}, "outer='yes'")):
        with pytest.raises(ValueError, match=message):
            MultidimensionalSpectralHashing(**params).fit(X)
