"""Neighbours and graphs against their definitions."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from cbid.coders.rivals.knn import cosine_graph, laplacian_eigenmap, nearest_others
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


def test_edges_are_cosines_of_neighbours_on_either_side():
    X = np.random.default_rng(0).standard_normal((40, 3)) + 1
    W = cosine_graph(X, 6).toarray()
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    C = unit @ unit.T
    np.fill_diagonal(C, -np.inf)
    near = np.zeros_like(C, dtype=bool)
    np.put_along_axis(near, np.argsort(-C, axis=1)[:, :6], True, axis=1)
    near |= near.T
    np.testing.assert_array_equal(W > 0, near)
    np.testing.assert_allclose(W[near], np.maximum(C, 1e-3)[near], atol=1e-6)


def test_parts_of_a_graph_are_joined_where_they_are_nearest():
    """Three bundles of directions: two joins make them one, between neighbours in angle."""
    angle = np.concatenate([a + 0.01 * np.arange(6) for a in (0.0, 1.0, 2.0)])
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    W = cosine_graph(X, 2)
    assert connected_components(W)[0] == 1
    between = [(i, j) for i, j in zip(*W.nonzero()) if i < j and i // 6 != j // 6]
    assert between == [(5, 6), (11, 12)]


def test_eigenmap_against_the_dense_generalised_problem():
    """L v = lambda D v by scipy; v has no sign."""
    rng = np.random.default_rng(0)
    W = np.triu(rng.random((30, 30)) * (rng.random((30, 30)) < 0.4), 1)
    W += W.T
    D = np.diag(W.sum(axis=0))
    values, vectors = eigh(D - W, D)
    assert abs(values[0]) < 1e-9  # the constant
    found = laplacian_eigenmap(csr_matrix(W), 4)
    expected = vectors[:, 1:5]
    cosine = np.sum(found * expected, axis=0) / np.linalg.norm(found, axis=0) / np.linalg.norm(expected, axis=0)
    np.testing.assert_allclose(np.abs(cosine), 1, rtol=1e-8)
