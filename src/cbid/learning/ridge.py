"""Ridge regression of many targets on one set of features, in float64 and in bounded memory."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

__all__ = ["RidgeMap"]

Array = NDArray[np.floating]
_ROWS = 8192


class RidgeMap:
    """Regression of targets B (n, t), whatever they are, on features F (n, m), with an intercept that has no ridge.

    Minimises ||B - (F - mean) P / unit - offset||^2 + ridge ||P||^2. Features may be float32: products are summed in
    float64, a part of the rows at a time. A single part is kept.
    """

    def __init__(self, features: Array, ridge: float, unit: float = 1.0) -> None:
        self.features, self.ridge, self.unit = features, ridge, unit
        self.mean = features.mean(axis=0, dtype=np.float64)
        n, m = features.shape
        self._only = None if n > _ROWS else [(self._part(slice(0, n)), slice(0, n))]
        gram = np.zeros((m, m))
        for part, _ in self._parts():
            gram += part.T @ part
        # Never less than what rounding may have taken from the smallest eigenvalues.
        gram[np.diag_indices(m)] += ridge + 1e-12 * (np.trace(gram) or 1.0)
        self._factor = cho_factor(gram, overwrite_a=True)

    def solve(self, B: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """P (m, t) and offset (t,)."""
        offset = B.mean(axis=0, dtype=np.float64)
        product = np.zeros((self.features.shape[1], B.shape[1]))
        for part, rows in self._parts():
            product += part.T @ (B[rows] - offset)
        return cho_solve(self._factor, product), offset

    def apply(self, P: NDArray[np.float64], offset: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the regression says of the training samples, (n, t)."""
        return np.concatenate([part @ P for part, _ in self._parts()]) + offset

    def _parts(self) -> Iterable[tuple[NDArray[np.float64], slice]]:
        return self._only or self._each_part()

    def _each_part(self) -> Iterator[tuple[NDArray[np.float64], slice]]:
        for start in range(0, len(self.features), _ROWS):
            rows = slice(start, start + _ROWS)
            yield self._part(rows), rows

    def _part(self, rows: slice) -> NDArray[np.float64]:
        part: NDArray[np.float64] = self.features[rows] - self.mean
        part /= self.unit
        return part
