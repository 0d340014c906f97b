"""Grids of square patches over an image, one grid per scale, and weighted sums over their patches."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_real, check_sequence


class Grid(NamedTuple):
    """The patches of one scale: centres at all (y, x), x varies fastest."""

    side: float
    ys: NDArray[np.int64]  # (n_y,) whole pixels
    xs: NDArray[np.int64]  # (n_x,)
    rows: slice  # the rows of these patches among those of all scales

    @property
    def size(self) -> int:
        return len(self.ys) * len(self.xs)


def grids(shape: tuple[int, ...], sides: Sequence[float], step: int, *, inside: bool) -> Iterator[Grid]:
    """Yield the grid of each scale: patches inside an image of this shape, or all centres inside it."""
    start = 0
    for side in sides:
        half = side / 2 if inside else 0.5
        ys, xs = _line(shape[0], half, step), _line(shape[1], half, step)
        stop = start + len(ys) * len(xs)
        yield Grid(float(side), ys, xs, slice(start, stop))
        start = stop


def frames_of(scales: Sequence[Grid]) -> NDArray[np.float32]:
    """Return centre x, y and side (m, 3) of the patches of all scales."""
    blocks = [np.empty((len(grid.ys), len(grid.xs), 3), np.float32) for grid in scales]
    for grid, block in zip(scales, blocks):
        block[:, :, 0], block[:, :, 1], block[:, :, 2] = grid.xs, grid.ys[:, None], grid.side
    return np.concatenate([block.reshape(-1, 3) for block in blocks])


def check_sides(name: str, sides: Any) -> None:
    """Raise a ValueError unless ``sides`` is a sequence of patch sides in pixels."""
    check_sequence(name, sides, "patch sides in pixels", lambda name, side: check_real(name, side, 4, 10_000))


def _line(length: int, half: float, step: int) -> NDArray[np.int64]:
    """Return pixels a step apart, centred, and at least ``half`` from both ends of a line."""
    first, last = math.ceil(half - 0.5), math.floor(length - 0.5 - half)
    if last < first:
        return np.empty(0, np.int64)
    return np.arange(first + (last - first) % step // 2, last + 1, step)


@numba.njit(nogil=True, cache=True, inline="always")
def _weighted_sum(rows, centre, weights, total):  # type: ignore[no-untyped-def]
    """Write the sum of the rows around ``centre``, weighted, to ``total``; rows outside count as zero."""
    total[:] = 0
    for t in range(len(weights)):
        place = centre + t - len(weights) // 2
        if weights[t] != 0 and 0 <= place < len(rows):
            for m in range(len(total)):
                total[m] += weights[t] * rows[place, m]


@numba.njit(nogil=True, cache=True)
def pool(
    maps: NDArray[np.float32],
    ys: NDArray[np.int64],
    xs: NDArray[np.int64],
    weights: NDArray[np.float32],
    sums: NDArray[np.float32],
) -> None:
    """Write the sums (n_y n_x, k k n) of maps (h, w, n) over the patches centred at all (y, x), x varies fastest.

    Weights are products of one factor in x and one in y, so all patches of a row of the grid share their sums over y.

    weights: (k, 2 r + 1), of the pixels at -r to r from the centre; k weightings along each axis.
    Entry (k i + j) n + o of a patch is the sum of map o, weighted by row i of the weights in y and row j in x. Pixels
    outside the maps count as zero.
    """
    h, w, n = maps.shape
    flat = maps.reshape(h, w * n)
    k = len(weights)
    line = np.empty(w * n, np.float32)  # one weighting's sum over y
    columns = np.empty((w, k * n), np.float32)  # the sums over y of all weightings, at each x
    cell = np.empty(k * n, np.float32)
    for iy in range(len(ys)):
        for i in range(k):
            _weighted_sum(flat, ys[iy], weights[i], line)
            for x in range(w):
                for o in range(n):
                    columns[x, i * n + o] = line[x * n + o]
        for ix in range(len(xs)):
            row = sums[iy * len(xs) + ix]
            for j in range(k):
                _weighted_sum(columns, xs[ix], weights[j], cell)
                for i in range(k):
                    for o in range(n):
                        row[(i * k + j) * n + o] = cell[i * n + o]
