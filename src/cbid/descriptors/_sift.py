"""Upright SIFT on a grid: gradients as orientation maps, the weights of the bins, and the last steps.

Lowe's weights of a gradient, the triangle of bilinear interpolation and the Gaussian window, are each a product
of one factor in x and one in y, so the bins are separable sums.
"""

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["bin_weights", "finish"]

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
