"""From the distances of patches to those of images."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from cbid.classify.class_distances import Local, _factor_loss, class_factors, sum_by_image


class Fixed:
    """A structure whose answers are given."""

    nbytes = 7

    def __init__(self, distances, positions):
        self._answers = np.array(distances, np.float32), np.array(positions)

    def query(self, Q, k, n_threads):
        assert k == self._answers[0].shape[1]
        return self._answers


def test_local_subtracts_the_background_distance():
    """Rows 0, 1 are of class 0, row 2 of class 1, row 3 of class 2. Of the first patch's four nearest, at 1, 2, 4 and
    9, the last is beyond: class 0 gets 1 - 9, class 1 gets 4 - 9. The second patch was given two answers only: its
    last one, at 5, is beyond, so that class 2 gets 3 - 5 and class 0, at 5, gets 0."""
    structure = Fixed([[1, 2, 4, 9], [3, 5, np.inf, np.inf]], [[0, 1, 2, 3], [3, 0, -1, -1]])
    local = Local(structure, np.array([0, 0, 1, 2]), 3, 3)
    np.testing.assert_array_equal(local(np.zeros((2, 1)), 1), [[-8, -5, 0], [0, 0, -2]])
    assert local.nbytes == 7


def test_sums_of_images_with_patches_that_found_nothing():
    """In the first image the largest distance found is 4, in the second 1; nothing at all was found in the third."""
    inf = np.inf
    distances = np.float32([[1, inf], [4, 2], [inf, 1], [inf, inf]])
    sums = sum_by_image(distances, np.array([0, 2, 3, 4]))
    np.testing.assert_allclose(sums, [[5, 6], [1, 1], [0, 0]], rtol=1e-6, atol=1e-6)
    assert sums[1, 0] > sums[1, 1]  # where something was found comes first
    assert sums[2, 0] == sums[2, 1]


def test_gradient_of_the_factors_by_finite_differences():
    rng = np.random.default_rng(0)
    L, y, x = rng.uniform(0.8, 1.2, (20, 4)), rng.integers(4, size=20), rng.normal(size=5)
    slope = approx_fprime(x, lambda x: _factor_loss(x, L, y, 0.1)[0], 1e-6)
    np.testing.assert_allclose(_factor_loss(x, L, y, 0.1)[1], slope, rtol=1e-4, atol=1e-6)


def test_a_class_that_attracts_all_images_gets_a_larger_factor():
    """Distances are equal but for the own class, 0.1 nearer, and class 0, 0.2 nearer to everything."""
    y = np.arange(30) % 3
    D = 1 + 0.01 * np.random.default_rng(0).normal(size=(30, 3)) - 0.1 * (np.arange(3) == y[:, None]) - [0.2, 0, 0]
    factors = class_factors(D, y)
    assert (D.argmin(axis=1) == y).mean() < 0.5
    assert ((D * factors).argmin(axis=1) == y).all()
    assert factors[0] > factors[1:].max()
    assert factors.mean() == pytest.approx(1)
    np.testing.assert_allclose(class_factors(100 * D, y), factors, rtol=1e-5)


def test_equal_distances_need_no_factors():
    np.testing.assert_array_equal(class_factors(np.ones((10, 2)), np.arange(10) % 2), [1, 1])
