"""SDH: each discrete step is optimal, and the objective never rises."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbid.coders import SDH
from cbid.coders.rivals.sdh import fit_classifiers, update_bits
from tests.coders.blobs import blobs


def value(B, W, Y, FP, nu):
    return np.sum((Y - B @ W) ** 2) + nu * np.sum((B - FP) ** 2)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 4))
def test_bits_never_raise_the_objective_and_end_where_no_flip_lowers_it(seed, t, k):
    rng = np.random.default_rng(seed)
    W, Y, FP = rng.standard_normal((t, k)), rng.standard_normal((6, k)), rng.standard_normal((6, t))
    B = np.sign(rng.standard_normal((6, t)))
    found = update_bits(B, W, Y @ W.T + 0.1 * FP, 100)
    reached = value(found, W, Y, FP, 0.1)
    assert reached <= value(B, W, Y, FP, 0.1) + 1e-9
    for i, s in product(range(6), range(t)):
        flipped = found.copy()
        flipped[i, s] *= -1
        assert value(flipped, W, Y, FP, 0.1) >= reached - 1e-9


def test_orthogonal_classifiers_give_the_optimum_over_all_bits():
    """W W' diagonal: bits do not interact, and coordinate descent is exact; held against all 2^4 codes."""
    rng = np.random.default_rng(0)
    W = np.diag(rng.uniform(0.5, 2, 4))
    Y, FP = rng.standard_normal((5, 4)), rng.standard_normal((5, 4))
    found = update_bits(np.ones((5, 4)), W, Y @ W.T + 0.3 * FP, 10)
    for i in range(5):
        codes = np.array(list(product([-1, 1], repeat=4)), dtype=float)
        values = [value(code[None], W, Y[i : i + 1], FP[i : i + 1], 0.3) for code in codes]
        np.testing.assert_array_equal(found[i], codes[int(np.argmin(values))])


def test_classifiers_are_a_stationary_point():
    """Gradient of ||Y - B W||^2 + lam ||W||^2 in W."""
    rng = np.random.default_rng(1)
    B, Y = np.sign(rng.standard_normal((20, 6))), rng.standard_normal((20, 3))
    W = fit_classifiers(B, Y, 0.7)
    np.testing.assert_allclose(B.T @ (B @ W - Y) + 0.7 * W, 0, atol=1e-9)


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_the_objective_never_rises(kernel):
    X, y = blobs(n=150, d=6, k=5, apart=1.5)
    coder = SDH(n_bits=12, kernel=kernel, n_anchors=40, nu=0.1, n_iter=8).fit(X, y)
    assert len(coder.objective_) == 9
    assert (np.diff(coder.objective_) <= 1e-6 * coder.objective_[0]).all()
    assert coder.objective_[-1] < coder.objective_[0]


def test_a_refit_without_anchors_forgets_them():
    X, y = blobs()
    coder = SDH(n_bits=4, n_anchors=10).fit(X, y)
    assert coder.anchors_.shape == (10, 5)
    coder.set_params(kernel=None).fit(X, y)
    assert not hasattr(coder, "anchors_")
    np.testing.assert_array_equal(np.where(X @ coder.coef_.T + coder.intercept_ >= 0, 1, -1), coder.transform(X))
