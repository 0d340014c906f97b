"""Kernel maps against the exact kernels, and against scikit-learn's chi-squared map."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, issparse
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.utils.estimator_checks import parametrize_with_checks

from cbid.pooling import AdditiveKernelMap
from cbid.pooling.additive_kernels import histogram_intersection

WORST = {"chi2": (0.11, 0.032, 0.013, 0.006, 0.003), "intersection": (0.18, 0.11, 0.08, 0.065, 0.055)}


def exact(kernel, x, y):
    return 2 * x * y / (x + y) if kernel == "chi2" else np.minimum(x, y)


def approximate(model, x, y):
    """The kernel of numbers, each taken for a vector of one value."""
    fx, fy = (model.transform(np.reshape(v, (-1, 1))) for v in (x, y))
    return (fx * fy).sum(axis=1)


@parametrize_with_checks([AdditiveKernelMap(), AdditiveKernelMap(kernel="intersection", sample_steps=3)])
def test_estimator_checks(estimator, check):
    check(estimator)


def worst_error(kernel, steps, interval=None):
    """Over pairs of values in 0..1: the kernel is homogeneous, so one of them can be 1."""
    y = np.exp(-np.linspace(0, 20, 2001))
    model = AdditiveKernelMap(kernel=kernel, sample_steps=steps, sample_interval=interval)
    return np.abs(approximate(model, np.ones_like(y), y) - exact(kernel, 1, y)).max()


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5])
def test_the_error_is_as_promised_and_the_interval_is_the_best(kernel, steps):
    error = worst_error(kernel, steps)
    assert error < WORST[kernel][steps - 1]
    model = AdditiveKernelMap(kernel=kernel, sample_steps=steps)
    interval = model._interval()
    for other in np.linspace(0.2, 3, 60) * interval:
        assert error <= worst_error(kernel, steps, other) + 1e-3


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_chi2_is_that_of_scikit_learn(steps):
    X = np.random.default_rng(0).random((20, 7)) * (np.random.default_rng(1).random((20, 7)) < 0.7)
    ours = AdditiveKernelMap(sample_steps=steps, sample_interval=0.5).transform(X)
    np.testing.assert_allclose(ours, AdditiveChi2Sampler(sample_steps=steps, sample_interval=0.5).fit_transform(X))


@given(st.floats(1e-6, 1), st.floats(1e-6, 1), st.floats(1e-3, 1e3), st.sampled_from(["chi2", "intersection"]))
def test_homogeneous_and_symmetric(x, y, scale, kernel):
    """k(c x, c y) = c k(x, y) holds for the approximation, too: it sees only log y - log x."""
    model = AdditiveKernelMap(kernel=kernel, sample_steps=3)
    value = approximate(model, x, y)[0]
    assert approximate(model, scale * x, scale * y)[0] == pytest.approx(scale * value, rel=1e-9, abs=1e-12)
    assert approximate(model, y, x)[0] == pytest.approx(value, rel=1e-12)


def test_kernels_of_histograms():
    rng = np.random.default_rng(0)
    X, Y = (rng.dirichlet(np.full(40, 0.5), size=n) for n in (8, 9))
    near = AdditiveKernelMap(kernel="intersection", sample_steps=5)
    np.testing.assert_allclose(near.transform(X) @ near.transform(Y).T, histogram_intersection(X, Y), atol=0.06)
    near = AdditiveKernelMap(kernel="chi2", sample_steps=3)
    chi2 = (2 * X[:, None] * Y / (X[:, None] + Y)).sum(axis=2)
    np.testing.assert_allclose(near.transform(X) @ near.transform(Y).T, chi2, atol=0.02)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_and_dense_agree_and_zero_stays_zero(kernel, dtype):
    X = (np.random.default_rng(0).random((6, 5)) * (np.arange(5) % 2)).astype(dtype)
    model = AdditiveKernelMap(kernel=kernel, sample_steps=2).fit(X)
    dense, sparse = model.transform(X), csr_array(X)
    sparse.data[0] = 0  # stored, but zero
    dense[0] = model.transform(sparse.toarray())[0]
    mapped = model.transform(sparse)
    assert issparse(mapped)
    assert mapped.dtype == dense.dtype == dtype
    np.testing.assert_allclose(mapped.toarray(), dense, rtol=1e-6)
    assert mapped.nnz == 3 * (X.size * 2 // 5 - 1)


def test_names_and_refusals():
    model = AdditiveKernelMap(sample_steps=2).fit(np.ones((2, 2)))
    names = ["x0_sqrt", "x1_sqrt", "x0_cos1", "x1_cos1", "x0_sin1", "x1_sin1"]
    assert model.get_feature_names_out().tolist() == names
    assert model.get_feature_names_out(["a", "b"])[0] == "a_sqrt"
    for bad, message in (
        ({"kernel": "rbf"}, "kernel='rbf'"),
        ({"sample_steps": 0}, "sample_steps=0"),
        ({"sample_steps": 6}, "sample_interval=None"),
        ({"sample_interval": 0.0}, "sample_interval=0"),
    ):
        with pytest.raises(ValueError, match=message):
            AdditiveKernelMap(**bad).fit(np.ones((2, 2)))
    with pytest.raises(ValueError, match="Negative"):
        model.transform([[1, -1]])
