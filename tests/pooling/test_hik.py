"""The intersection kernel against its definition, and the classifier against scikit-learn's with the same kernel."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from cbid.coders import ModelFileError
from cbid.pooling import HIKClassifier, load
from cbid.pooling.additive_kernels import histogram_intersection
from cbid.storage.models import read_model, write_model


def by_definition(X, Y):
    return np.minimum(X[:, None], Y).sum(axis=2)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300], y[:300], X[300:500], y[300:500]


@parametrize_with_checks([HIKClassifier()])
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shapes", [(1, 1, 1), (5, 40, 300), (600, 3, 7), (33, 65, 513)])
def test_the_kernel_is_that_of_the_definition(dtype, shapes):
    n, m, d = shapes
    rng = np.random.default_rng(0)
    X, Y = rng.random((n, d)).astype(dtype), rng.random((m, d)).astype(dtype)
    K = histogram_intersection(X, Y, n_threads=2)
    assert K.dtype == dtype
    np.testing.assert_allclose(K, by_definition(X, Y), rtol=1e-5 if dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(histogram_intersection(X[:, ::-1], Y[:, ::-1]), K, rtol=1e-5)  # not contiguous


@pytest.mark.parametrize("classes", [(3, 8), range(10)])
def test_decisions_are_those_of_scikit_learn(digits, classes):
    X, y, Xt, _ = digits
    X, y = X[np.isin(y, classes)], y[np.isin(y, classes)]
    size = X.sum(axis=1).mean()
    model = HIKClassifier(C=2.0).fit(X, y)
    expected = OneVsRestClassifier(SVC(kernel=by_definition, C=2.0 / size)).fit(X, y).decision_function(Xt)
    np.testing.assert_allclose(model.decision_function(Xt), expected, rtol=1e-6, atol=1e-6)


def test_it_classifies_and_only_support_vectors_are_kept(digits):
    X, y, Xt, yt = digits
    model = HIKClassifier(n_jobs=2).fit(X.astype(np.float32), y)
    assert model.score(Xt, yt) > 0.85
    assert model.support_vectors_.dtype == np.float32
    assert len(model.support_vectors_) <= len(X)
    assert model.dual_coef_.any(axis=0).all()


def test_scale_does_not_matter(digits):
    X, y, Xt, _ = digits
    expected = HIKClassifier().fit(X, y).decision_function(Xt)
    np.testing.assert_allclose(HIKClassifier().fit(1e4 * X, y).decision_function(1e4 * Xt), expected, atol=0.02)


def test_model_files(digits, tmp_path):
    X, y, Xt, _ = digits
    names = np.array(list("abcdefghij"))[y]
    model = HIKClassifier(C=3.0).fit(X, names)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(Xt), model.predict(Xt))
    np.testing.assert_array_equal(again.decision_function(Xt), model.decision_function(Xt))
    kind, state, arrays = read_model(tmp_path / "m")
    for name in arrays:
        write_model(tmp_path / "m", kind, state, {**arrays, name: arrays[name][1:]})
        with pytest.raises(ModelFileError, match="complete HIKClassifier"):
            load(tmp_path / "m")


def test_wrong_settings_are_rejected(digits):
    X, y, Xt, _ = digits
    with pytest.raises(ValueError, match="C=0"):
        HIKClassifier(C=0).fit(X, y)
    with pytest.raises(ValueError, match="one class"):
        HIKClassifier().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="Negative values"):
        HIKClassifier().fit(X - 1, y)
    with pytest.raises(ValueError, match="Negative values"):
        HIKClassifier().fit(X, y).predict(-Xt)
