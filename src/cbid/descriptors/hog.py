"""Histograms of oriented gradients (Dalal and Triggs, 2005).

Gradients, one histogram of orientations per cell, and contrast normalisation over blocks of cells:

    image -> cell_histograms (rows, columns, orientations) -> normalised_blocks (rows', columns', b, b, o)

A detector that slides a window over an image computes the blocks of the whole image once. The descriptor of the
window whose first cell is (r, c) is the slice ``blocks[r : r + m, c : c + n].ravel()``. It equals ``HOG(margin=...)``
of the window cut out with as many pixels around it: one pixel for hard votes, half a cell and one for trilinear ones.
Without them the outermost pixels have no neighbour, so their derivative is zero (see ``gradients``), and no votes
come from the pixels around.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.descriptors._oriented import describe_each, mean_votes, normalise
from cbid.descriptors.base import SizedDescriptor
from cbid.descriptors.gradients import VOTING, check_orientations, prepared, votes_of_cells
from cbid.params import choice, estimator, flag, integer, param

NORMS = ("l2-hys", "l2", "l1", "l1-sqrt")


@estimator
class HOG(SizedDescriptor):
    """Block-normalised histograms of oriented gradients; 3,780 values for a window of 128 x 64.

    Parameters
    ----------
    size : (height, width) or None
        The image is resized to this first; None keeps its size.
    cell : int
        Side of the square cells in pixels. Pixels past the last complete cell are not used.
    block : int
        Side of the square blocks in cells; blocks lie one cell apart.
    orientations : int
        Bins of the orientation, over 180 degrees, or over 360 with ``signed``.
    signed : bool
        Whether dark-to-light and light-to-dark edges differ.
    voting : {"trilinear", "hard"}
        "trilinear": the vote of a pixel is shared by the nearest cells and bins. "hard": its own cell and bin get it.
    norm : {"l2-hys", "l2", "l1", "l1-sqrt"}
        Normalisation of a block; "l2-hys" clips at 0.2 and normalises again.
    sqrt : bool
        Whether to take the square root of the pixels first.
    margin : int
        Pixels on each side (after ``size``) that are used only for the gradients of the pixels inside.
    n_jobs, verbose
        As in ``Descriptor``.

    >>> HOG(size=(128, 64)).transform([np.zeros((200, 100))]).shape
    (1, 3780)
    """

    cell: int = param(8, integer(1))
    block: int = param(2, integer(1))
    orientations: int = 9
    signed: bool = False
    voting: str = param("trilinear", choice(*VOTING))
    norm: str = param("l2-hys", choice(*NORMS))
    sqrt: bool = param(False, flag)
    margin: int = param(0, integer(0))

    def _check_params(self) -> None:
        super()._check_params()
        check_orientations(self.orientations, self.signed)

    def _least(self) -> int:
        return self.cell * self.block + 2 * self.margin

    def describe(self, image: NDArray[Any]) -> NDArray[np.float32]:
        """Return the blocks row by row; in each its cells row by row; in each its orientations."""
        return self._describe_stack(self._sized(image)[None])[0]

    def describe_many(self, images: Sequence[NDArray[Any]]) -> list[NDArray[np.float32]]:
        """Return the values of many images; faster if they have one size and type."""
        checked = [self._sized(image) for image in images]
        if len({(image.shape, image.dtype) for image in checked}) == 1:
            return list(self._describe_stack(np.stack(checked)))
        return [self._describe_stack(image[None])[0] for image in checked]

    def _describe_stack(self, images: NDArray[Any]) -> NDArray[np.float32]:
        planes, scale, dx, dy = prepared(images, self.sqrt)
        shape, votes = votes_of_cells(
            images.shape[1:], dx.dtype, self.cell, self.margin, self.orientations, self.signed, self.voting
        )
        blocks = np.empty((len(images), *_shape_of_blocks(shape, self.block)), np.float32)
        describe_each(planes, scale, dx, dy, votes, np.empty(shape, np.float32), NORMS.index(self.norm), blocks)
        return blocks.reshape(len(images), -1)


def cell_histograms(
    image: NDArray[Any],
    *,
    cell: int = 8,
    orientations: int = 9,
    signed: bool = False,
    voting: str = "trilinear",
    sqrt: bool = False,
    margin: int = 0,
) -> NDArray[np.float32]:
    """Return the mean gradient length by cell and orientation, (rows, columns, orientations), without the margin.

    image: (h, w) or (h, w, 3), uint8 or floats in 0..1; in colour the channel with the longest gradient counts.
    """
    planes, scale, dx, dy = prepared(image[None], sqrt)
    shape, votes = votes_of_cells(image.shape, dx.dtype, cell, margin, orientations, signed, voting)
    means = np.empty(shape, np.float32)
    mean_votes(planes[0], scale, dx, dy, votes, means)
    return means


def normalised_blocks(cells: NDArray[np.float32], *, block: int = 2, norm: str = "l2-hys") -> NDArray[np.float32]:
    """Return normalised blocks of cells, one cell apart: (rows - block + 1, columns - block + 1, block, block, o).

    With e = 1e-5 a block v becomes v / sqrt(|v|_2^2 + e^2) ("l2"), the same clipped at 0.2 and divided again
    ("l2-hys"), v / (|v|_1 + e) ("l1") or the root of that ("l1-sqrt").
    """
    blocks = np.empty(_shape_of_blocks(cells.shape, block), dtype=np.float32)
    normalise(cells, NORMS.index(norm), blocks)
    return blocks


def _shape_of_blocks(shape: tuple[int, ...], block: int) -> tuple[int, int, int, int, int]:
    rows, columns, orientations = shape
    return max(0, rows - block + 1), max(0, columns - block + 1), block, block, orientations
