"""K-means hashing: bits are numbers of nearest centres, and axes are dealt out fairly."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.coders import KMeansHashing
from cbid.coders.rivals.kmeans_hashing import deal_axes


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.standard_normal((500, 12)) * np.linspace(3, 1, 12)


def test_bits_are_numbers_of_nearest_centres(X):
    """10 bits in subspaces of 4, 4 and 2."""
    coder = KMeansHashing(n_bits=10).fit(X)
    Z = (X - coder.mean_) @ coder.axes_.T
    expected, first = [], 0
    for m, b in enumerate([4, 4, 2]):
        part = Z[:, coder.subspace_ == m]
        centres = coder.centres_[first : first + 2**b, : part.shape[1]]
        number = np.linalg.norm(part[:, None] - centres, axis=2).argmin(axis=1)
        expected += [number >> s & 1 for s in range(b - 1, -1, -1)]
        first += 2**b
    np.testing.assert_array_equal(coder.transform(X), 2 * np.array(expected).T - 1)
    assert first == len(coder.centres_) == 36


def test_clusters_at_the_corners_of_a_cube_get_the_corners_codes():
    """Eight clusters at corners of a cube in 3 of 5 dimensions: codes of two clusters differ as their corners do."""
    rng = np.random.default_rng(0)
    corners = np.array(list(itertools.product([-1, 1], repeat=3)))
    X = np.zeros((400, 5))
    X[:, :3] = np.tile(corners, (50, 1)) * [4, 4.2, 4.4]
    X += 0.1 * rng.standard_normal(X.shape)
    bits = KMeansHashing(n_bits=3).fit(X).transform(X)
    np.testing.assert_array_equal(bits, np.tile(bits[:8], (50, 1)))
    np.testing.assert_array_equal((bits[:8, None] != bits[:8]).sum(axis=2), (corners[:, None] != corners).sum(axis=2))


@settings(deadline=None)
@given(st.lists(st.floats(1e-3, 1e3), min_size=8, max_size=40), st.sampled_from([[4, 4], [4, 4, 0], [3, 3, 2], [8]]))
def test_axes_are_all_dealt_and_no_subspace_is_too_small(variances, shares):
    shares = [b for b in shares if b]
    dealt = deal_axes(np.sort(variances)[::-1], shares)
    sizes = np.bincount(dealt, minlength=len(shares))
    assert sizes.sum() == len(variances)
    assert (sizes >= shares).all()
    assert np.abs(sizes / shares - len(variances) / sum(shares)).max() <= 1


def test_subspaces_are_balanced():
    """Variances 16, 8, 4, 2: of all ways to make pairs only 16 with 2 and 8 with 4 have the same product, 32."""
    np.testing.assert_array_equal(deal_axes(np.array([16.0, 8.0, 4.0, 2.0]), [2, 2]), [0, 1, 1, 0])


def test_limits_and_settings(X):
    with pytest.raises(ValueError, match=r"n_bits=13 .* 12 axes"):
        KMeansHashing(n_bits=13).fit(X)
    for params, message in (({"bits_per_subspace": 9}, "bits_per_subspace=9"), ({"lam": -1}, "lam=-1")):
        with pytest.raises(ValueError, match=message):
            KMeansHashing(n_bits=2, **params).fit(X)
