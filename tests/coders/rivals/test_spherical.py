"""Spherical hashing: what the spheres hold and share, and their own distance."""

import numpy as np
import pytest

from cbid.coders import SphericalHashing
from cbid.coders.rivals.spherical import spherical_hamming


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((1000, 16))


def test_spheres_hold_half_and_share_a_quarter(X):
    coder = SphericalHashing(n_bits=16, max_iter=200).fit(X)
    inside = coder.transform(X) > 0
    np.testing.assert_array_equal(inside.sum(axis=0), 500)
    shared = (inside.T.astype(int) @ inside)[np.triu_indices(16, 1)]
    assert np.abs(shared - 250).mean() <= 0.1 * 250
    assert shared.std() <= 0.15 * 250
    assert coder.n_iter_ < 200


def test_moving_the_centres_makes_sharing_more_even(X):
    """Spheres around means of a few samples overlap too much at first."""

    def unevenness(max_iter):
        inside = SphericalHashing(n_bits=16, max_iter=max_iter).fit(X).transform(X) > 0
        return np.abs((inside.T.astype(int) @ inside)[np.triu_indices(16, 1)] - 250).mean()

    assert unevenness(100) < 0.5 * unevenness(1)


def test_a_bit_is_the_inside_of_a_sphere(X):
    coder = SphericalHashing(n_bits=5).fit(X)
    distance = np.linalg.norm(X[:, None] - coder.pivots_, axis=2)
    np.testing.assert_array_equal(coder.transform(X), np.where(distance <= coder.radii_, 1, -1))
    np.testing.assert_allclose(coder.project(X), coder.radii_ - distance, atol=1e-9)


def test_a_part_of_the_samples_will_do(X):
    coder = SphericalHashing(n_bits=8, max_samples=300).fit(X)
    assert (coder.transform(X) > 0).mean() == pytest.approx(0.5, abs=0.05)


def test_distance_of_codes():
    """1100 and 1010 differ in two bits and share one sphere; 1100 and 1111 differ in two and share two."""
    a = np.packbits([[1, 1, 0, 0]], axis=1)
    b = np.packbits([[1, 0, 1, 0], [1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]], axis=1)
    np.testing.assert_array_equal(spherical_hamming(a, b), [[2, 1, 0, np.inf]])
    nothing = np.zeros((1, 1), np.uint8)
    assert spherical_hamming(nothing, nothing) == 0
