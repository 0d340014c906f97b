"""Cell histograms at every place where a cell of some window may begin, not only at those of one grid.

With steps of half a cell each pixel lies in the cells of four grids, which share its votes in one pass.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.descriptors._oriented import share_votes
from cbid.descriptors.gradients import Shares, gradients, grid_of_cells, orientation_histograms
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
        row_shares, column_shares = (_shares(side, n, cell, margin, apart) for side, n in zip(dx.shape, count))
        share_votes(dx, dy, layout.signed, *row_shares, *column_shares, cells)
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


def _shares(side: int, count: int, cell: int, margin: int, apart: int) -> Shares:
    """The shares of a line of pixels.

    A pixel's share falls linearly from 1 at the middle of a cell to 0 one cell away. Cells before the first and after
    the last get none.
    """
    pixels = np.arange(side) + 0.5 - margin
    first = np.floor((pixels - 1.5 * cell) / apart).astype(np.int64) + 1
    numbers = first[:, None] + np.arange(2 * cell // apart)
    shares = 1 - np.abs(pixels[:, None] - (numbers * apart + cell / 2)) / cell
    shares[(numbers < 0) | (numbers >= count)] = 0
    return first, np.maximum(shares, 0).astype(np.float32)
