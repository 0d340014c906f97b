"""Cell histograms at every place where a cell of some window may begin, not only at those of one grid.

With steps of half a cell each pixel lies in the cells of four grids. Its votes are shared first along its row, once
for all grids; the row's histograms are then shared among the rows of cells.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from cbid.descriptors.gradients import gradients, grid_of_cells, orientation_histograms
from cbid.detection.layout import WindowLayout

__all__ = ["dense_cells"]

Floats = NDArray[np.float32]


def dense_cells(image: NDArray[np.generic], layout: WindowLayout, apart: int) -> Floats:
    """Histograms (rows, columns, orientations) of the cells that begin ``apart`` pixels from one another.

    The first begins ``layout.margin`` pixels inside the image, and all end as far inside; ``apart`` divides the side
    of a cell. Every second row and column (cell=8, apart=4) is what ``cell_histograms`` gives from that pixel on.
    """
    dx, dy = gradients(image, sqrt=layout.sqrt)
    cell, margin = layout.cell, layout.margin
    count = [max(0, (side - 2 * margin - cell) // apart + 1) for side in dx.shape]
    cells = np.zeros((count[0], count[1], layout.orientations), np.float32)
    if layout.voting == "trilinear":
        bins = layout.orientations / (2 * np.pi if layout.signed else np.pi)
        angles = np.arctan2(dy, dx) * dx.dtype.type(bins)
        row_shares, column_shares = (_shares(side, n, cell, margin, apart) for side, n in zip(dx.shape, count))
        _share_votes(dx, dy, angles, *row_shares, *column_shares, cells)
    else:
        for y in range(0, cell, apart):
            for x in range(0, cell, apart):
                grid = grid_of_cells((dx.shape[0] - y, dx.shape[1] - x), cell, margin)
                part = cells[y // apart :: cell // apart, x // apart :: cell // apart]
                part[:] = orientation_histograms(
                    dx[y:, x:], dy[y:, x:], grid, layout.orientations, signed=layout.signed, voting=layout.voting
                )
    cells /= np.float32(cell**2)
    return cells


def _shares(side: int, count: int, cell: int, margin: int, apart: int) -> tuple[NDArray[np.int64], Floats]:
    """For each pixel of a line the first cell that it votes for, (side,), and its shares for that and the next ones.

    A pixel's share falls linearly from 1 at the middle of a cell to 0 one cell away. Cells before the first and after
    the last get none.
    """
    pixels = np.arange(side) + 0.5 - margin
    first = np.floor((pixels - 1.5 * cell) / apart).astype(np.int64) + 1
    numbers = first[:, None] + np.arange(2 * cell // apart)
    shares = 1 - np.abs(pixels[:, None] - (numbers * apart + cell / 2)) / cell
    shares[(numbers < 0) | (numbers >= count)] = 0
    return first, np.maximum(shares, 0).astype(np.float32)


@numba.njit(nogil=True, cache=True)
def _share_votes(dx, dy, angles, first_row, row_shares, first_column, column_shares, cells):  # type: ignore[no-untyped-def]
    """angles: (h, w), in bins, from minus to plus their number."""
    height, width = dx.shape
    n_rows, n_columns, orientations = cells.shape
    half, one = np.float32(0.5), np.float32(1)
    line = np.empty((n_columns, orientations), np.float32)
    flat, flat_cells = line.ravel(), cells.reshape(n_rows, n_columns * orientations)
    for i in range(height):
        flat[:] = 0
        for j in range(width):
            length = np.float32(np.sqrt(dx[i, j] * dx[i, j] + dy[i, j] * dy[i, j]))
            if length == 0:
                continue
            angle = angles[i, j] if angles[i, j] >= 0 else angles[i, j] + orientations
            lower = int(np.floor(angle - half))
            part = np.float32(angle - half - lower)
            upper = lower + 1 if lower + 1 < orientations else 0
            if lower < 0:
                lower = orientations - 1
            low, high = length * (one - part), length * part
            for k in range(column_shares.shape[1]):
                share = column_shares[j, k]
                if share > 0:
                    c = first_column[j] + k
                    line[c, lower] += low * share
                    line[c, upper] += high * share
        for k in range(row_shares.shape[1]):
            share = row_shares[i, k]
            if share > 0:
                target = flat_cells[first_row[i] + k]
                for c in range(len(flat)):
                    target[c] += share * flat[c]
