"""Latent semantic indexing against numpy's SVD."""

import numpy as np
import pytest

from cbid.coders import LSI


@pytest.fixture
def X():
    return np.random.default_rng(0).random((100, 7)) * np.arange(1, 8)


def test_directions_are_singular_vectors_of_X_as_it_is(X):
    _, _, Vt = np.linalg.svd(X)
    coder = LSI(n_bits=5).fit(X)
    np.testing.assert_allclose(np.abs(coder.coef_ @ Vt[:5].T), np.eye(5), atol=1e-9)


def test_the_median_halves_the_samples(X):
    bits = LSI(n_bits=7).fit(X).transform(X)
    np.testing.assert_array_equal((bits > 0).sum(axis=0), 50)


def test_the_sign_of_positive_samples_starts_with_a_constant(X):
    """The leading vector has entries of one sign (Perron and Frobenius), so that its products with X have, too."""
    coder = LSI(n_bits=3, threshold="zero").fit(X)
    np.testing.assert_allclose(coder.intercept_, 0, atol=1e-9)
    assert (coder.transform(X)[:, 0] == 1).all()
    with pytest.raises(ValueError, match="threshold='mean'"):
        LSI(threshold="mean").fit(X)
