import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.descriptors._oriented import _angle
from cbid.descriptors.gradients import (
    check_orientations,
    gradients,
    grid_of_cells,
    grid_of_regions,
    orientation_histograms,
)


def votes_one_by_one(dx, dy, grid, orientations, signed, voting):
    """The definition, pixel by pixel: weights of bins and cells from the distance to their centres."""
    rows, columns, (height, width) = grid
    turn = 2 * math.pi if signed else math.pi
    histograms = np.zeros((height, width, orientations))
    for i in range(dx.shape[0]):
        for j in range(dx.shape[1]):
            bin_ = (math.atan2(dy[i, j], dx[i, j]) % turn) / turn * orientations
            for r in range(height):
                for c in range(width):
                    for o in range(orientations):
                        if voting == "hard":
                            weight = float((math.floor(rows[i]), math.floor(columns[j]), int(bin_)) == (r, c, o))
                        else:
                            away = abs(bin_ - (o + 0.5))
                            around = min(away, orientations - away)
                            distances = abs(rows[i] - (r + 0.5)), abs(columns[j] - (c + 0.5)), around
                            weight = math.prod(max(0.0, 1 - d) for d in distances)
                        histograms[r, c, o] += weight * math.hypot(dx[i, j], dy[i, j])
    return histograms


@pytest.mark.parametrize("voting", ["hard", "trilinear"])
@pytest.mark.parametrize(("signed", "orientations"), [(False, 5), (False, 9), (True, 6)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_votes_follow_the_definition(voting, signed, orientations, dtype):
    dx, dy = np.random.default_rng(0).normal(size=(2, 13, 11)).astype(dtype)
    for grid in (grid_of_cells(dx.shape, 3, 1), grid_of_cells(dx.shape, 4), grid_of_regions(dx.shape, 3, 2)):
        found = orientation_histograms(dx, dy, grid, orientations, signed=signed, voting=voting)
        expected = votes_one_by_one(dx, dy, grid, orientations, signed, voting)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_differences_of_neighbours_and_zero_at_the_border():
    """image[i, j] = i^2 + 10 j over 200: dy = ((i+1)^2 - (i-1)^2) / 200 = 4 i / 200, dx = 20 / 200 inside."""
    i, j = np.mgrid[:5, :6]
    dx, dy = gradients((i**2 + 10 * j) / 200)
    np.testing.assert_allclose(dx[:, 1:-1], 0.1, rtol=1e-12)
    np.testing.assert_allclose(dy[1:-1], (4 * i / 200)[1:-1], rtol=1e-12)
    assert not dx[:, [0, -1]].any()
    assert not dy[[0, -1]].any()


def test_longest_channel_counts_and_the_first_of_equals():
    """Along the row the channels rise by 2, 4 and 4 (3rd: along columns): the second has length 4, as the third."""
    image = np.zeros((3, 3, 3), dtype=np.uint8)
    image[1, 2] = (2, 4, 0)
    image[2, 1, 2] = 4
    dx, dy = gradients(image)
    assert (dx[1, 1], dy[1, 1]) == (np.float32(4 / 255), 0)


@pytest.mark.parametrize("sqrt", [False, True])
def test_types_agree(sqrt):
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    exact = gradients(image / 255, sqrt=sqrt)
    for other in (image, (image / 255).astype(np.float32)):
        for found, expected in zip(gradients(other, sqrt=sqrt), exact):
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected, atol=2e-7)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_regions_lose_nothing(height, width, rows, columns, seed):
    dx, dy = np.random.default_rng(seed).normal(size=(2, height, width))
    grid = grid_of_regions(dx.shape, rows, columns)
    for voting in ("hard", "trilinear"):
        found = orientation_histograms(dx, dy, grid, 8, voting=voting)
        np.testing.assert_allclose(found.sum(), np.hypot(dx, dy).sum(), rtol=1e-5)


def test_opposite_gradients_fall_together_unless_signed():
    dx, dy = np.random.default_rng(0).normal(size=(2, 16, 16))
    grid = grid_of_cells(dx.shape, 8)
    for voting in ("hard", "trilinear"):
        one, other = (orientation_histograms(s * dx, s * dy, grid, 8, voting=voting) for s in (1, -1))
        np.testing.assert_allclose(one, other, rtol=1e-5)
        one, other = (orientation_histograms(s * dx, s * dy, grid, 8, signed=True, voting=voting) for s in (1, -1))
        np.testing.assert_allclose(one, np.roll(other, 4, axis=2), rtol=1e-5)


def test_diagonals_fall_into_the_bin_that_they_open():
    """With eight bins 45 degrees opens bin 2, 90 bin 4 and 135 bin 6; 180 is 0."""
    dx = np.array([[1.0, 0.0, -1.0, -1.0, 1.0]], dtype=np.float32)
    dy = np.array([[1.0, 1.0, 1.0, 0.0, 0.0]], dtype=np.float32)
    found = orientation_histograms(dx, dy, grid_of_regions(dx.shape, 1, 1), 8, voting="hard")[0, 0]
    root = math.sqrt(2)
    np.testing.assert_allclose(found, [2, 0, root, 0, 1, 0, root, 0], rtol=1e-6)


def test_odd_bins_cannot_be_signed():
    with pytest.raises(ValueError, match="orientations=9"):
        check_orientations(9, True)


def test_angles_equal_atan2():
    """Within the last bits of float32, at the axes and diagonals too."""
    x, y = np.random.default_rng(0).normal(size=(2, 2000)).astype(np.float32)
    around = np.array([-1, 0, 1], dtype=np.float32)
    x, y = np.append(x, np.repeat(around, 3)), np.append(y, np.tile(around, 3))
    found = [_angle(*pair) for pair in zip(x, y)]
    np.testing.assert_allclose(found, np.arctan2(y, x, dtype=np.float64), rtol=0, atol=4e-7)


@pytest.mark.parametrize("voting", ["hard", "trilinear"])
@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_does_no_harm(voting, strange):
    image = np.zeros((12, 12))
    image[5, 6] = image[6, 5] = strange
    dx, dy = gradients(image)
    found = orientation_histograms(dx, dy, grid_of_cells(dx.shape, 3), 9, voting=voting)
    assert not np.isfinite(found[1:3, 1:3]).all()
    assert not found[0, 0].any()  # far from it
