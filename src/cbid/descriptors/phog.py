"""Pyramid histograms of oriented gradients.

Orientation histograms over finer and finer grids, concatenated. Two descriptors have this name and differ in their
grids: Bosch, Zisserman and Munoz (2007) cut the image, whatever its size, into 1, 4, 16, ... regions; Maji, Berg and
Malik (2008) cut windows of a known size into square cells of a few sides. ``levels`` gives the first, ``cells`` the
second.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_integer
from cbid.data.images import as_gray, opencv, to_uint8
from cbid.descriptors.base import SizedDescriptor
from cbid.descriptors.gradients import VOTING, check_orientations, gradients, grid_of_regions, orientation_histograms
from cbid.params import choice, estimator, flag, integer, param

NORMS = ("l1-sqrt", "l1", "l2")


@estimator
class PyramidHOG(SizedDescriptor):
    """Orientation histograms over grids of 1, 4, 16, ... regions, or of cells of given sides.

    Every level holds the same sum of gradient lengths, so all levels have the same weight.

    Parameters
    ----------
    levels : int
        The finest grid has 2^levels x 2^levels regions; there are (4^(levels + 1) - 1) / 3 in all.
    cells : sequence of int or None
        Instead of levels: sides of square cells in pixels, one grid for each. An image is cut into as many equal
        cells of about that side as it holds whole ones. All images must then have one size, or ``size`` be set.
    orientations, signed, voting, sqrt
        See ``HOG``.
    edges : bool
        Whether only pixels on edges vote, as in Bosch et al. Canny's high threshold is the 70 % quantile of the
        gradient, the low one 0.4 of it.
    norm : {"l1-sqrt", "l1", "l2"}
        Norm of the whole vector. "l1-sqrt" is the root of "l1": inner products are then the Hellinger kernel, which
        suits linear classifiers.
    size : (height, width) or None
        The image is resized to this first.
    n_jobs, verbose
        As in ``Descriptor``.

    >>> PyramidHOG(levels=3, orientations=20).transform([np.zeros((60, 90))]).shape
    (1, 1700)
    >>> PyramidHOG(cells=(18, 9, 3), orientations=8).transform([np.zeros((36, 18))]).shape
    (1, 656)
    """

    levels: int = param(3, integer(0, 8))
    cells: Sequence[int] | None = None
    orientations: int = 20
    signed: bool = False
    voting: str = param("trilinear", choice(*VOTING))
    sqrt: bool = param(True, flag)
    edges: bool = param(False, flag)
    norm: str = param("l1-sqrt", choice(*NORMS))

    def _check_params(self) -> None:
        if self.cells is not None:
            if not (isinstance(self.cells, (tuple, list)) and self.cells):
                raise ValueError(f"cells={self.cells!r}: expected a sequence of sides in pixels, or None")
            for i, side in enumerate(self.cells):
                check_integer(f"cells[{i}]", side, 1)
        super()._check_params()
        check_orientations(self.orientations, self.signed)

    def _least(self) -> int:
        return int(2**self.levels if self.cells is None else max(self.cells))

    def describe(self, image: NDArray[Any]) -> NDArray[np.float32]:
        """Return the grids in order; in each its regions row by row; in each its orientations."""
        image = self._sized(image)
        dx, dy = gradients(image, sqrt=self.sqrt)
        if self.edges:
            dx, dy = _on_edges(image, dx, dy)
        height, width = image.shape[:2]
        if self.cells is None:
            grids = [(2**level, 2**level) for level in range(self.levels + 1)]
        else:
            grids = [(height // side, width // side) for side in self.cells]
        regions = [grid_of_regions(image.shape, *grid) for grid in grids]
        settings: dict[str, Any] = {"signed": self.signed, "voting": self.voting}
        histograms = [orientation_histograms(dx, dy, grid, self.orientations, **settings) for grid in regions]
        values = np.concatenate([histogram.ravel() for histogram in histograms])
        total = np.linalg.norm(values) if self.norm == "l2" else values.sum()
        if total > 0:  # a constant image has no gradient
            values /= total
        return np.sqrt(values) if self.norm == "l1-sqrt" else values


def _on_edges(image: NDArray[Any], dx: NDArray[Any], dy: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the gradients on Canny edges of the smoothed gray image, and zero elsewhere."""
    cv2 = opencv()
    gray = cv2.GaussianBlur(to_uint8(as_gray(image)), (0, 0), 2**0.5)
    x, y = cv2.Sobel(gray, cv2.CV_16S, 1, 0), cv2.Sobel(gray, cv2.CV_16S, 0, 1)
    high = float(np.quantile(np.hypot(x.astype(np.float32), y.astype(np.float32)), 0.7))
    edge = np.asarray(cv2.Canny(x, y, 0.4 * high, high, L2gradient=True)) > 0
    return dx * edge, dy * edge
