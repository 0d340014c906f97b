"""Distances of neighbours on a line."""

import numpy as np
import pytest

from cbid.coders.rivals.scales import neighbour_distance


def test_the_kth_nearest_on_a_circle():
    """All points see the same: the nearest two are one step away, the next two two steps."""
    angle = 2 * np.pi * np.arange(60) / 60
    X = 5 * np.column_stack([np.cos(angle), np.sin(angle)]) + 100
    for k, steps in ((1, 1), (2, 1), (3, 2), (59, 30), (500, 30)):
        expected = 10 * np.sin(np.pi * steps / 60)
        assert neighbour_distance(X, k, name="r", rng=np.random.default_rng(0)) == pytest.approx(expected)
    one_more = np.vstack([X, X[:10]])
    assert neighbour_distance(one_more, 1, name="r", rng=np.random.default_rng(0)) == pytest.approx(
        10 * np.sin(np.pi / 60)
    )


def test_one_point_has_no_distance():
    with pytest.raises(ValueError, match=r"r=None .* one point; give r"):
        neighbour_distance(np.ones((5, 2)), 1, name="r", rng=np.random.default_rng(0))
