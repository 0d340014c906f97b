"""Image gradients, and histograms of their orientation over the cells of a grid.

Shared by HOG, its pyramid and the detector. All functions are pure; the loops are compiled and release the GIL. An
image needs few calls, because small windows would spend their time on acquiring the GIL.

The rule at the border: the derivative is the difference of the two neighbours along its axis, and zero in the first
and the last row (for rows) or column (for columns), where one neighbour is missing. So the values of an image that is
cut from a larger one differ from those of the larger one in the outermost pixels only.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_choice, check_integer
from cbid.descriptors._oriented import differences, vote
from cbid.descriptors._oriented import share_votes as share_votes  # also for the detector

VOTING = ("trilinear", "hard")
Floats = NDArray[np.floating]
# The position of each row of pixels counted in cells, the same for columns, and the number of cells along the two.
# Pixels before 0 and past that number belong to no cell.
Grid = tuple[NDArray[np.float64], NDArray[np.float64], tuple[int, int]]
# For each pixel of a line the first cell that it votes for, (side,), and its shares for that and the next ones.
Shares = tuple[NDArray[np.int64], NDArray[np.float32]]


def gradients(image: NDArray[Any], *, sqrt: bool = False) -> tuple[Floats, Floats]:
    """Return derivatives along columns (dx) and rows (dy), each (h, w), in units of white.

    At each pixel of a colour image the channel with the longest gradient counts, the first of equals. uint8 images
    give float32, floats their own type. ``sqrt`` takes the root of the values first (gamma compression).
    """
    planes, scale, dx, dy = prepared(image[None], sqrt)
    differences(planes[0], scale, dx, dy)
    return dx, dy


def prepared(images: NDArray[Any], sqrt: bool) -> tuple[NDArray[Any], float, Floats, Floats]:
    """Return images of one size as (n, h, w, channels), the scale of differences, and buffers for dx and dy."""
    if sqrt:
        images = np.sqrt(images / np.float32(255) if images.dtype == np.uint8 else images)
    # Differences of uint8 are taken as integers, so that equal values stay equal.
    scale, dtype = (1 / 255, np.dtype(np.float32)) if images.dtype == np.uint8 else (1.0, images.dtype)
    dx, dy = np.empty((2, *images.shape[1:3]), dtype)
    return np.ascontiguousarray(images).reshape(*images.shape[:3], -1), scale, dx, dy


def check_orientations(orientations: Any, signed: Any) -> None:
    """Raise a ValueError unless ``orientations`` is a valid number of bins."""
    check_integer("orientations", orientations, 1, 360)
    check_choice("signed", signed, (True, False))
    if signed and orientations % 2:
        raise ValueError(f"orientations={orientations!r} with signed=True: expected an even number")


def grid_of_cells(shape: tuple[int, ...], cell: int, margin: int = 0) -> Grid:
    """Return the grid of complete square cells of an image, starting ``margin`` pixels from its corner."""
    height, width = (max(0, (side - 2 * margin) // cell) for side in shape[:2])
    rows, columns = ((np.arange(side) - margin + 0.5) / cell for side in shape[:2])
    return rows, columns, (height, width)


def grid_of_regions(shape: tuple[int, ...], height: int, width: int) -> Grid:
    """Return the grid of height x width equal regions of an image of that shape.

    Pixels less than half a region from the border count as lying at the centre of their region, so that no vote is
    lost outside the image.
    """
    rows, columns = ((np.arange(side) + 0.5) * (count / side) for side, count in zip(shape, (height, width)))
    return np.clip(rows, 0.5, height - 0.5), np.clip(columns, 0.5, width - 0.5), (height, width)


def orientation_histograms(
    dx: Floats, dy: Floats, grid: Grid, orientations: int, *, signed: bool = False, voting: str = "trilinear"
) -> NDArray[np.float32]:
    """Return sums of gradient lengths (rows, columns, orientations) by cell and orientation.

    Bin k holds the angles from k to k + 1 times 180 degrees / orientations, from the direction of the columns towards
    that of the rows; opposite gradients fall together. With ``signed`` the bins go around the full circle.

    voting "hard": a pixel votes for its own cell and bin. "trilinear": the vote is shared, linearly in the distance,
    by the two bins and the two rows and columns of cells with the nearest centres; votes outside are dropped.
    """
    rows, columns, (height, width) = grid
    histograms = np.zeros((height, width, orientations))  # float64: a cell may hold millions of pixels
    if voting == "trilinear":
        share_votes(dx, dy, signed, *_nearest_two(rows, height), *_nearest_two(columns, width), histograms)
    else:
        vote(dx, dy, rows, columns, *_boundaries(orientations, signed, dx.dtype), signed, histograms)
    return histograms.astype(np.float32)


def votes_of_cells(
    shape: tuple[int, ...], dtype: np.dtype[Any], cell: int, margin: int, orientations: int, signed: bool, voting: str
) -> tuple[tuple[int, int, int], tuple[Any, ...]]:
    """Return the shape of the histograms of ``grid_of_cells``, and the votes argument of ``mean_votes``.

    dtype: of the gradients.
    """
    (rows, columns, count), row_shares, column_shares = _shared_grid(shape[:2], cell, margin)
    boundaries = _boundaries(orientations, signed, dtype)
    votes = (voting == "trilinear", signed, cell, row_shares, column_shares, (rows, columns), boundaries)
    return (*count, orientations), votes


@lru_cache(maxsize=64)
def _shared_grid(shape: tuple[int, ...], cell: int, margin: int) -> tuple[Grid, Shares, Shares]:
    """Return ``grid_of_cells`` and the shares of its rows and columns, cached for windows of one size."""
    grid = grid_of_cells(shape, cell, margin)
    rows, columns, (height, width) = grid
    return grid, _nearest_two(rows, height), _nearest_two(columns, width)


def _nearest_two(positions: NDArray[np.float64], count: int) -> Shares:
    """Return the shares of the two nearest cells, linear in the distance; cells outside 0..count get 0."""
    first = np.floor(positions - 0.5).astype(np.int64)
    part = positions - 0.5 - first
    shares = np.stack([1 - part, part], axis=1)
    cells = first[:, None] + np.arange(2)
    shares[(cells < 0) | (cells >= count)] = 0
    return first, shares.astype(np.float32)


@lru_cache(maxsize=64)
def _boundaries(orientations: int, signed: bool, dtype: np.dtype[Any]) -> tuple[Floats, Floats]:
    """Return cosines and sines of the boundaries between the bins of the upper half plane.

    A gradient there lies past a boundary when its cross product with it is not negative. Rounded, so
    that the boundaries at 45 and 90 degrees are exact.
    """
    bins = orientations // 2 if signed else orientations
    angles = math.pi * np.arange(1, bins) / bins
    return np.round(np.cos(angles), 15).astype(dtype), np.round(np.sin(angles), 15).astype(dtype)
