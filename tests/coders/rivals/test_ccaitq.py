"""CCA-ITQ: its parts have tests of their own; here, how they are put together."""

import numpy as np

from cbid.coders import CCAITQ
from cbid.coders.rivals.discriminants import canonical_directions
from cbid.learning.centring import centre
from tests.coders.blobs import blobs


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
