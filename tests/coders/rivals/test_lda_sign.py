"""LDA-sign and canonical directions against scikit-learn's discriminants."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from cbid.coders import LDASign
from cbid.coders.rivals.signs import canonical_directions
from cbid.learning.scaling import centre, class_means
from tests.coders.blobs import blobs


def test_bits_are_signs_of_the_discriminants():
    """scikit-learn's transform is around the mean of the class means, which with equal classes is that of samples."""
    X, y = blobs(n=200, d=6, k=4)
    theirs = LinearDiscriminantAnalysis().fit(X, y).transform(X)
    bits = LDASign(reg=0).fit(X, y).transform(X)
    assert bits.shape == (200, 3)
    agreement = np.mean(bits == np.where(theirs >= 0, 1, -1), axis=0)
    np.testing.assert_array_equal(np.maximum(agreement, 1 - agreement), 1)


def test_two_classes_are_parted_half_way():
    """Classes at -1 and +1 on a line: one bit, whose threshold is the mean."""
    X = np.array([[-1.2], [-0.8], [0.8], [1.2]])
    bits = LDASign().fit(X, [0, 0, 1, 1]).transform(X).ravel()
    assert abs(bits @ [-1, -1, 1, 1]) == 4


def test_how_many_bits_there_can_be():
    X, y = blobs(n=60, d=2, k=5)
    assert LDASign().fit(X, y).n_bits_ == 2
    assert LDASign(n_bits=1).fit(X, y).n_bits_ == 1
    with pytest.raises(ValueError, match=r"n_bits=3\b.*\b2\b"):
        LDASign(n_bits=3).fit(X, y)


@pytest.fixture
def problem():
    X, y = blobs(n=200, d=6, k=4)
    return centre(X).Z, y


def test_directions_are_those_of_linear_discriminant_analysis(problem):
    """Fisher maximises w' B w / w' S w with S the scatter within classes, we over C = B + S: the same directions."""
    Z, y = problem
    W, _ = canonical_directions(Z, y, 4, reg=0.0)
    theirs = LinearDiscriminantAnalysis(solver="svd").fit(Z, y).scalings_[:, :3]
    cosines = np.sum(W * theirs, axis=0) / np.linalg.norm(W, axis=0) / np.linalg.norm(theirs, axis=0)
    np.testing.assert_allclose(np.abs(cosines), 1, atol=1e-6)


def test_correlations_are_those_of_projections_and_labels(problem):
    """The correlation of a projection with its best prediction from the class, its class mean."""
    Z, y = problem
    W, correlations = canonical_directions(Z, y, 4, reg=0.0)
    P = Z @ W
    np.testing.assert_allclose(P.T @ P / len(P), np.eye(3), atol=1e-6)
    explained = class_means(P, y, 4)[y]
    np.testing.assert_allclose(explained.std(axis=0), correlations, atol=1e-6)
    assert (np.diff(correlations) <= 0).all()


def test_two_classes_have_the_direction_of_the_difference_of_means():
    """One direction, C^-1 (m_1 - m_0)."""
    X, y = blobs(n=100, d=4, k=2)
    Z = centre(X).Z
    W, _ = canonical_directions(Z, y, 2, reg=0.0)
    means = class_means(Z, y, 2)
    expected = np.linalg.solve(Z.T @ Z, means[1] - means[0])
    assert abs(W[:, 0] @ expected) / np.linalg.norm(W) / np.linalg.norm(expected) > 1 - 1e-9


def test_the_ridge_is_in_the_denominator(problem):
    Z, y = problem
    W, correlations = canonical_directions(Z, y, 4, reg=0.5)
    C = Z.T @ Z / len(Z)
    C += 0.5 * np.trace(C) / 6 * np.eye(6)
    np.testing.assert_allclose(W.T @ C @ W, np.eye(3), atol=1e-9)
    share = np.bincount(y) / len(y)
    means = class_means(Z, y, 4)
    B = (means.T * share) @ means
    np.testing.assert_allclose(W.T @ B @ W, np.diag(correlations**2), atol=1e-9)


def test_centring_of_large_small_and_constant_X():
    for scale in (1e-150, 1.0, 1e150):
        data = centre(scale * (np.arange(12.0).reshape(6, 2) + 5))
        assert np.mean(np.sum(data.Z**2, axis=1)) == pytest.approx(1)
        np.testing.assert_allclose(data.Z * data.unit + data.mean, scale * (np.arange(12.0).reshape(6, 2) + 5))
    assert centre(np.full((3, 2), 7.0)).unit == 1
