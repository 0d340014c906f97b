"""Iterative quantisation: what it minimises, and a cube that it must find."""

import itertools

import numpy as np
import pytest

from cbid.coders import ITQ, PCASign


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.standard_normal((400, 10)) @ rng.standard_normal((10, 10))


def lost(coder, X):
    """||B - V R||^2 for each sample."""
    P = coder.project(X)
    return np.mean(np.sum((np.where(P >= 0, 1, -1) - P) ** 2, axis=1))


def test_it_rotates_the_leading_principal_axes(X):
    coder, axes = ITQ(n_bits=6).fit(X), PCASign(n_bits=6).fit(X)
    np.testing.assert_allclose(coder.coef_ @ coder.coef_.T, np.eye(6), atol=1e-9)
    rotation = coder.coef_ @ axes.coef_.T
    np.testing.assert_allclose(rotation @ axes.coef_, coder.coef_, atol=1e-9)  # the same subspace
    np.testing.assert_allclose(coder.project(X).mean(axis=0), 0, atol=1e-9)


def test_every_turn_loses_less(X):
    losses = [lost(ITQ(n_bits=6, n_iter=n, random_state=3).fit(X), X) for n in range(12)]
    assert (np.diff(losses) <= 1e-9).all()
    assert losses[-1] < 0.99 * losses[0]


def test_it_finds_the_cube_that_was_turned():
    """The 16 corners of a turned cube in 9 dimensions: at the optimum nothing is lost, and the distance of codes is a
    quarter of the squared distance of corners. Local optima lose more, so the best of a few starts is asked for."""
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((9, 9)))[0][:4]
    X = corners @ turn + 5
    best = min((ITQ(n_bits=4, random_state=s).fit(X) for s in range(5)), key=lambda coder: lost(coder, X))
    assert lost(best, X) == pytest.approx(0, abs=1e-9)
    bits = best.transform(X)
    differing = (bits[:, None] != bits).sum(axis=2)
    np.testing.assert_array_equal(differing, (corners[:, None] != corners).sum(axis=2))


def test_n_bits_stops_at_the_axes(X):
    with pytest.raises(ValueError, match=r"n_bits=11 .* 10 axes"):
        ITQ(n_bits=11).fit(X)
