"""Neighbours and graphs against their definitions."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from cbid.coders.rivals.common import nearest_others
from cbid.learning.neighbourhoods import of_unit_size


def test_nearest_others():
    X = np.random.default_rng(0).standard_normal((60, 4)) + 50
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    np.testing.assert_array_equal(nearest_others(X, 5), np.argsort(D, axis=1)[:, :5])


@pytest.mark.parametrize("spread", [1e-1, 1e-3, 1e-4])
def test_neighbours_in_tight_clusters_far_from_the_mean(spread):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((60, 64)), 50, axis=0) + spread * rng.standard_normal((3000, 64))
    X = X.astype(np.float32)
    Z = of_unit_size(X).astype(np.float64)  # what float32 keeps of them
    near = nearest_others(X, 5)
    for i in range(0, 3000, 50):
        distances = ((Z - Z[i]) ** 2).sum(axis=1)
        distances[i] = np.inf
        np.testing.assert_allclose(distances[near[i]], np.sort(distances)[:5], rtol=1e-5)


def test_a_sample_is_not_its_own_neighbour_even_among_copies():
    X = np.zeros((10, 2))
    X[7:] = 1
    near = nearest_others(X, 3)
    assert (near != np.arange(10)[:, None]).all()
    assert (near[:7] < 7).all()
