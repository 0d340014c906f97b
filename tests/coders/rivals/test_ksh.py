"""KSH: the operator, the spectral start, the smooth climb and the residue against dense matrices."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.optimize import check_grad

from cbid.coders import KSH
from cbid.coders.rivals import ksh as module
from cbid.coders.rivals.ksh import ClassAffinity
from cbid.learning.features import Anchors
from tests.coders.blobs import blobs

X, Y = blobs(n=40, d=4, k=4, apart=1.5)
S = np.where(Y[:, None] == Y, 1.0, -1.0)


def bits(t, seed=0):
    return np.sign(np.random.default_rng(seed).standard_normal((40, t)))


def test_the_operator_is_the_dense_residue():
    H, V = bits(3), np.random.default_rng(1).standard_normal((40, 2))
    R = ClassAffinity(Y, 4, scale=5, capacity=3)
    np.testing.assert_allclose(R.times(V), 5 * S @ V)
    for h in H.T:
        R.add(h)
    np.testing.assert_allclose(R.times(V), (5 * S - H @ H.T) @ V)
    np.testing.assert_allclose(R.times(V[:, 0]), (5 * S - H @ H.T) @ V[:, 0])


def test_the_first_bit_starts_at_the_leading_generalised_eigenvector():
    """Without a climb the first bit is the sign of K a with K' S K a = lambda K' K a, lambda the largest."""
    coder = KSH(n_bits=3, n_anchors=12, n_iter=0).fit(X, Y)
    K = Anchors(coder.anchors_, coder.gamma_)(X).astype(float)
    K -= K.mean(axis=0)
    a = eigh(K.T @ (3 * S) @ K, K.T @ K)[1][:, -1]
    expected = np.where(K @ a >= 0, 1, -1)
    assert abs(coder.transform(X)[:, 0] @ expected) == 40


def test_the_climb_has_the_right_gradient_and_climbs(monkeypatch):
    Z = np.random.default_rng(2).standard_normal((40, 5))
    R = ClassAffinity(Y, 4, scale=6, capacity=2)
    R.add(bits(1)[:, 0])
    captured = {}

    def minimize(lost, start, **_):
        captured.update(lost=lost, start=start)
        return original(lost, start, **_)

    original = module.minimize
    monkeypatch.setattr(module, "minimize", minimize)
    a = module.climb(Z, R, np.ones(5), 100)
    lost = captured["lost"]
    assert check_grad(lambda v: lost(v)[0], lambda v: lost(v)[1], 0.3 * np.arange(5)) < 1e-6
    dense = 6 * S - np.outer(bits(1)[:, 0], bits(1)[:, 0])
    b = np.tanh(Z @ a / 2)
    assert lost(a)[0] == pytest.approx(-(b @ dense @ b) / (6 * 40**2))
    assert lost(a)[0] < lost(np.ones(5))[0]


def test_residues_are_those_of_the_dense_matrices():
    H = bits(5)
    expected = [np.mean((S - H[:, : s + 1] @ H[:, : s + 1].T / 5) ** 2) for s in range(5)]
    np.testing.assert_allclose(module.residues(H, Y, 4), expected)


def test_the_residue_falls_with_every_bit_and_further_with_climbs():
    coders = [KSH(n_bits=16, n_anchors=30, n_iter=n).fit(X, Y) for n in (0, 500)]
    for coder in coders:
        assert (np.diff(coder.objective_) < 0).all()
        H = coder.transform(X).astype(float)
        assert coder.objective_[-1] == pytest.approx(np.mean((S - H @ H.T / 16) ** 2), abs=1e-3)
    assert coders[1].objective_[-1] < coders[0].objective_[-1]


def test_the_width_is_that_of_the_mean_squared_distance():
    coder = KSH(n_bits=2, n_anchors=7).fit(X, Y)
    squared = np.sum((X[:, None] - coder.anchors_) ** 2, axis=2)
    assert coder.gamma_ == pytest.approx(1 / (2 * squared.mean()))


def test_labelled_samples_are_a_part_of_all():
    assert KSH(n_bits=2, n_labelled=10, n_anchors=5).fit(X, Y).transform(X).shape == (40, 2)
    np.testing.assert_array_equal(
        KSH(n_bits=4, n_labelled=40, n_anchors=5).fit(X, Y).encode(X), KSH(n_bits=4, n_anchors=5).fit(X, Y).encode(X)
    )


def test_X_that_does_not_vary_is_named():
    with pytest.raises(ValueError, match="X"):
        KSH(n_bits=2).fit(np.ones((10, 3)), np.arange(10) % 2)
    with pytest.raises(ValueError, match="underflow"):
        KSH(n_bits=2).fit(X * 1e-200, Y)
