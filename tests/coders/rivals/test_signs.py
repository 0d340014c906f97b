"""Signs of coordinates, principal components and singular vectors."""

import numpy as np
import pytest

from cbid.coders import LSI, PCASign, SignEmbedding, load

SMALL = np.array([[1.0, 5.0, -1.0], [3.0, 5.5, -2.0]])


def test_bits_are_signs_around_the_mean_or_zero(tmp_path):
    np.testing.assert_array_equal(SignEmbedding().fit(SMALL).transform(SMALL), [[-1, -1, 1], [1, 1, -1]])
    np.testing.assert_array_equal(SignEmbedding(centre=False).fit(SMALL).transform(SMALL), [[1, 1, -1], [1, 1, -1]])
    first = SignEmbedding(n_bits=2).fit(SMALL)
    np.testing.assert_array_equal(first.transform(SMALL), [[-1, -1], [1, 1]])
    first.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").encode(SMALL), first.encode(SMALL))


def test_no_more_bits_than_features():
    with pytest.raises(ValueError, match=r"n_bits=4\b.*\b3\b"):
        SignEmbedding(n_bits=4).fit(SMALL)


def test_bits_are_signs_of_components():
    X = np.random.default_rng(0).standard_normal((80, 6)) * [9, 7, 5, 3, 2, 1] + 100
    _, _, Vt = np.linalg.svd(X - X.mean(axis=0))
    coder = PCASign(n_bits=6).fit(X)
    turned = np.sign(np.sum(coder.coef_ * Vt, axis=1))  # a singular vector's sign is free
    np.testing.assert_allclose(coder.coef_, Vt * turned[:, None], atol=1e-8)
    np.testing.assert_array_equal(
        coder.transform(X), np.where((X - X.mean(axis=0)) @ (Vt * turned[:, None]).T >= 0, 1, -1)
    )


def test_no_more_bits_than_axes_along_which_X_varies():
    """Six columns, but rank 2: a third bit would be rounding."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 6))
    assert PCASign(n_bits=2).fit(X).n_bits_ == 2
    with pytest.raises(ValueError, match=r"n_bits=3\b.*\b2\b"):
        PCASign(n_bits=3).fit(X)


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
