"""The rotation of iterative quantisation."""

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes

from cbid.coders.rivals.rotation import fit_rotation


def lost(V, R):
    return np.sum((np.where(V @ R >= 0, 1, -1) - V @ R) ** 2)


@pytest.mark.parametrize(("axes", "n_bits"), [(4, 4), (3, 8), (1, 5)])
def test_rows_stay_orthonormal_and_the_loss_never_rises(axes, n_bits):
    V = np.random.default_rng(0).standard_normal((80, axes)) * np.arange(1, axes + 1)
    turns = [fit_rotation(V, n_bits, n_iter=n, rng=np.random.default_rng(1)) for n in range(8)]
    for R in turns:
        np.testing.assert_allclose(R @ R.T, np.eye(axes), atol=1e-12)
    assert (np.diff([lost(V, R) for R in turns]) <= 1e-9).all()
    assert lost(V, turns[-1]) < lost(V, turns[0])


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
    losses = [lost(V, fit_rotation(V, 3, n_iter=50, rng=np.random.default_rng(s))) for s in range(5)]
    assert min(losses) < 1e-9
