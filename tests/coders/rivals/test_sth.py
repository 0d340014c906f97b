"""Self-taught hashing."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import load_digits

from cbid.coders import SelfTaughtHashing
from cbid.coders.rivals.sth import cosine_graph, laplacian_eigenmap


@pytest.fixture(scope="module")
def X():
    return load_digits().data[:500]


def test_planes_predict_the_halves_of_the_eigenmap(X):
    embedding = laplacian_eigenmap(cosine_graph(X, 5), 6)
    halves = np.where(embedding >= np.median(embedding, axis=0), 1, -1)
    assert (np.abs(halves.sum(axis=0)) <= 1).all()
    bits = SelfTaughtHashing(n_bits=6).fit(X).transform(X)
    assert np.mean(bits == halves) > 0.9
    assert np.abs(bits.mean(axis=0)).max() < 0.15


def test_two_directions_are_one_bit():
    """Samples around two directions: the smoothest function tells them apart, new samples included."""
    rng = np.random.default_rng(0)
    side = np.arange(80) % 2
    X = np.array([[1.0, 0.2, 0.0], [0.0, 0.2, 1.0]])[side] + 0.05 * rng.standard_normal((80, 3))
    bits = SelfTaughtHashing(n_bits=1).fit(X[:60]).transform(X)[:, 0]
    assert np.abs(np.sum(bits * (2 * side - 1))) == 80


def test_limits_and_settings(X):
    with pytest.raises(ValueError, match=r"n_bits=9\b.*\b8\b"):
        SelfTaughtHashing(n_bits=9).fit(X[:10])
    assert SelfTaughtHashing(n_bits=8, n_neighbors=50).fit(X[:10]).n_bits_ == 8
    for params, message in (({"n_neighbors": 0}, "n_neighbors=0"), ({"C": 0}, "C=0")):
        with pytest.raises(ValueError, match=message):
            SelfTaughtHashing(**params).fit(X)


def test_threads_do_not_change_the_bits(X):
    one, two = (SelfTaughtHashing(n_bits=4, n_jobs=n).fit(X[:100]).encode(X) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


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
