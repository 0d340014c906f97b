"""Shares of the classes: linear discriminants, of samples left out too."""

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from cbid.learning.features import discriminants, fit_class_shares, fit_whitening
from cbid.learning.scaling import indicator


def test_discriminants_are_the_log_shares_of_gaussian_classes():
    """Without a ridge they are those of scikit-learn, up to a constant for each sample."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [20, 30, 50])
    Z = rng.normal(size=(3, 4))[y] + rng.normal(size=(100, 4))
    coef, intercept = discriminants(Z, y, 3, 0.0)
    expected = LinearDiscriminantAnalysis("lsqr").fit(Z, y).predict_log_proba(Z)
    found = Z @ coef + intercept
    np.testing.assert_allclose(found - found[:, :1], expected - expected[:, :1], atol=1e-8)


def test_the_ridge_is_in_units_of_the_typical_variance_within_classes():
    """Covariance diag(1, 4): the typical variance is (1 + 16) / 5, each axis counted by its share."""
    Z = np.array([[1.0, 0], [-1, 0], [0, 2], [0, -2]])
    Z = np.concatenate([np.sqrt(2) * Z + [3, 0], np.sqrt(2) * Z])
    coef, _ = discriminants(Z, np.repeat([0, 1], 4), 2, 0.5)
    np.testing.assert_allclose(coef, [[3 / (1 + 0.5 * 17 / 5), 0], [0, 0]], atol=1e-12)


def test_a_class_without_samples_has_no_share():
    Z = np.random.default_rng(0).normal(size=(20, 2))
    _, intercept = discriminants(Z, np.arange(20) % 2, 3, 0.1)
    assert intercept[2] == -np.inf
    assert np.isfinite(intercept[:2]).all()


def test_means_of_classes_move_towards_their_group():
    """Means 0, 4 | 10, 10 in one dimension, pull 1/2: 1, 3 | 10, 10; the empty class 4 does not count in its group.

    A second level that joins all classes, with mean 6 of the moved ones, moves them to 3.5, 4.5, 8, 8.
    """
    y = np.repeat([0, 1, 2, 3], 2)
    Z = np.array([0.0, 4, 10, 10])[y, None] + np.tile([-1.0, 1], 4)[:, None]
    groups = np.array([0, 0, 1, 1, 1])
    coef, _ = discriminants(Z, y, 5, 0.0, [groups], 0.5)
    np.testing.assert_allclose(coef[0, :4], [1, 3, 10, 10])  # the variance within classes is 1
    coef, _ = discriminants(Z, y, 5, 0.0, [np.zeros(5, dtype=int), groups], 0.5)
    np.testing.assert_allclose(coef[0, :4], [3.5, 4.5, 8, 8])


def test_the_tree_helps_where_classes_have_few_samples():
    """40 classes around 4 means, three samples each: the group's mean says more of a new sample."""
    rng = np.random.default_rng(0)
    groups = np.arange(40) % 4
    means = 2 * rng.normal(size=(4, 30))[groups] + 0.5 * rng.normal(size=(40, 30))
    y = np.repeat(np.arange(40), 3)
    X = means[y] + rng.normal(size=(120, 30))
    new = means + rng.normal(size=(20, 40, 30))
    flat, tree = (fit_class_shares(X, y, n_components=30, seed=0, levels=levels)[0] for levels in ([], [groups]))
    right = [
        np.mean(shares(new.reshape(-1, 30)).argmax(axis=1) == np.tile(np.arange(40), 20)) for shares in (flat, tree)
    ]
    assert right[1] > right[0] + 0.02


def test_shares_add_up_to_one_and_name_the_classes():
    rng = np.random.default_rng(1)
    y = np.arange(180) % 6
    X = (1000 + 2 * indicator(y, 6) @ rng.normal(size=(6, 8)) + rng.normal(size=(180, 8))).astype(np.float32)
    of_classes, left_out = fit_class_shares(X, y, n_components=8, seed=0)
    for shares in (of_classes(X), left_out):
        assert shares.dtype == np.float32
        np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
        assert np.mean(shares.argmax(axis=1) == y) > 0.8
    # A sample has less of its class as if it were new than where it was known.
    own = np.arange(180), y
    assert left_out[own].mean() < of_classes(X)[own].mean()


def test_samples_left_out_do_not_count_in_their_own_shares():
    """Labels at random: known samples seem to have their class, left out they do not."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(120, 60)).astype(np.float32), np.arange(120) % 4
    of_classes, left_out = fit_class_shares(X, y, n_components=60, seed=0)
    assert np.mean(of_classes(X).argmax(axis=1) == y) > 0.6
    assert np.mean(left_out.argmax(axis=1) == y) < 0.4


def test_many_axes_of_more_samples_are_those_of_the_whole_decomposition():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(1400, 600)) * np.geomspace(1, 0.03, 600) @ rng.normal(size=(600, 600))).astype(np.float32)
    X += 3
    found = fit_whitening(X, n_components=600, ridge=1e-3, random_state=0)
    centred = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    _, singular, axes = np.linalg.svd(centred, full_matrices=False)
    variance = singular**2 / 1399
    typical = variance @ variance / variance.sum()
    whitened = centred @ axes.T / np.sqrt(variance + 1e-3 * typical)
    np.testing.assert_allclose(
        found(X) @ found(X).T, whitened @ whitened.T, atol=2e-3 * np.abs(whitened @ whitened.T).max()
    )
