"""Norms, dual norms and their gradients."""

import numpy as np
import pytest

from cbid.learning.penalties import Norm, make_penalty

PS = [1, 1.1, 1.5, 2, 3, 10, np.inf]


@pytest.mark.parametrize("p", PS)
def test_value_is_numpys_norm(p):
    W = np.random.default_rng(0).random((4, 3))
    assert Norm(p).value(W) == pytest.approx(np.linalg.norm(W.ravel(), p))


@pytest.mark.parametrize("p", PS)
def test_dual_norm_bounds_the_product_and_is_attained(p):
    """<G, W> <= ||max(0, G)||_dual ||W|| for W >= 0, with equality in the steepest direction."""
    rng = np.random.default_rng(1)
    norm, G = Norm(p), rng.standard_normal((5, 2))
    for _ in range(200):
        W = rng.random((5, 2)) * rng.integers(0, 2, (5, 2))
        assert np.sum(G * W) <= norm.dual(G) * norm.value(W) + 1e-12
    best = norm.steepest(G)
    assert norm.value(best) == pytest.approx(1)
    assert np.sum(G * best) == pytest.approx(norm.dual(G))


@pytest.mark.parametrize("p", [1.1, 1.5, 2, 3, 10])
def test_gradient_by_finite_differences(p):
    W, step = np.random.default_rng(2).random(6) + 0.1, 1e-6
    slope = [(Norm(p).value(W + step * e) - Norm(p).value(W - step * e)) / (2 * step) for e in np.eye(6)]
    np.testing.assert_allclose(Norm(p).gradient(W), slope, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("p", PS)
def test_no_over_or_underflow(p):
    assert Norm(p).value(np.full(3, 1e200)) == pytest.approx(1e200 * 3 ** (0 if np.isinf(p) else 1 / p))
    assert Norm(p).value(np.zeros(3)) == 0
    assert (Norm(p).gradient(np.zeros(3)) == 0).all() or p in (1, np.inf)


@pytest.mark.parametrize("penalty", ["l2", 1, 0.5, -1, None, True, "linfty", float("nan")])
def test_unknown_penalty_is_named(penalty):
    with pytest.raises(ValueError, match="penalty="):
        make_penalty(penalty)
