"""A window slid over a photograph, at all places and sizes: the scores of all windows, each value computed once.

On one scale the photograph is covered by grids of cells. Two windows are on the same grid when they are a whole
number of cells apart: with steps of half a cell there are four grids. On each grid gradients, histograms and blocks
are computed once, whatever the number of windows. The score of a window is w.x + b, where x is put together from its
blocks: all blocks times all parts of w is one matrix product, and a window adds up what its blocks gave.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from cbid.data.images import check_image
from cbid.descriptors.hog import normalised_blocks
from cbid.descriptors.sizes import resize
from cbid.detection.boxes import Boxes, Detections
from cbid.detection.dense_cells import dense_cells
from cbid.detection.layout import WindowLayout, with_border

__all__ = ["Grid", "Scanner", "Windows"]

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Windows:
    """Windows of a photograph: boxes (n, 4) in its pixels, scores (n,), and HOG vectors (n, d)."""

    boxes: Boxes
    scores: Floats
    features: Floats

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, rows: Any) -> "Windows":
        return Windows(self.boxes[rows], self.scores[rows], self.features[rows])

    def detections(self, scores: NDArray[np.floating] | None = None) -> Detections:
        """Boxes with these scores, or with their own, the best first."""
        values = np.asarray(self.scores if scores is None else scores, np.float64)
        order = np.argsort(-values, kind="stable")
        return Detections(self.boxes[order], values[order])


@dataclass(frozen=True)
class Grid:
    """The blocks of one grid over one scale.

    size : height and width of the scaled photograph
    blocks : (rows, columns, values)
    origin : pixel (y, x) of the scaled photograph, border included, where its first window begins
    stride : cells between one window and the next
    """

    size: tuple[int, int]
    blocks: Floats
    origin: tuple[int, int]
    stride: int


@dataclass(frozen=True)
class Scanner:
    """How windows are slid.

    step: pixels of the scaled photograph between windows. scales_per_octave: sizes from one to its double.
    upsample: how much the photograph is enlarged first; objects smaller than the window need it.
    border: pixels that a window may reach out of the scaled photograph, whose last pixels are repeated there.
    """

    layout: WindowLayout
    step: int = 4
    scales_per_octave: int = 10
    upsample: float = 1.0
    border: int = 16

    def shapes(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """Height and width of the photograph at each scale, the largest first, while a window fits."""
        sizes: list[tuple[int, int]] = []
        for k in itertools.count():
            factor = self.upsample * 2 ** (-k / self.scales_per_octave)
            size = round(shape[0] * factor), round(shape[1] * factor)
            if any(side + 2 * self.border < wanted for side, wanted in zip(size, self.layout.window)):
                return sizes
            sizes.append(size)
        raise AssertionError  # count() does not end

    def check_photograph(self, image: NDArray[Any]) -> NDArray[Any]:
        """The photograph, checked; a ValueError if no window fits."""
        image = check_image(image)
        if not self.shapes(image.shape):
            height, width = (math.ceil((side - 2 * self.border) / self.upsample) for side in self.layout.window)
            raise ValueError(
                f"the image has {image.shape[0]} x {image.shape[1]} pixels; at least {height} x {width} (height x "
                f"width) are needed for a window of {self.layout.window} with upsample={self.upsample:g}"
            )
        return image

    def n_windows(self, shape: tuple[int, ...]) -> int:
        """Windows in a photograph of this shape."""
        return sum(
            math.prod((side + 2 * self.border - w) // self.step + 1 for side, w in zip(size, self.layout.window))
            for size in self.shapes(shape)
        )

    def scaled(self, image: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
        """The photograph at one scale, with the border, and the margin that windows at its edge look at."""
        return with_border(resize(image, size), self.border + self.layout.margin)

    def pyramid(self, image: NDArray[Any]) -> Iterator[Grid]:
        """All grids of a photograph, scale by scale; what every scan of it has in common."""
        image = self.check_photograph(image)
        for size in self.shapes(image.shape):
            yield from self._grids(self.scaled(image, size), size)

    def _grids(self, scaled: NDArray[Any], size: tuple[int, int]) -> Iterator[Grid]:
        layout = self.layout
        fine = math.gcd(self.step, layout.cell)  # cells of all grids begin at multiples of it
        cells = dense_cells(scaled, layout, fine)
        apart = math.lcm(self.step, layout.cell)
        for y, x in itertools.product(range(0, apart, self.step), repeat=2):
            grid = np.ascontiguousarray(cells[y // fine :: layout.cell // fine, x // fine :: layout.cell // fine])
            if all(count * layout.cell >= side for count, side in zip(grid.shape, layout.window)):
                blocks = normalised_blocks(grid, block=layout.block, norm=layout.norm)
                yield Grid(size, blocks.reshape(*blocks.shape[:2], -1), (y, x), apart // layout.cell)

    def scan(
        self, image: NDArray[Any], coef: NDArray[Any], intercept: float, threshold: float, most: int | None = None
    ) -> Windows:
        """The windows that score at least ``threshold``, the best first; at most the ``most`` best of them.

        coef : (d,), as the layout orders its values
        """
        return self.scan_pyramid(self.pyramid(image), image.shape, coef, intercept, threshold, most)

    def scan_pyramid(
        self,
        pyramid: Iterable[Grid],
        shape: tuple[int, ...],
        coef: NDArray[Any],
        intercept: float,
        threshold: float,
        most: int | None = None,
    ) -> Windows:
        """The same from the grids of a photograph of this shape."""
        weights = np.ascontiguousarray(coef, np.float32).reshape(-1, self.layout.block_values)
        found = Windows(np.empty((0, 4)), np.empty(0, np.float32), np.empty((0, weights.size), np.float32))
        for _, grids in itertools.groupby(pyramid, key=lambda grid: grid.size):
            parts = [found]
            for grid in grids:
                scores = window_scores(grid.blocks, weights, self.layout.blocks)
                scores = scores[:: grid.stride, :: grid.stride] + np.float32(intercept)
                rows, columns = np.nonzero(scores >= threshold)
                if most is not None and len(rows) > most:
                    best = np.argpartition(-scores[rows, columns], most - 1)[:most]
                    rows, columns = rows[best], columns[best]
                if len(rows):
                    values = window_features(
                        grid.blocks, rows * grid.stride, columns * grid.stride, self.layout.blocks
                    )
                    parts.append(Windows(self._boxes(rows, columns, grid, shape), scores[rows, columns], values))
            found = _best_of(parts, most)
            if most is not None and len(found) == most:
                threshold = max(threshold, float(found.scores[-1]))  # less will not be among the best
        return found

    def _boxes(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], grid: Grid, shape: tuple[int, ...]
    ) -> Boxes:
        """Windows of a grid as boxes in the pixels of the photograph."""
        apart = grid.stride * self.layout.cell
        top, left = rows * apart + grid.origin[0] - self.border, columns * apart + grid.origin[1] - self.border
        corners = np.column_stack([left, top, left + self.layout.window[1], top + self.layout.window[0]])
        ratio = shape[1] / grid.size[1], shape[0] / grid.size[0]
        return corners * np.array([*ratio, *ratio])


def _best_of(parts: list[Windows], most: int | None) -> Windows:
    order = np.argsort(-np.concatenate([part.scores for part in parts]), kind="stable")[:most]
    arrays = ([getattr(part, name) for part in parts] for name in ("boxes", "scores", "features"))
    return Windows(*map(np.concatenate, arrays)).take(order)


def window_scores(blocks: Floats, weights: Floats, shape: tuple[int, int]) -> Floats:
    """Scores (rows', columns') of all windows of ``shape`` blocks; weights (rows x columns of the window, values)."""
    rows, columns, values = blocks.shape
    products = weights @ blocks.reshape(-1, values).T  # (blocks of the window, blocks of the grid)
    scores = np.zeros((rows - shape[0] + 1, columns - shape[1] + 1), np.float32)
    _add_up(products.reshape(*shape, rows, columns), scores)
    return scores


def window_features(
    blocks: Floats, rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]
) -> Floats:
    """HOG vectors (n, d) of the windows whose first blocks these are."""
    windows = sliding_window_view(blocks, shape, axis=(0, 1))[rows, columns]  # (n, values, rows, columns)
    return np.ascontiguousarray(windows.transpose(0, 2, 3, 1)).reshape(len(rows), -1)


@numba.njit(nogil=True, cache=True)
def _add_up(products, scores):  # type: ignore[no-untyped-def]
    for r in range(scores.shape[0]):
        for i in range(products.shape[0]):
            for j in range(products.shape[1]):
                for c in range(scores.shape[1]):
                    scores[r, c] += products[i, j, r + i, c + j]
