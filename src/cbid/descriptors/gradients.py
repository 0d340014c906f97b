"""Image gradients, and histograms of their orientation over the cells of a grid.

What HOG, its pyramid and the detector share. All functions are pure; the loops are compiled and let other threads
run. There are few of them to an image, since small windows would spend their time on passing Python's lock around.

A trilinear vote is shared by the two nearest bins, rows and columns of cells. A row of pixels votes along itself
first; its histograms are then shared among the rows of cells.

The rule at the border: the derivative is the difference of the two neighbours along its axis, and zero in the first
and the last row (for rows) or column (for columns), where one neighbour is missing. So the values of an image that is
cut from a larger one differ from those of the larger one in the outermost pixels only.
"""

import math
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_choice, check_integer

__all__ = [
    "VOTING",
    "Grid",
    "Shares",
    "check_orientations",
    "gradients",
    "grid_of_cells",
    "grid_of_regions",
    "mean_votes",
    "orientation_histograms",
    "prepared",
    "share_votes",
    "votes_of_cells",
]

VOTING = ("trilinear", "hard")
# Lengths that differ by less are equal: what float32 makes of photographs of 8 bits differs by up to half of that.
_EQUAL = 5e-7
Floats = NDArray[np.floating]
# The position of each row of pixels counted in cells, the same for columns, and the number of cells along the two.
# Pixels before 0 and past that number belong to no cell.
Grid = tuple[NDArray[np.float64], NDArray[np.float64], tuple[int, int]]
# For each pixel of a line the first cell that it votes for, (side,), and its shares for that and the next ones.
Shares = tuple[NDArray[np.int64], NDArray[np.float32]]


def gradients(image: NDArray[Any], *, sqrt: bool = False) -> tuple[Floats, Floats]:
    """Derivatives along columns (dx) and rows (dy), each (h, w), of an image whose white is 1.

    At each pixel of a colour image the channel with the longest gradient counts, the first of equals. uint8 images
    give float32, floats their own type. ``sqrt`` takes the root of the values first (gamma compression).
    """
    planes, scale, dx, dy = prepared(image[None], sqrt)
    _differences(planes[0], scale, dx, dy)
    return dx, dy


def prepared(images: NDArray[Any], sqrt: bool) -> tuple[NDArray[Any], float, Floats, Floats]:
    """Images of one size as (n, h, w, channels), what differences of their values are to be multiplied by, and room
    for dx and dy of one of them."""
    if sqrt:
        images = np.sqrt(images / np.float32(255) if images.dtype == np.uint8 else images)
    # Whole numbers stay so until the differences are taken: equal ones stay equal.
    scale, dtype = (1 / 255, np.dtype(np.float32)) if images.dtype == np.uint8 else (1.0, images.dtype)
    dx, dy = np.empty((2, *images.shape[1:3]), dtype)
    return np.ascontiguousarray(images).reshape(*images.shape[:3], -1), scale, dx, dy


def check_orientations(orientations: Any, signed: Any) -> None:
    """A ValueError unless a circle, or half of one, can be cut into so many bins."""
    check_integer("orientations", orientations, 1, 360)
    check_choice("signed", signed, (True, False))
    if signed and orientations % 2:
        raise ValueError(f"orientations={orientations!r} is not accepted with signed=True; give an even number")


