"""Image gradients, and histograms of their orientation over the cells of a grid.

What HOG and its pyramid share. All functions are pure; the loops are compiled and let other threads run.

The rule at the border: the derivative is the difference of the two neighbours along its axis, and zero in the first
and the last row (for rows) or column (for columns), where one neighbour is missing. So the values of an image that is
cut from a larger one differ from those of the larger one in the outermost pixels only.
"""

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from cbid.coders.checks import check_choice, check_integer

__all__ = [
    "VOTING",
    "Grid",
    "check_orientations",
    "gradients",
    "grid_of_cells",
    "grid_of_regions",
    "orientation_histograms",
]

VOTING = ("trilinear", "hard")
# Lengths that differ by less are equal: what float32 makes of photographs of 8 bits differs by up to half of that.
_EQUAL = 5e-7
Floats = NDArray[np.floating]
Grid = tuple[NDArray[np.float64], NDArray[np.float64], tuple[int, int]]


def gradients(image: NDArray[Any], *, sqrt: bool = False) -> tuple[Floats, Floats]:
    """Derivatives along columns (dx) and rows (dy), each (h, w), of an image whose white is 1.

    At each pixel of a colour image the channel with the longest gradient counts, the first of equals. uint8 images
    give float32, floats their own type. ``sqrt`` takes the root of the values first (gamma compression).
    """
    if image.dtype != np.uint8:
        values, scale = image, 1.0
    elif sqrt:
        values, scale = image.astype(np.float32) / np.float32(255), 1.0
    else:
        values, scale = image.astype(np.float32), 1 / 255  # whole numbers: equal differences stay equal
    if sqrt:
        values = np.sqrt(values)
    planes = np.ascontiguousarray(values).reshape(*image.shape[:2], -1)
    dx, dy = np.empty((2, *image.shape[:2]), dtype=planes.dtype)
    _differences(planes, planes.dtype.type(scale), planes.dtype.type(_EQUAL / scale), dx, dy)
    return dx, dy


def check_orientations(orientations: Any, signed: Any) -> None:
    """A ValueError unless a circle, or half of one, can be cut into so many bins."""
    check_integer("orientations", orientations, 1, 360)
    check_choice("signed", signed, (True, False))
    if signed and orientations % 2:
        raise ValueError(f"orientations={orientations!r} is not accepted with signed=True; give an even number")


def grid_of_cells(shape: tuple[int, ...], cell: int, margin: int = 0) -> Grid:
    """The whole square cells of an image of that shape, from ``margin`` pixels inside its corner on.

    A grid is the position of each row of pixels counted in cells, the same for columns, and the number of cells along
    the two. Pixels before 0 and past that number belong to no cell.
    """
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
        angles = np.arctan2(dy, dx) * dx.dtype.type(orientations / (2 * math.pi if signed else math.pi))
        _vote_trilinear(dx, dy, angles, rows, columns, histograms)
    else:
        bins = orientations // 2 if signed else orientations
        # A gradient in the upper half plane lies past a boundary when its cross product with it is not negative.
        # Rounded, so that the boundaries at 45 and 90 degrees are what they should be.
        boundaries = math.pi * np.arange(1, bins) / bins
        cosines, sines = (np.round(f(boundaries), 15).astype(dx.dtype) for f in (np.cos, np.sin))
        _vote(dx, dy, rows, columns, cosines, sines, signed, histograms)
    return histograms.astype(np.float32)


@numba.njit(nogil=True, cache=True)
def _differences(planes, scale, equal, dx, dy):  # type: ignore[no-untyped-def]
    height, width, channels = planes.shape
    longest = np.empty(width, dtype=dx.dtype)
    for i in range(height):
        above, below = (i, i) if i == 0 or i == height - 1 else (i - 1, i + 1)
        for c in range(channels):
            for j in range(width):
                left, right = (j, j) if j == 0 or j == width - 1 else (j - 1, j + 1)
                x = planes[i, right, c] - planes[i, left, c]
                y = planes[below, j, c] - planes[above, j, c]
                length = np.sqrt(x * x + y * y)
                if c == 0 or length > longest[j] + equal:
                    longest[j] = length
                    dx[i, j] = x * scale
                    dy[i, j] = y * scale


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


@numba.njit(nogil=True, cache=True)
def _vote_trilinear(dx, dy, angles, rows, columns, histograms):  # type: ignore[no-untyped-def]
    """angles: (h, w), in bins, from minus to plus their number."""
    n_rows, n_columns, orientations = histograms.shape
    half, one = np.float32(0.5), np.float32(1)
    for i in range(dx.shape[0]):
        r = math.floor(rows[i] - half)
        if r < -1 or r >= n_rows:
            continue
        v = np.float32(rows[i] - half - r)
        for j in range(dx.shape[1]):
            c = math.floor(columns[j] - half)
            if c < -1 or c >= n_columns:
                continue
            u = np.float32(columns[j] - half - c)
            angle = angles[i, j] if angles[i, j] >= 0 else angles[i, j] + orientations
            lower = math.floor(angle - half)
            part = np.float32(angle - half - lower)
            upper = lower + 1 if lower + 1 < orientations else 0
            if lower < 0:
                lower = orientations - 1
            length = np.float32(np.sqrt(dx[i, j] * dx[i, j] + dy[i, j] * dy[i, j]))
            low, high = length * (one - part), length * part
            for row, near in ((r, one - v), (r + 1, v)):
                if 0 <= row < n_rows:
                    if c >= 0:
                        histograms[row, c, lower] += low * near * (one - u)
                        histograms[row, c, upper] += high * near * (one - u)
                    if c + 1 < n_columns:
                        histograms[row, c + 1, lower] += low * near * u
                        histograms[row, c + 1, upper] += high * near * u
