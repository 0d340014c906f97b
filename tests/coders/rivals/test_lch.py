"""Laplacian co-hashing against the singular vectors of the whole graph."""

import numpy as np
import pytest

from cbid.coders import LaplacianCoHashing


@pytest.fixture
def X():
    return np.random.default_rng(0).random((60, 9)) ** 3


def test_values_are_smoothest_functions_of_the_two_sided_graph(X):
    """For S = [[0, A], [A', 0]] with degrees D, the samples' part of D^-1/2 times the eigenvectors of D^-1/2 S D^-1/2
    that follow the trivial one, up to length: a dense eigenproblem of (n + d) x (n + d)."""
    n, d = X.shape
    S = np.block([[np.zeros((n, n)), X], [X.T, np.zeros((d, d))]])
    degree = S.sum(axis=0)
    values, vectors = np.linalg.eigh(S / np.sqrt(np.outer(degree, degree)))
    assert values[-1] == pytest.approx(1)
    expected = (vectors / np.sqrt(degree)[:, None])[:n, -2:-6:-1]
    coder = LaplacianCoHashing(n_bits=4).fit(X)
    found = coder.project(X) + coder.threshold_
    cosine = np.sum(found * expected, axis=0) / np.linalg.norm(found, axis=0) / np.linalg.norm(expected, axis=0)
    np.testing.assert_allclose(np.abs(cosine), 1, rtol=1e-7)
    np.testing.assert_array_equal((coder.transform(X) > 0).sum(axis=0), 30)


def test_two_topics_are_one_bit():
    rng = np.random.default_rng(0)
    topic = np.arange(40) % 2
    X = rng.poisson(np.array([[5, 5, 5, 0.1, 0.1], [0.1, 0.1, 5, 5, 5]])[topic]).astype(float)
    bits = LaplacianCoHashing(n_bits=1).fit(X).transform(X)[:, 0]
    assert np.abs(np.sum(bits * (2 * topic - 1))) == 40


def test_the_length_of_a_sample_does_not_matter(X):
    """A document twice over says the same."""
    coder = LaplacianCoHashing(n_bits=4).fit(X)
    np.testing.assert_allclose(coder.project(7 * X), coder.project(X), atol=1e-12)


def test_negative_values_are_features_of_their_own(X):
    signed = X - X.mean(axis=0)
    coder = LaplacianCoHashing(n_bits=4).fit(signed)
    assert coder.terms_.shape == (4, 18)
    doubled = np.hstack([np.maximum(signed, 0), np.maximum(-signed, 0)])
    np.testing.assert_array_equal(
        LaplacianCoHashing(n_bits=4).fit(doubled).transform(doubled), coder.transform(signed)
    )
    plain = LaplacianCoHashing(n_bits=4).fit(X)
    np.testing.assert_allclose(plain.project(signed), plain.project(np.maximum(signed, 0)))


def test_samples_and_features_without_edges(X):
    """A sample of zeros has no edge and stands at 0; a column of zeros changes nothing."""
    wide = np.vstack([np.hstack([X, np.zeros((60, 2))]), np.zeros((1, 11))])
    coder = LaplacianCoHashing(n_bits=3).fit(wide)
    np.testing.assert_allclose(coder.project(wide[-1:])[0], -coder.threshold_)
    np.testing.assert_array_equal(coder.terms_[:, 9:], 0)


def test_the_limit_is_the_rank_less_one(X):
    assert LaplacianCoHashing(n_bits=8).fit(X).n_bits_ == 8
    with pytest.raises(ValueError, match=r"n_bits=9\b.*\b8\b"):
        LaplacianCoHashing(n_bits=9).fit(X)
