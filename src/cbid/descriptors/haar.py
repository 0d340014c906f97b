"""Haar-like features (Viola and Jones, 2004): differences of the sums over neighbouring rectangles."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cbid.checks import check_choice, check_integer, check_pair
from cbid.data.images import Size, as_gray, resize, to_float
from cbid.descriptors.base import Descriptor
from cbid.descriptors.pixels import normalise
from cbid.params import estimator, flag, integer, param

# Rows and columns of rectangles. Neighbours have opposite signs; the first is negative.
KINDS = {"2-x": (1, 2), "2-y": (2, 1), "3-x": (1, 3), "3-y": (3, 1), "4": (2, 2)}
MOST = 5_000_000


@estimator
class HaarFeatures(Descriptor):
    """Sums over two, three or four equal rectangles side by side, neighbours with opposite signs.

    All positions and sizes in the window, or a random subset. A window of 19 x 19 has 63,960, one of 24 x 24
    has 162,336. The values are in units of white pixels, or of standard deviations of the window's pixels.

    Parameters
    ----------
    size : (height, width)
        The window; images are resized to it first.
    kinds : sequence of {"2-x", "2-y", "3-x", "3-y", "4"}
        Two or three rectangles side by side along x or y, and the chessboard of four.
    n_features : int or None
        Number of features drawn at random without replacement; None uses all.
    random_state : int
        Seed of the random subset.
    variance : bool
        Whether to scale the pixels of the window to mean 0 and standard deviation 1 first.
    n_jobs, verbose
        As in ``Descriptor``.

    >>> HaarFeatures(size=(19, 19)).transform([np.eye(19)]).shape
    (1, 63960)
    """

    _threads = True

    size: Size = (19, 19)
    kinds: Sequence[str] = tuple(KINDS)
    n_features: int | None = None
    random_state: int = param(0, integer(0))
    variance: bool = param(True, flag)

    def _check_params(self) -> None:
        super()._check_params()
        check_pair("size", self.size, 3)
        if not (isinstance(self.kinds, (tuple, list)) and self.kinds):
            raise ValueError(f"kinds={self.kinds!r}: expected a sequence of {', '.join(map(repr, KINDS))}")
        for i, kind in enumerate(self.kinds):
            check_choice(f"kinds[{i}]", kind, tuple(KINDS))
        total = sum(_counts(self._window(), tuple(self.kinds)))
        if self.n_features is not None:
            check_integer("n_features", self.n_features, 1, total)
        elif total > MOST:
            raise ValueError(f"size={self.size!r} has {total:,} features: set n_features, because None uses all")

    def _window(self) -> Size:
        return (self.size[0], self.size[1])  # a tuple, even if a list was given

    def rectangles(self) -> list[tuple[str, NDArray[np.intp]]]:
        """Return for each kind, in order, (m, 4) top, left, height and width of the first rectangle."""
        return list(_rectangles(self._window(), tuple(self.kinds), self.n_features, self.random_state))

    def describe(self, image: NDArray[Any]) -> NDArray[np.float32]:
        """Return the values in the order of ``rectangles``."""
        window = resize(as_gray(to_float(image)), self._window())
        if self.variance:
            window = normalise(window.ravel(), "contrast").reshape(window.shape)
        corners = np.zeros((self.size[0] + 1, self.size[1] + 1))  # integral image
        corners[1:, 1:] = window.cumsum(axis=0, dtype=np.float64).cumsum(axis=1)
        features = _features(self._window(), tuple(self.kinds), self.n_features, self.random_state)
        return (features @ corners.ravel()).astype(np.float32)


def _steps(side: int, parts: int) -> NDArray[np.intp]:
    """Return all (start, step) with start + parts * step <= side, (m, 2)."""
    start, step = np.mgrid[:side, 1 : side // parts + 1]
    inside = start + parts * step <= side
    return np.stack([start[inside], step[inside]], axis=1)


def _counts(size: Size, kinds: tuple[str, ...]) -> list[int]:
    return [len(_steps(size[0], KINDS[kind][0])) * len(_steps(size[1], KINDS[kind][1])) for kind in kinds]


def _rectangles(
    size: Size, kinds: tuple[str, ...], n_features: int | None, random_state: int
) -> list[tuple[str, NDArray[np.intp]]]:
    counts = _counts(size, kinds)
    total = sum(counts)
    if n_features is None:
        chosen = np.arange(total)
    else:
        rng = np.random.default_rng(random_state)
        chosen = np.sort(rng.choice(total, n_features, replace=False, shuffle=False))
    found, first = [], 0
    for kind, count in zip(kinds, counts):
        vertical, horizontal = (_steps(side, parts) for side, parts in zip(size, KINDS[kind]))
        own = chosen[(chosen >= first) & (chosen < first + count)] - first
        (top, height), (left, width) = vertical[own // len(horizontal)].T, horizontal[own % len(horizontal)].T
        found.append((kind, np.stack([top, left, height, width], axis=1)))
        first += count
    return found


@lru_cache(maxsize=4)
def _features(size: Size, kinds: tuple[str, ...], n_features: int | None, random_state: int) -> csr_array:
    """Return one row per feature: its weights of the entries of the integral image."""
    blocks = []
    for kind, placed in _rectangles(size, kinds, n_features, random_state):
        parts = KINDS[kind]
        signs = np.where(np.indices(parts).sum(axis=0) % 2, 1.0, -1.0)
        # The sum over a rectangle is its last corner, minus two, plus its first: a difference along both axes.
        weights = np.diff(np.diff(np.pad(signs, 1), axis=0), axis=1)
        i, j = np.nonzero(weights)
        rows = placed[:, :1] + i * placed[:, 2:3]
        columns = placed[:, 1:2] + j * placed[:, 3:4]
        blocks.append((weights[i, j], rows * (size[1] + 1) + columns))
    data = np.concatenate([np.tile(weights, len(corners)) for weights, corners in blocks])
    indices = np.concatenate([corners.ravel() for _, corners in blocks])
    lengths = np.concatenate([np.full(len(corners), len(weights)) for weights, corners in blocks])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return csr_array((data, indices, indptr), shape=(len(lengths), (size[0] + 1) * (size[1] + 1)))