def grid_of_cells(shape: tuple[int, ...], cell: int, margin: int = 0) -> Grid:
    """The whole square cells of an image of that shape, from ``margin`` pixels inside its corner on."""
    height, width = (max(0, (side - 2 * margin) // cell) for side in shape[:2])
    rows, columns = ((np.arange(side) - margin + 0.5) / cell for side in shape[:2])
    return rows, columns, (height, width)


def grid_of_regions(shape: tuple[int, ...], height: int, width: int) -> Grid:
    """The whole image of that shape in height x width equal regions.

    Pixels less than half a region from the border count as lying at its middle: a vote shared with the next region
    there finds none, and must not be lost.
    """
    rows, columns = ((np.arange(side) + 0.5) * (count / side) for side, count in zip(shape, (height, width)))
    return np.clip(rows, 0.5, height - 0.5), np.clip(columns, 0.5, width - 0.5), (height, width)


def orientation_histograms(
    dx: Floats, dy: Floats, grid: Grid, orientations: int, *, signed: bool = False, voting: str = "trilinear"
) -> NDArray[np.float32]:
    """Sums of gradient lengths (rows, columns, orientations) by cell and orientation.

    Bin k holds the angles from k to k + 1 times 180 degrees / orientations, from the direction of the columns towards
    that of the rows; opposite gradients fall together. With ``signed`` the bins go around the full circle.

    voting "hard": a pixel votes for its own cell and bin. "trilinear": the vote is shared, linearly in the distance,
    by the two bins and the two rows and columns of cells with the nearest centres; what falls outside is lost.
    """
    rows, columns, (height, width) = grid
    histograms = np.zeros((height, width, orientations))  # float64: a cell may hold millions of pixels
    if voting == "trilinear":
        share_votes(dx, dy, signed, *_nearest_two(rows, height), *_nearest_two(columns, width), histograms)
    else:
        _vote(dx, dy, rows, columns, *_boundaries(orientations, signed, dx.dtype), signed, histograms)
    return histograms.astype(np.float32)


def votes_of_cells(
    shape: tuple[int, ...], dtype: np.dtype[Any], cell: int, margin: int, orientations: int, signed: bool, voting: str
) -> tuple[tuple[int, int, int], tuple[Any, ...]]:
    """The shape of the histograms of ``grid_of_cells``, and who votes for which, as ``mean_votes`` takes it.

    dtype: of the gradients.
    """
    (rows, columns, count), row_shares, column_shares = _shared_grid(shape[:2], cell, margin)
    boundaries = _boundaries(orientations, signed, dtype)
    return (*count, orientations), (
        *(voting == "trilinear", signed, cell),
        *(row_shares, column_shares, (rows, columns), boundaries),
    )


@lru_cache(maxsize=64)
def _shared_grid(shape: tuple[int, ...], cell: int, margin: int) -> tuple[Grid, Shares, Shares]:
    """``grid_of_cells``, and the shares of its rows and columns; the same for all windows of one size."""
    grid = grid_of_cells(shape, cell, margin)
    rows, columns, (height, width) = grid
    return grid, _nearest_two(rows, height), _nearest_two(columns, width)


def _nearest_two(positions: NDArray[np.float64], count: int) -> Shares:
    """The shares of two cells, linear in the distance to their centres; cells outside 0..count get none."""
    first = np.floor(positions - 0.5).astype(np.int64)
    part = positions - 0.5 - first
    shares = np.stack([1 - part, part], axis=1)
    cells = first[:, None] + np.arange(2)
    shares[(cells < 0) | (cells >= count)] = 0
    return first, shares.astype(np.float32)


@lru_cache(maxsize=64)
def _boundaries(orientations: int, signed: bool, dtype: np.dtype[Any]) -> tuple[Floats, Floats]:
    """Cosines and sines of the angles between the bins of the upper half plane.

    A gradient there lies past a boundary when its cross product with it is not negative. Rounded, so that the
    boundaries at 45 and 90 degrees are what they should be.
    """
    bins = orientations // 2 if signed else orientations
    angles = math.pi * np.arange(1, bins) / bins
    return np.round(np.cos(angles), 15).astype(dtype), np.round(np.sin(angles), 15).astype(dtype)


@numba.njit(nogil=True, cache=True)
def _differences(planes, scale, dx, dy):  # type: ignore[no-untyped-def]
    height, width, channels = planes.shape
    real = dx.dtype.type
    scale, equal = real(scale), real(_EQUAL / scale)
    x, longest = np.zeros(width, dx.dtype), np.empty(width, dx.dtype)
    for i in range(height):
        above, below = (i, i) if i == 0 or i == height - 1 else (i - 1, i + 1)
        longest[:] = -1  # shorter than any
        for c in range(channels):
            for j in range(1, width - 1):
                x[j] = real(planes[i, j + 1, c]) - real(planes[i, j - 1, c])
            for j in range(width):
                y = real(planes[below, j, c]) - real(planes[above, j, c])
                length = np.sqrt(x[j] * x[j] + y * y)
                longer = length > longest[j] + equal
                longest[j] = length if longer else longest[j]
                dx[i, j] = x[j] * scale if longer else dx[i, j]
                dy[i, j] = y * scale if longer else dy[i, j]


@numba.njit(nogil=True, cache=True)
def _vote(dx, dy, rows, columns, cosines, sines, signed, histograms):  # type: ignore[no-untyped-def]
    height, width = dx.shape
    x, y, lengths = np.empty((3, width), dtype=dx.dtype)
    bins = np.empty(width, dtype=np.int32)
    for i in range(height):
        r = math.floor(rows[i])
        if r < 0 or r >= histograms.shape[0]:
            continue
        # Steps over whole rows of pixels, so that each is done many pixels at a time.
        for j in range(width):
            a, b = dx[i, j], dy[i, j]
            lower = b < 0 or (b == 0 and a < 0)
            x[j] = -a if lower else a
            y[j] = -b if lower else b
            lengths[j] = np.sqrt(a * a + b * b)
            bins[j] = len(cosines) + 1 if lower and signed else 0
        for k in range(len(cosines)):
            cosine, sine = cosines[k], sines[k]
            for j in range(width):
                bins[j] += y[j] * cosine - x[j] * sine >= 0
        for j in range(width):
            c = math.floor(columns[j])
            if 0 <= c < histograms.shape[1]:
                histograms[r, c, bins[j]] += lengths[j]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def share_votes(dx, dy, signed, first_row, row_shares, first_column, column_shares, cells):  # type: ignore[no-untyped-def]
    """Add the trilinear votes of gradients (h, w) to ``cells`` (rows, columns, orientations).

    first_row (h,), row_shares (h, k), first_column (w,), column_shares (w, k): the ``Shares`` of the two sides. Only
    shares above zero are looked at, so that a cell outside may be named with a share of zero.
    """
    height, width = dx.shape
    n_rows, n_columns, orientations = cells.shape
    half, one = np.float32(0.5), np.float32(1)
    per_radian = np.float32(orientations / (2 * math.pi if signed else math.pi))
    lower = np.empty(width, np.int32)
    low, high = np.empty(width, np.float32), np.empty(width, np.float32)
    line = np.empty((n_columns, orientations), cells.dtype)
    flat, flat_cells = line.ravel(), cells.reshape(n_rows, n_columns * orientations)
    for i in range(height):
        if not row_shares[i].any():
            continue
        # A step over the whole row, so that it is done many pixels at a time.
        for j in range(width):
            x, y = np.float32(dx[i, j]), np.float32(dy[i, j])
            angle = _angle(x, y) * per_radian
            angle = angle + orientations if angle < 0 else angle
            below = np.floor(angle - half)
            part = angle - half - below
            length = np.sqrt(x * x + y * y)
            lower[j], low[j], high[j] = np.int32(below), length * (one - part), length * part
        flat[:] = 0
        for j in range(width):
            under, above = lower[j], lower[j] + 1
            under = under if under >= 0 else orientations - 1
            above = above if above < orientations else 0
            for k in range(column_shares.shape[1]):
                share = column_shares[j, k]
                if share > 0:
                    c = first_column[j] + k
                    line[c, under] += low[j] * share
                    line[c, above] += high[j] * share
        for k in range(row_shares.shape[1]):
            share = row_shares[i, k]
            if share > 0:
                target = flat_cells[first_row[i] + k]
                for c in range(len(flat)):
                    target[c] += share * flat[c]


@numba.njit(nogil=True, cache=True, inline="always", error_model="numpy")
def _angle(x, y):  # type: ignore[no-untyped-def]
    """atan2(y, x) in float32, without branches: the polynomial 4.4.49 of Abramowitz and Stegun, true to 2e-8."""
    a, b = abs(x), abs(y)
    longer, shorter = max(a, b), min(a, b)
    q = shorter / (longer if longer > 0 else np.float32(1))
    s = q * q
    p = np.float32(0.0028662257) * s - np.float32(0.0161657367)
    p = p * s + np.float32(0.0429096138)
    p = p * s - np.float32(0.0752896400)
    p = p * s + np.float32(0.1065626393)
    p = p * s - np.float32(0.1420889944)
    p = p * s + np.float32(0.1999355085)
    p = p * s - np.float32(0.3333314528)
    p = p * s * q + q
    p = np.float32(math.pi / 2) - p if b > a else p
    p = np.float32(math.pi) - p if x < 0 else p
    return -p if y < 0 else p


@numba.njit(nogil=True, cache=True)
def mean_votes(planes, scale, dx, dy, votes, means):  # type: ignore[no-untyped-def]
    """Fill in ``orientation_histograms`` over the pixels of a cell; see ``prepared`` and ``votes_of_cells``."""
    trilinear, signed, cell, row_shares, column_shares, (rows, columns), (cosines, sines) = votes
    _differences(planes, scale, dx, dy)
    sums = np.zeros(means.shape)  # float64, as there
    if trilinear:
        share_votes(dx, dy, signed, *row_shares, *column_shares, sums)
    else:
        _vote(dx, dy, rows, columns, cosines, sines, signed, sums)
    means[:] = sums / (cell * cell)
