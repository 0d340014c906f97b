"""Self-taught hashing: balanced codes of a graph, and planes that predict them."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cbid.coders import SelfTaughtHashing
from cbid.coders.rivals.knn import cosine_graph, laplacian_eigenmap


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
    with pytest.raises(ValueError, match=r"n_bits=9 .* n_samples=10 .*at most 8"):
        SelfTaughtHashing(n_bits=9).fit(X[:10])
    assert SelfTaughtHashing(n_bits=8, n_neighbors=50).fit(X[:10]).n_bits_ == 8
    for params, message in (({"n_neighbors": 0}, "n_neighbors=0"), ({"C": 0}, "C=0")):
        with pytest.raises(ValueError, match=message):
            SelfTaughtHashing(**params).fit(X)


def test_threads_do_not_change_the_bits(X):
    one, two = (SelfTaughtHashing(n_bits=4, n_jobs=n).fit(X[:100]).encode(X) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
