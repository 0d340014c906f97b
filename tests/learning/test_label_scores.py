"""Scores of labels: regressions of samples left out against as many regressions without them."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from cbid.learning import label_scores
from cbid.learning.features import Anchors
from cbid.learning.graded import LabelSimilarity
from cbid.learning.label_scores import fit_label_scores

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 6))
Y = X[:, :4] + 0.3 * rng.normal(size=(40, 4)) > 0
Y[~Y.any(axis=1), 0] = True
SETS = csr_matrix(Y.astype(int))
RIDGE = 0.1


@pytest.fixture(autouse=True)
def one_ridge(monkeypatch):
    monkeypatch.setattr(label_scores, "_RIDGES", np.array([RIDGE]))


def targets(seed=1):
    return LabelSimilarity(SETS).to(np.random.default_rng(seed).permutation(40))


def fit(F, anchors, mean=None, seed=1):
    mean = F.mean(axis=0) if mean is None else mean
    return fit_label_scores(F, SETS, anchors, mean=mean, rng=np.random.default_rng(seed))


def differences(values):
    """Scores without what is the same for all samples."""
    return values - values.mean(axis=0)


@pytest.mark.parametrize("rows", [7, 100])
def test_scores_of_left_out_samples_are_those_of_regressions_without_them(monkeypatch, rows):
    """40 ridge regressions, each without one sample; the samples come in parts of 7, or in one."""
    monkeypatch.setattr(label_scores, "_ROWS", rows)
    Z = X - X.mean(axis=0)
    unit2 = (Z**2).sum() / len(Z)
    T = targets()
    # The centre is part of the regression, so leaving a sample out moves it too.
    expected = [
        Ridge(alpha=RIDGE * unit2).fit(np.delete(Z, i, axis=0), np.delete(T, i, axis=0)).predict(Z[i : i + 1])[0]
        for i in range(40)
    ]
    found = fit(X, None)
    np.testing.assert_allclose(differences(found.values), differences(np.array(expected)), atol=1e-5)
    residual = T - expected
    assert found.explained == pytest.approx(1 - (residual**2).sum() / ((T - T.mean(axis=0)) ** 2).sum(), rel=1e-6)


def test_with_every_sample_an_anchor_scores_are_kernel_ridge_regression():
    """On centred similarities, in the norm of the kernel."""
    anchors = Anchors(X, 0.3, "laplacian")
    F = anchors(X).astype(float)
    T = targets()
    K = np.linalg.cholesky(F + 1e-12 * np.eye(40))  # coordinates in which the norm is that of the kernel
    model = Ridge(alpha=RIDGE).fit(K, T)
    expected = model.predict(K)
    found = fit(F, anchors)
    scores = (F - F.mean(axis=0)) @ found.basis
    np.testing.assert_allclose(differences(scores), differences(expected), atol=1e-4)
    without = KernelRidge(alpha=RIDGE, kernel="precomputed").fit(F, T - T.mean(axis=0)).predict(F)
    assert np.corrcoef(scores.ravel(), without.ravel())[0, 1] > 0.99


def test_scores_are_zero_at_the_mean_that_is_given():
    """Left out or not, scores lie around the same point: they differ by little where one sample says little."""
    mean = X[0]
    found = fit(X, None, mean=mean)
    np.testing.assert_allclose(found.values, (X - mean) @ found.basis, atol=0.5)
    assert np.abs(found.values - (X - mean) @ found.basis).mean() < 0.1


def test_similarity_to_some_samples_is_that_of_the_pairs():
    others = np.array([3, 0, 17])
    similarity = LabelSimilarity(SETS)
    i, j = np.repeat(np.arange(40), 3), np.tile(others, 40)
    np.testing.assert_allclose(similarity.to(others).ravel(), similarity(i, j))
