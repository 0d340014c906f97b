"""Cells, weights of grids, and pooling held against a loop over the rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from cbid.bags import Bags
from cbid.pooling.base import cell_weights, cells_of, check_pyramid, pool
from tests.pooling.made import made_bags


def test_grids_are_numbers_or_pairs():
    assert check_pyramid((1, 2, (3, 1))) == [(1, 1), (2, 2), (3, 1)]
    assert check_pyramid([np.int64(4)]) == [(4, 4)]


@pytest.mark.parametrize("pyramid", [(), "124", 4, None, (0,), (1.5,), ((2, 2, 2),), ((2, 0),), (True,)])
def test_invalid_pyramids_are_rejected(pyramid):
    with pytest.raises(ValueError, match="pyramid"):
        check_pyramid(pyramid)


def test_weights_of_the_pyramid_match():
    """Three grids: 1/4 for the whole image, 1/4 for 2 x 2, 1/2 for 4 x 4 (Lazebnik et al., section 3.2)."""
    grids = check_pyramid((1, 2, 4))
    assert cell_weights(grids, "match").tolist() == [0.25] * 5 + [0.5] * 16
    assert cell_weights(grids, None).tolist() == [1] * 21
    assert cell_weights(check_pyramid((3,)), "match").tolist() == [1] * 9


def test_cells_of_the_corners_and_the_middle():
    """An image of 10 x 20 in 2 x 2 and 3 x 1 cells: pixels 9 and 10 are on both sides of the middle column."""
    x, y = [0, 9, 10, 19, 19, 0], [0, 0, 0, 9, 4, 5]
    bags = Bags.from_list([np.zeros((6, 1))], [np.column_stack([x, y, np.ones(6)])], [(10, 20)])
    cells = cells_of(bags, check_pyramid((1, 2, (3, 1))))
    assert cells[:, 0].tolist() == [0] * 6
    assert cells[:, 1].tolist() == [1, 1, 2, 4, 2, 3]
    assert cells[:, 2].tolist() == [5, 5, 5, 7, 6, 6]


@given(st.integers(1, 900), st.integers(1, 900), st.integers(1, 7), st.integers(1, 7))
def test_every_pixel_has_the_cell_of_whole_numbers(height, width, rows, columns):
    """The centre of pixel x lies at (2 x + 1) / (2 width) of the width; in whole numbers nothing is rounded."""
    x, y = np.arange(max(height, width)) % width, np.arange(max(height, width)) % height
    bags = Bags.from_list([np.zeros((len(x), 1))], [np.column_stack([x, y, x])], [(height, width)])
    expected = (2 * y + 1) * rows // (2 * height) * columns + (2 * x + 1) * columns // (2 * width)
    np.testing.assert_array_equal(cells_of(bags, [(rows, columns)])[:, 0], expected)


def test_patches_beyond_the_image_are_with_the_nearest_cell():
    bags = Bags.from_list([np.zeros((2, 1))], [[[-9, -9, 30], [99, 99, 30]]], [(10, 10)])
    assert cells_of(bags, [(2, 2)])[:, 0].tolist() == [0, 3]


def test_a_pyramid_needs_positions():
    bags = Bags.from_list([np.zeros((3, 2))])
    assert cells_of(bags, [(1, 1)]).tolist() == [[0], [0], [0]]
    with pytest.raises(ValueError, match="frames and shapes"):
        cells_of(bags, [(1, 1), (2, 2)])


@pytest.mark.parametrize("how", ["sum", "max"])
@pytest.mark.parametrize("seed", range(3))
def test_pooling_equals_a_loop_over_rows(how, seed):
    bags = made_bags(seed=seed)
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(len(bags.values), 7)) * (rng.random((len(bags.values), 7)) < 0.4)
    grids = check_pyramid((1, (2, 3), 4))
    cells = cells_of(bags, grids)
    expected = np.zeros((len(bags), 23, 7))
    for row, image in enumerate(bags.owners):
        for cell in cells[row]:
            part = expected[image, cell]
            part[:] = part + dense[row] if how == "sum" else np.maximum(part, dense[row])
    pooled = pool(csr_array(dense.astype(np.float32)), bags.offsets, cells, 23, how)
    assert pooled.dtype == np.float32
    np.testing.assert_allclose(pooled, expected, rtol=1e-5, atol=1e-6)


def test_the_cells_of_each_grid_add_up_to_the_image():
    bags = made_bags()
    codes = csr_array(np.abs(bags.values))
    pooled = pool(codes, bags.offsets, cells_of(bags, [(1, 1), (2, 2), (1, 3)]), 8, "sum")
    for cells in (slice(1, 5), slice(5, 8)):
        np.testing.assert_allclose(pooled[:, cells].sum(axis=1), pooled[:, 0], rtol=1e-5)
