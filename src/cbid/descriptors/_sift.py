"""Upright SIFT on a grid: gradients to orientation maps, pooled by two passes of weighted sums.

Lowe's weights of a gradient, the triangle of bilinear interpolation and the Gaussian window, are each a product
of one factor in x and one in y. So all patches of a row of the grid share their sums over y, and one descriptor
costs 2 x 4 sums over a line instead of one visit to every pixel of its patch.
"""

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["bin_weights", "finish", "orientation_maps", "pool"]

BINS = 4  # along each side of a patch
ORIENTATIONS = 8
REACH = (BINS + 1) / 2  # the last bin's triangle ends this many bins from the centre


def bin_weights(width: float, window: float | None) -> NDArray[np.float32]:
    """Weights (4, 2 r + 1) of the gradients at -r to r pixels from the centre in each of the four bins of a line.

    width: of a bin, in pixels. window: deviation of the Gaussian over the patch in bins; None for none.
    """
    reach = math.ceil(REACH * width)
    at = np.arange(-reach, reach + 1) / width  # in bins
    centres = np.arange(BINS) - (BINS - 1) / 2
    triangles = np.maximum(0, 1 - np.abs(at - centres[:, None]))
    gaussian = 1 if window is None else np.exp(-0.5 * (at / window) ** 2)
    return np.asarray(triangles * gaussian, dtype=np.float32)


@numba.njit(nogil=True, cache=True)
def orientation_maps(image: NDArray[np.float32]) -> Any:
    """Gradient strength (h, w, 8) at eight orientations, shared between the two next ones.

    Orientation o points at 45 o degrees, y upwards. Pixels of the outermost lines have none.
    """
    h, w = image.shape
    maps = np.zeros((h, w, ORIENTATIONS), np.float32)
    per_radian = np.float32(ORIENTATIONS / (2 * math.pi))
    for y in range(1, h - 1):
        for x in range(1, w - 1):
            dx = image[y, x + 1] - image[y, x - 1]
            dy = image[y - 1, x] - image[y + 1, x]
            strength = math.sqrt(dx * dx + dy * dy)
            position = math.atan2(dy, dx) * per_radian
            low = math.floor(position)
            share = position - low
            o = int(low) % ORIENTATIONS
            maps[y, x, o] = strength * (np.float32(1) - share)
            maps[y, x, (o + 1) % ORIENTATIONS] = strength * share
    return maps


@numba.njit(nogil=True, cache=True)
def pool(
    maps: NDArray[np.float32],
    ys: NDArray[np.int64],
    xs: NDArray[np.int64],
    weights: NDArray[np.float32],
    histograms: NDArray[np.float32],
) -> None:
    """Write the histograms (len(ys) len(xs), 128) of the patches centred at every (y, x), row by row.

    Entry (4 i + j) 8 + o is orientation o in row i and column j of the patch's 4 x 4 bins.
    """
    h, w, n = maps.shape
    flat = maps.reshape(h, w * n)
    reach = weights.shape[1] // 2
    line = np.empty(w * n, np.float32)  # one bin's sum over y
    columns = np.empty((w, BINS * n), np.float32)  # the sums over y of the four bins, at each x
    cell = np.empty(BINS * n, np.float32)
    for iy in range(len(ys)):
        for i in range(BINS):
            line[:] = 0
            for t in range(weights.shape[1]):
                y = ys[iy] + t - reach
                weight = weights[i, t]
                if weight > 0 and 0 <= y < h:
                    for k in range(w * n):
                        line[k] += weight * flat[y, k]
            for x in range(w):
                for o in range(n):
                    columns[x, i * n + o] = line[x * n + o]
        for ix in range(len(xs)):
            row = histograms[iy * len(xs) + ix]
            for j in range(BINS):
                cell[:] = 0
                for t in range(weights.shape[1]):
                    x = xs[ix] + t - reach
                    weight = weights[j, t]
                    if weight > 0 and 0 <= x < w:
                        for k in range(BINS * n):
                            cell[k] += weight * columns[x, k]
                for i in range(BINS):
                    for o in range(n):
                        row[(i * BINS + j) * n + o] = cell[i * n + o]


@numba.njit(nogil=True, cache=True, fastmath={"reassoc"})  # sums in any order, so that they run in lanes
def finish(histograms: NDArray[np.float32], clip: float, root: bool) -> Any:
    """Unit length, cut at ``clip``, unit length again, all in place; returns the first lengths, (m,).

    With ``root`` the square root of the values over their sum, which has unit length too. Zero stays zero.
    """
    lengths = np.empty(len(histograms), np.float32)
    for m in range(len(histograms)):
        row = histograms[m]
        total = np.float32(0)
        for k in range(len(row)):
            total += row[k] * row[k]
        lengths[m] = math.sqrt(total)
        if total == 0:
            continue
        most = np.float32(clip) * lengths[m]
        squares = np.float32(0)
        plain = np.float32(0)
        for k in range(len(row)):
            row[k] = min(row[k], most)
            squares += row[k] * row[k]
            plain += row[k]
        if root:
            for k in range(len(row)):
                row[k] = math.sqrt(row[k] / plain)
        else:
            scale = np.float32(1) / np.float32(math.sqrt(squares))
            for k in range(len(row)):
                row[k] *= scale
    return lengths
