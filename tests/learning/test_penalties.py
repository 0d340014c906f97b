"""Norms, dual norms and their gradients."""

import numpy as np
import pytest

from cbid.learning.penalties import KindNorm, Norm, make_penalty

PS = [1, 1.1, 1.5, 2, 3, 10, np.inf]


@pytest.mark.parametrize("p", PS)
def test_value_is_numpys_norm(p):
    W = np.random.default_rng(0).random((4, 3))
    assert Norm(p).value(W) == pytest.approx(np.linalg.norm(W.ravel(), p))


KINDS = KindNorm(np.array([False, True, True, False, True, True]))


@pytest.mark.parametrize("norm", [*map(Norm, PS), KINDS, KindNorm(np.zeros(5, dtype=bool))], ids=str)
def test_dual_norm_bounds_the_product_and_is_attained(norm):
    """<G, W> <= ||max(0, G)||_dual ||W|| for W >= 0, with equality in the steepest direction."""
    rng = np.random.default_rng(1)
    G = rng.standard_normal((5, 2))
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


def test_norm_of_two_kinds():
    W = np.array([[1.0], [3.0], [0.5], [2.0]])
    assert KINDS.value(W) == pytest.approx(np.sqrt((2**2 + 3**2) / 2))
    assert KINDS.value(np.full((5, 1), 0.7)) == pytest.approx(0.7)  # even weights cost as under linf
    assert KINDS.value(np.zeros((5, 1))) == 0


def test_gradient_of_the_norm_of_two_kinds_by_finite_differences():
    v, step = np.array([0.3, 1.2]), 1e-6
    slope = [(KINDS.of_bounds(v + step * e) - KINDS.of_bounds(v - step * e)) / (2 * step) for e in np.eye(2)]
    np.testing.assert_allclose(KINDS.bounds_gradient(v), slope, rtol=1e-6)
    assert not KINDS.bounds_gradient(np.zeros(2)).any()


@pytest.mark.parametrize("p", PS)
def test_no_over_or_underflow(p):
    assert Norm(p).value(np.full(3, 1e200)) == pytest.approx(1e200 * 3 ** (0 if np.isinf(p) else 1 / p))
    assert Norm(p).value(np.zeros(3)) == 0
    assert (Norm(p).gradient(np.zeros(3)) == 0).all() or p in (1, np.inf)


@pytest.mark.parametrize("penalty", ["l2", 1, 0.5, -1, None, True, "linfty", float("nan")])
def test_unknown_penalty_is_named(penalty):
    with pytest.raises(ValueError, match="penalty="):
        make_penalty(penalty)
