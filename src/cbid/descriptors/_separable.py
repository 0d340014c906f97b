"""Weighted sums over the patches of a grid, in two passes.

Where the weights are products of one factor in x and one in y, all patches of a row of the grid share their sums over
y, and a patch costs a few sums over one line instead of a visit to each of its pixels.
"""

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["pool"]


@numba.njit(nogil=True, cache=True)
def pool(
    maps: NDArray[np.float32],
    ys: NDArray[np.int64],
    xs: NDArray[np.int64],
    weights: NDArray[np.float32],
    sums: NDArray[np.float32],
) -> None:
    """Write the sums (n_y n_x, k k n) of maps (h, w, n) over the patches centred at every (y, x), x running fastest.

    weights: (k, 2 r + 1), of the pixels at -r to r from the centre; k weightings along each axis.
    Entry (k i + j) n + o of a patch is the sum of map o, weighted by row i of the weights in y and row j in x. Pixels
    beyond the maps count as zero.
    """
    h, w, n = maps.shape
    flat = maps.reshape(h, w * n)
    k = len(weights)
    reach = weights.shape[1] // 2
    line = np.empty(w * n, np.float32)  # one weighting's sum over y
    columns = np.empty((w, k * n), np.float32)  # the sums over y of all weightings, at each x
    cell = np.empty(k * n, np.float32)
    for iy in range(len(ys)):
        for i in range(k):
            line[:] = 0
            for t in range(weights.shape[1]):
                y = ys[iy] + t - reach
                weight = weights[i, t]
                if weight != 0 and 0 <= y < h:
                    for m in range(w * n):
                        line[m] += weight * flat[y, m]
            for x in range(w):
                for o in range(n):
                    columns[x, i * n + o] = line[x * n + o]
        for ix in range(len(xs)):
            row = sums[iy * len(xs) + ix]
            for j in range(k):
                cell[:] = 0
                for t in range(weights.shape[1]):
                    x = xs[ix] + t - reach
                    weight = weights[j, t]
                    if weight != 0 and 0 <= x < w:
                        for m in range(k * n):
                            cell[m] += weight * columns[x, m]
                for i in range(k):
                    for o in range(n):
                        row[(i * k + j) * n + o] = cell[i * n + o]
