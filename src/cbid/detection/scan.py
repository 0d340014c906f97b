"""Slide a window over a photograph at all positions and scales; each value is computed once.

At one scale the photograph is covered by grids of cells. Two windows are on the same grid if they are a whole number
of cells apart: with steps of half a cell there are four grids. Gradients, histograms and blocks of a grid are
computed once for all windows. The score of a window is w.x + b, where x is the concatenation of its blocks: all
blocks times all parts of w is one matrix product, and a window sums the products of its blocks. Negative training
windows are random ones, then hard negatives, the false positives of a scan.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from cbid.data.images import check_image, resize
from cbid.descriptors.gradients import Shares, gradients, grid_of_cells, orientation_histograms, share_votes
from cbid.descriptors.hog import normalised_blocks
from cbid.detection.boxes import Boxes, Detections
from cbid.detection.layout import WindowLayout, with_border
from cbid.progress import image_progress
from cbid.text import printable
from cbid.threads import ordered_map

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
        """Return these windows."""
        return Windows(self.boxes[rows], self.scores[rows], self.features[rows])

    def detections(self, scores: NDArray[np.floating] | None = None) -> Detections:
        """Return the boxes with these scores, or with their own, best first."""
        values = np.asarray(self.scores if scores is None else scores, np.float64)
        order = np.argsort(-values, kind="stable")
        return Detections(self.boxes[order], values[order])


@dataclass(frozen=True)
class Grid:
    """The blocks of one grid at one scale."""

    size: tuple[int, int]  # height and width of the scaled photograph
    blocks: Floats  # (rows, columns, values)
    origin: tuple[int, int]  # pixel (y, x) of the scaled photograph, border included, where the first window starts
    stride: int  # cells from one window to the next


@dataclass(frozen=True)
class Scanner:
    """The positions and scales of a sliding window."""

    layout: WindowLayout
    step: int = 4  # pixels of the scaled photograph between windows
    scales_per_octave: int = 10  # scales from one size to its double
    upsample: float = 1.0  # the photograph is enlarged by it first, for objects smaller than the window
    border: int = 16  # pixels that a window may extend beyond the scaled photograph, whose edge is repeated there

    def shapes(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return height and width of the photograph at each scale where a window fits, largest first."""
        sizes: list[tuple[int, int]] = []
        for k in itertools.count():
            factor = self.upsample * 2 ** (-k / self.scales_per_octave)
            size = round(shape[0] * factor), round(shape[1] * factor)
            if any(side + 2 * self.border < wanted for side, wanted in zip(size, self.layout.window)):
                return sizes
            sizes.append(size)
        raise AssertionError  # count() does not end

    def check_photograph(self, image: NDArray[Any]) -> NDArray[Any]:
        """Return the checked photograph; raise a ValueError if no window fits."""
        image = check_image(image)
        if not self.shapes(image.shape):
            height, width = (math.ceil((side - 2 * self.border) / self.upsample) for side in self.layout.window)
            raise ValueError(
                f"the image has {image.shape[0]} x {image.shape[1]} pixels (height x width); expected at least "
                f"{height} x {width} for a window of {self.layout.window} with upsample={self.upsample:g}"
            )
        return image

    def n_windows(self, shape: tuple[int, ...]) -> int:
        """Return the number of windows in a photograph of this shape."""
        return sum(
            math.prod((side + 2 * self.border - w) // self.step + 1 for side, w in zip(size, self.layout.window))
            for size in self.shapes(shape)
        )

    def scaled(self, image: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
        """Return the photograph at one scale, with the border and the margin of windows at its edge."""
        return with_border(resize(image, size), self.border + self.layout.margin)

    def _grids(self, image: NDArray[Any], size: tuple[int, int]) -> Iterator[Grid]:
        """Yield the grids of a photograph at one scale."""
        layout = self.layout
        fine = math.gcd(self.step, layout.cell)  # cells of all grids start at multiples of it
        cells = dense_cells(self.scaled(image, size), layout, fine)
        apart = math.lcm(self.step, layout.cell)
        for y, x in itertools.product(range(0, apart, self.step), repeat=2):
            grid = np.ascontiguousarray(cells[y // fine :: layout.cell // fine, x // fine :: layout.cell // fine])
            if all(count * layout.cell >= side for count, side in zip(grid.shape, layout.window)):
                blocks = normalised_blocks(grid, block=layout.block, norm=layout.norm)
                yield Grid(size, blocks.reshape(*blocks.shape[:2], -1), (y, x), apart // layout.cell)

    def scan(
        self, image: NDArray[Any], coef: NDArray[Any], intercept: float, threshold: float, most: int | None = None
    ) -> Windows:
        """Return the windows with a score of at least ``threshold``, best first, and at most ``most`` of them.

        ``coef`` (d,) is in the order of the HOG vector.
        """
        weights = np.ascontiguousarray(coef, np.float32).reshape(-1, self.layout.block_values)
        found = Windows(np.empty((0, 4)), np.empty(0, np.float32), np.empty((0, weights.size), np.float32))
        image = self.check_photograph(image)
        for size in self.shapes(image.shape):
            parts = [found]
            for grid in self._grids(image, size):
                scores = window_scores(grid.blocks, weights, self.layout.blocks)
                scores = scores[:: grid.stride, :: grid.stride] + np.float32(intercept)
                rows, columns = np.nonzero(scores >= threshold)
                if most is not None and len(rows) > most:
                    best = np.argpartition(-scores[rows, columns], most - 1)[:most]
                    rows, columns = rows[best], columns[best]
                if len(rows):
                    at = rows * grid.stride, columns * grid.stride
                    values = window_features(grid.blocks, *at, self.layout.blocks)
                    boxes = self._boxes(*at, grid, image.shape)
                    parts.append(Windows(boxes, scores[rows, columns], values))
            found = _best_of(parts, most)
            if most is not None and len(found) == most:
                threshold = max(threshold, float(found.scores[-1]))  # lower scores cannot be among the best
        return found

    def _boxes(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], grid: Grid, shape: tuple[int, ...]
    ) -> Boxes:
        """Return the windows that start at these blocks as boxes in pixels of the photograph."""
        cell = self.layout.cell
        top, left = rows * cell + grid.origin[0] - self.border, columns * cell + grid.origin[1] - self.border
        corners = np.column_stack([left, top, left + self.layout.window[1], top + self.layout.window[0]])
        ratio = shape[1] / grid.size[1], shape[0] / grid.size[0]
        return corners * np.array([*ratio, *ratio])


def _best_of(parts: list[Windows], most: int | None) -> Windows:
    order = np.argsort(-np.concatenate([part.scores for part in parts]), kind="stable")[:most]
    arrays = ([getattr(part, name) for part in parts] for name in ("boxes", "scores", "features"))
    return Windows(*map(np.concatenate, arrays)).take(order)


def dense_cells(image: NDArray[np.generic], layout: WindowLayout, apart: int) -> Floats:
    """Return histograms (rows, columns, orientations) of cells that start every ``apart`` pixels.

    Not only those of one grid: with steps of half a cell each pixel votes for the cells of four grids in one pass.
    The first cell starts ``layout.margin`` pixels inside the image, and the last ends as far inside. ``apart``
    divides the cell size. Every second row and column (cell=8, apart=4) equals ``cell_histograms`` from that pixel
    on.
    """
    dx, dy = gradients(image, sqrt=layout.sqrt)
    cell, margin = layout.cell, layout.margin
    count = [max(0, (side - 2 * margin - cell) // apart + 1) for side in dx.shape]
    cells = np.zeros((count[0], count[1], layout.orientations), np.float32)
    if layout.voting == "trilinear":
        row_shares, column_shares = (_linear_shares(side, n, cell, margin, apart) for side, n in zip(dx.shape, count))
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


def _linear_shares(side: int, count: int, cell: int, margin: int, apart: int) -> Shares:
    """Return the first cell of each pixel of a line, and its shares in the cells from there on.

    A share falls linearly from 1 at the centre of a cell to 0 one cell away. Cells outside the image get none.
    """
    pixels = np.arange(side) + 0.5 - margin
    first = np.floor((pixels - 1.5 * cell) / apart).astype(np.int64) + 1
    numbers = first[:, None] + np.arange(2 * cell // apart)
    shares = 1 - np.abs(pixels[:, None] - (numbers * apart + cell / 2)) / cell
    shares[(numbers < 0) | (numbers >= count)] = 0
    return first, np.maximum(shares, 0).astype(np.float32)


def window_scores(blocks: Floats, weights: Floats, shape: tuple[int, int]) -> Floats:
    """Return the scores (rows', columns') of all windows of ``shape`` blocks; weights are (blocks, values)."""
    rows, columns, values = blocks.shape
    products = weights @ blocks.reshape(-1, values).T  # (blocks of the window, blocks of the grid)
    scores = np.zeros((rows - shape[0] + 1, columns - shape[1] + 1), np.float32)
    _sum_blocks(products.reshape(*shape, rows, columns), scores)
    return scores


def window_features(
    blocks: Floats, rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]
) -> Floats:
    """Return the HOG vectors (n, d) of the windows whose first blocks are at these rows and columns."""
    windows = sliding_window_view(blocks, shape, axis=(0, 1))[rows, columns]  # (n, values, rows, columns)
    return np.ascontiguousarray(windows.transpose(0, 2, 3, 1)).reshape(len(rows), -1)


@numba.njit(nogil=True, cache=True)
def _sum_blocks(products, scores):  # type: ignore[no-untyped-def]
    for r in range(scores.shape[0]):
        for i in range(products.shape[0]):
            for j in range(products.shape[1]):
                for c in range(scores.shape[1]):
                    scores[r, c] += products[i, j, r + i, c + j]


def random_windows(scanner: Scanner, image: NDArray[Any], n: int, rng: np.random.Generator) -> Floats:
    """Return HOG vectors (n, d) of windows drawn uniformly from all positions and scales of a photograph."""
    image = scanner.check_photograph(image)
    layout, margin = scanner.layout, scanner.layout.margin
    sizes = scanner.shapes(image.shape)
    # Positions of a window at each scale, by height and by width.
    positions = np.array(sizes) + 2 * scanner.border - np.array(layout.window) + 1
    chosen = rng.choice(len(sizes), size=n, p=positions.prod(axis=1) / positions.prod(axis=1).sum())
    descriptor = layout.descriptor()
    values = np.empty((n, layout.n_features), np.float32)
    for k in np.unique(chosen):
        scaled = scanner.scaled(image, sizes[k])
        for row in np.flatnonzero(chosen == k):
            y, x = (int(rng.integers(count)) for count in positions[k])
            height, width = (side + 2 * margin for side in layout.window)
            values[row] = descriptor.describe(scaled[y : y + height, x : x + width])
    return values


@dataclass
class NegativeWindows:
    """Windows of photographs without objects, collected round by round without repeats.

    A photograph gives at most ``most`` hard windows in a round, highest scores first.
    """

    scanner: Scanner
    photographs: Sequence[NDArray[Any]]
    most: int
    n_jobs: int = 1
    verbose: int = 0
    features: list[Floats] = field(default_factory=list)
    _known: dict[int, set[tuple[float, ...]]] = field(default_factory=dict)

    def add_random(self, n: int, rng: np.random.Generator) -> None:
        """Add n random windows of each photograph."""
        seeds = rng.integers(2**63, size=len(self.photographs))

        def draw(i: int) -> Floats:
            return random_windows(self.scanner, self._read(i), n, np.random.default_rng(seeds[i]))

        self.features += self._map(draw, "random windows")

    def add_hard(self, coef: NDArray[Any], intercept: float, threshold: float) -> int:
        """Add new windows with a score of at least ``threshold``; return their number."""

        def mine(i: int) -> Windows:
            return self.scanner.scan(self._read(i), coef, intercept, threshold, self.most)

        added = 0
        for i, found in enumerate(self._map(mine, "hard windows")):
            known = self._known.setdefault(i, set())
            new = [row for row, box in enumerate(found.boxes) if tuple(box) not in known]
            known.update(tuple(found.boxes[row]) for row in new)
            self.features.append(found.features[new])
            added += len(new)
        return added

    def rows(self) -> Floats:
        """Return the HOG vectors (n, d) of all windows."""
        return np.concatenate(self.features)

    def _read(self, i: int) -> NDArray[Any]:
        """Return photograph i; a ValueError names it if no window fits."""
        image = self.photographs[i]
        try:
            return self.scanner.check_photograph(image)
        except ValueError as error:
            names = getattr(self.photographs, "names", None)
            name = f"photograph {i}" if names is None else printable(names[i])
            raise ValueError(f"negatives: {name}: {error}") from error

    def _map(self, function: Callable[[int], Any], title: str) -> list[Any]:
        results = []
        with image_progress(len(self.photographs), title, shown=bool(self.verbose)) as advance:
            tasks = ((i, (i,)) for i in range(len(self.photographs)))
            for _, result in ordered_map(function, tasks, self.n_jobs, threads=True):
                results.append(result)
                advance(1)
        return results
