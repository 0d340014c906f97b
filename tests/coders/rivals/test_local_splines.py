"""Spline energies against scipy's splines, and against what a spline can follow for free."""

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator

from cbid.coders.rivals.local_splines import _tangents, spline_energy

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
