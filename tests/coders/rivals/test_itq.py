"""ITQ, CCA-ITQ and the rotation that both learn."""

import itertools

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes

from cbid.coders import CCAITQ, ITQ, PCASign
from cbid.coders.rivals.signs import canonical_directions, fit_rotation
from cbid.learning.scaling import centre
from tests.coders.blobs import blobs


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
    with pytest.raises(ValueError, match=r"n_bits=11\b.*\b10\b"):
        ITQ(n_bits=11).fit(X)


def test_bits_lie_in_the_span_of_directions_weighed_by_their_correlations():
    """Without turns the rotation is the random start R, and coef = R' (W diag(correlations))' / unit."""
    X, y = blobs(n=120, d=6, k=4)
    coder = CCAITQ(n_bits=8, n_iter=0).fit(X, y)
    data = centre(X)
    W, correlations = canonical_directions(data.Z, y, 4, reg=1e-4)
    weighed = W * correlations / data.unit
    R = np.linalg.lstsq(weighed, coder.coef_.T, rcond=None)[0]
    np.testing.assert_allclose(weighed @ R, coder.coef_.T, atol=1e-10)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-8)
    np.testing.assert_allclose(coder.coef_ @ X.mean(axis=0) + coder.intercept_, 0, atol=1e-10)


def test_fewer_bits_than_directions_take_the_strongest():
    X, y = blobs(n=120, d=6, k=5)
    coder = CCAITQ(n_bits=1).fit(X, y)
    data = centre(X)
    W, _ = canonical_directions(data.Z, y, 5, reg=1e-4)
    cosine = coder.coef_[0] @ W[:, 0] / np.linalg.norm(coder.coef_[0]) / np.linalg.norm(W[:, 0])
    assert abs(cosine) > 1 - 1e-9
    assert coder.n_bits_ == 1


def test_more_bits_than_directions_say_more():
    X, y = blobs(n=200, d=6, k=3, apart=0.5)
    bits = CCAITQ(n_bits=16).fit(X, y).transform(X)
    assert len(np.unique(bits * bits[:1], axis=1).T) > 2  # bits of two directions, up to their complements


def rotation_loss(V, R):
    return np.sum((np.where(V @ R >= 0, 1, -1) - V @ R) ** 2)


@pytest.mark.parametrize(("axes", "n_bits"), [(4, 4), (3, 8), (1, 5)])
def test_rows_stay_orthonormal_and_the_loss_never_rises(axes, n_bits):
    V = np.random.default_rng(0).standard_normal((80, axes)) * np.arange(1, axes + 1)
    turns = [fit_rotation(V, n_bits, n_iter=n, rng=np.random.default_rng(1)) for n in range(8)]
    for R in turns:
        np.testing.assert_allclose(R @ R.T, np.eye(axes), atol=1e-12)
    assert (np.diff([rotation_loss(V, R) for R in turns]) <= 1e-9).all()
    assert rotation_loss(V, turns[-1]) < rotation_loss(V, turns[0])


def test_one_turn_is_the_orthogonal_procrustes_problem():
    V = np.random.default_rng(0).standard_normal((50, 4))
    start = fit_rotation(V, 4, n_iter=0, rng=np.random.default_rng(2))
    B = np.where(V @ start >= 0, 1.0, -1.0)
    np.testing.assert_allclose(
        fit_rotation(V, 4, n_iter=1, rng=np.random.default_rng(2)), orthogonal_procrustes(V, B)[0], atol=1e-9
    )


def test_corners_of_a_turned_cube_are_found_again():
    """V are corners turned by a small known rotation: the loss can be zero, and is."""
    rng = np.random.default_rng(3)
    corners = np.where(rng.standard_normal((200, 3)) >= 0, 1.0, -1.0)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    V = corners @ turn
    losses = [rotation_loss(V, fit_rotation(V, 3, n_iter=50, rng=np.random.default_rng(s))) for s in range(5)]
    assert min(losses) < 1e-9
