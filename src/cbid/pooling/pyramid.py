"""The spatial pyramid (Lazebnik, Schmid and Ponce, 2006): cells of an image, and codes pooled over each cell.

A pyramid is a sequence of grids, coarse to fine: 2 means 2 x 2 cells, (3, 1) three rows and one column. Cells are
numbered grid by grid, row by row. The pooled vector of an image concatenates the cells, each with one value per word.
"""

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cbid.bags import Bags
from cbid.checks import check_integer

__all__ = ["cell_weights", "cells_of", "check_pyramid", "pool"]

Grids = list[tuple[int, int]]


def check_pyramid(pyramid: Any) -> Grids:
    """Return the grids as (rows, columns); raise a ValueError if ``pyramid`` is invalid."""
    if isinstance(pyramid, (str, bytes)) or not np.iterable(pyramid) or not len(tuple(pyramid)):
        raise ValueError(f"pyramid={pyramid!r}: expected grids such as (1, 2, 4) or (1, 2, (3, 1))")
    grids = []
    for level in pyramid:
        sides = (level, level) if np.ndim(level) == 0 else tuple(level)
        if len(sides) != 2:
            raise ValueError(f"pyramid={pyramid!r}: expected numbers or pairs (rows, columns), not {level!r}")
        for side in sides:
            check_integer("pyramid: rows or columns", side, 1, 1000)
        grids.append((int(sides[0]), int(sides[1])))
    return grids


def cell_weights(grids: Grids, weights: str | None) -> NDArray[np.float32]:
    """Return the weight of each cell, (n_cells,): 1, or with "match" the weights of the pyramid match kernel.

    With grids 0 to L, the cells of grid l > 0 weigh 2^(l - L - 1) and those of grid 0 weigh 2^-L.
    """
    last = len(grids) - 1
    of_grid = [0.5 ** (last - max(level - 1, 0)) if weights == "match" else 1.0 for level in range(len(grids))]
    return np.repeat(np.asarray(of_grid, np.float32), [rows * columns for rows, columns in grids])


def cells_of(bags: Bags, grids: Grids) -> NDArray[np.int32]:
    """Return the cell of each row in each grid, (m, len(grids)), by the centre of its patch."""
    cells = np.empty((len(bags.values), len(grids)), np.int32)
    first = 0
    for level, (rows, columns) in enumerate(grids):
        if rows == columns == 1:
            cells[:, level] = first
        else:
            if bags.frames is None or bags.shapes is None:
                raise ValueError(
                    f"X has no positions: a pyramid with {rows} x {columns} cells needs Bags with frames and shapes; "
                    "otherwise use pyramid=(1,)"
                )
            # The centre of the first pixel is at 0, so the image starts at -0.5.
            height, width = bags.shapes[bags.owners].T
            y = np.floor((bags.frames[:, 1] + 0.5) * rows / height)
            x = np.floor((bags.frames[:, 0] + 0.5) * columns / width)
            cells[:, level] = first + np.clip(y, 0, rows - 1) * columns + np.clip(x, 0, columns - 1)
        first += rows * columns
    return cells


def pool(
    codes: csr_array, offsets: NDArray[np.int64], cells: NDArray[np.int32], n_cells: int, how: str
) -> NDArray[np.float32]:
    """Return sums or maxima (n, n_cells, n_words) of the codes (m, n_words) of each image's rows in each cell.

    Entries that are not stored and empty cells count as zero, so a maximum is never negative.
    """
    pooled = np.zeros((len(offsets) - 1, n_cells, codes.shape[1]), np.float32)
    # Fixed types, so that numba compiles the kernels once.
    ends, words = codes.indptr.astype(np.int64, copy=False), codes.indices.astype(np.int32, copy=False)
    values = codes.data.astype(np.float32, copy=False)
    kernel = _add if how == "sum" else _largest
    kernel(ends, words, values, offsets, cells, pooled)
    return pooled


@numba.njit(nogil=True, cache=True)
def _add(ends: Any, words: Any, values: Any, offsets: Any, cells: Any, pooled: Any) -> None:
    for image in range(len(offsets) - 1):
        for row in range(offsets[image], offsets[image + 1]):
            for level in range(cells.shape[1]):
                histogram = pooled[image, cells[row, level]]
                for place in range(ends[row], ends[row + 1]):
                    histogram[words[place]] += values[place]


@numba.njit(nogil=True, cache=True)
def _largest(ends: Any, words: Any, values: Any, offsets: Any, cells: Any, pooled: Any) -> None:
    for image in range(len(offsets) - 1):
        for row in range(offsets[image], offsets[image + 1]):
            for level in range(cells.shape[1]):
                histogram = pooled[image, cells[row, level]]
                for place in range(ends[row], ends[row + 1]):
                    histogram[words[place]] = max(histogram[words[place]], values[place])
