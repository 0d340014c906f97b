"""Spline-regression hashing, and spline energies against scipy's splines."""

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator
from sklearn.datasets import load_digits

from cbid.coders import PCASign, SplineRegressionHashing
from cbid.coders.rivals.common import nearest_others
from cbid.coders.rivals.spline import _tangents, spline_energy


@pytest.fixture(scope="module")
def X():
    return load_digits().data[:150, 10:40]


def test_hyperplanes_are_regressions_of_the_smallest_eigenvectors(X):
    """min over W of ||Y - Z W||^2 + g ||W||^2 is tr Y'(H - Z (Z'Z + g I)^-1 Z')Y: with the splines' M, a dense matrix
    whose eigenvectors, but the constant, are Y."""
    n = len(X)
    coder = SplineRegressionHashing(n_bits=4, n_neighbors=8, mu=2.0, gamma=0.05).fit(X)
    M = spline_energy(X, np.hstack([np.arange(n)[:, None], nearest_others(X, 8)]), n_tangent=2, ridge=0.1).toarray()
    Z = X - X.mean(axis=0)
    Z = Z / np.sqrt(np.mean(Z**2))
    inverse = np.linalg.inv(Z.T @ Z + 0.05 * n * np.eye(Z.shape[1]))
    centring = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(M + 2.0 * (centring - Z @ inverse @ Z.T) + 1e3 / n)  # the constant moved away
    W = inverse @ Z.T @ vectors[:, :4]
    cosine = np.sum(coder.coef_.T * W, axis=0) / np.linalg.norm(coder.coef_, axis=1) / np.linalg.norm(W, axis=0)
    np.testing.assert_allclose(np.abs(cosine), 1, rtol=1e-5)
    assert (np.diff(values[:5]) > 0).all()


def test_with_the_regression_alone_bits_are_principal_components(X):
    """For mu without end M does not count, and the directions of largest variance are regressed best."""
    bits = SplineRegressionHashing(n_bits=3, mu=1e6).fit(X).transform(X)
    components = PCASign(n_bits=3).fit(X).transform(X)
    np.testing.assert_allclose(np.abs(np.mean(bits * components, axis=0)), 1, atol=0.05)


def test_a_part_of_the_samples_will_do(X):
    whole = SplineRegressionHashing(n_bits=3).fit(X)
    part = SplineRegressionHashing(n_bits=3, max_samples=100).fit(X)
    assert part.transform(X).shape == whole.transform(X).shape
    assert not np.array_equal(part.coef_, whole.coef_)


def test_limits_and_settings(X):
    with pytest.raises(ValueError, match=r"n_bits=9\b.*\b8\b"):
        SplineRegressionHashing(n_bits=9).fit(X[:10])
    for params, message in (
        ({"n_tangent": 4}, "n_tangent=4"),
        ({"ridge": 0}, "ridge=0"),
        ({"mu": 0}, "mu=0"),
        ({"gamma": 0}, "gamma=0"),
        ({"n_neighbors": 0}, "n_neighbors=0"),
    ):
        with pytest.raises(ValueError, match=message):
            SplineRegressionHashing(**params).fit(X)


KERNELS = {1: "cubic", 2: "thin_plate_spline", 3: "linear"}


@pytest.mark.parametrize("p", [1, 2, 3])
def test_energy_is_that_of_scipys_spline(p):
    """A smoothing spline s with coefficients a has y - s = ridge a, so that its fit and bending energy,
    ||y - s||^2 + ridge a'A a, come to ridge a'y = (y - s)'y."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((9, 4)), rng.standard_normal(9)
    M = spline_energy(X, np.arange(9)[None], n_tangent=p, ridge=0.3).toarray()
    T = _tangents(X[None], p)[0]
    s = RBFInterpolator(T, y, kernel=KERNELS[p], smoothing=0.3, degree=1)(T)
    assert y @ M @ y == pytest.approx((y - s) @ y)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_linear_functions_are_free_and_nothing_costs_more_than_its_size(p):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, p))  # the neighbourhoods' own axes span the space
    near = np.argsort(((X[:, None] - X) ** 2).sum(axis=2), axis=1)[:, :8]
    M = spline_energy(X, near, n_tangent=p, ridge=0.1)
    np.testing.assert_allclose(M @ np.ones(40), 0, atol=1e-9)
    np.testing.assert_allclose(M @ X, 0, atol=1e-8)
    values = np.linalg.eigvalsh(M.toarray())
    assert values[0] > -1e-9
    assert values[-1] <= np.bincount(near.ravel()).max() + 1e-9
    assert (values > 1e-4).sum() > 20


def test_coordinates_are_those_of_principal_axes():
    X = np.random.default_rng(2).standard_normal((3, 7, 5))
    T = _tangents(X, 2)
    for x, t in zip(X, T):
        U, s, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
        expected = U[:, :2] * s[:2]
        expected /= np.sqrt((expected**2).sum(axis=1).mean())
        np.testing.assert_allclose(np.abs(t), np.abs(expected), atol=1e-9)


def test_copies_and_lines_are_no_trouble():
    """Neighbourhoods without extent, or in a line, have fewer linear functions."""
    X = np.zeros((12, 3))
    X[6:, 0] = np.arange(6)
    near = np.array([np.arange(6), np.arange(6, 12)])
    M = spline_energy(X, near, n_tangent=2, ridge=0.1)
    assert np.isfinite(M.toarray()).all()
    np.testing.assert_allclose(M @ X[:, 0], 0, atol=1e-8)
