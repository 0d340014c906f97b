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


class Weighted:
    """sqrt(sum of c_s w_s^2) with c_s = 1 + s: bits that come later cost more."""

    def _c(self, W):
        return 1.0 + np.arange(len(W))[:, None]

    def value(self, W):
        return np.sqrt(np.sum(self._c(W) * W**2))

    def gradient(self, W):
        size = self.value(W)
        return np.zeros_like(W) if size == 0 else self._c(W) * W / size

    def dual(self, G):
        return np.sqrt(np.sum(np.maximum(G, 0) ** 2 / self._c(G)))

    def steepest(self, G):
        W = np.maximum(G, 0) / self._c(G)
        size = self.value(W)
        return W / size if size > 0 else W


def test_a_penalty_of_your_own():
    """The weights reach the certificate; without the growing cost they would be those of l_2."""
    from cbid import CBID

    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    X = rng.standard_normal((90, 6)) + 1.5 * np.eye(6)[y]
    fixed = {"n_bits": 6, "likeness": 0, "kernel": "linear", "nu": 0.05}
    own = CBID(penalty=Weighted(), **fixed).fit(X, y)
    assert (own.gap_ <= own.tol * own.objective_).all()
    even = CBID(penalty=2, **fixed).fit(X, y)
    np.testing.assert_allclose(own.truncate(1).weights_, even.truncate(1).weights_, rtol=0.05)  # c = 1 there
    own_last, even_last = (coder.weights_[-1] / coder.weights_.sum() for coder in (own, even))
    assert own_last < even_last


@pytest.mark.parametrize("penalty", [object(), Weighted, "l2", 1, True])
def test_what_is_no_penalty_is_named(penalty):
    with pytest.raises(ValueError, match="penalty="):
        make_penalty(penalty)
