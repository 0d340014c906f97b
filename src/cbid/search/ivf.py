"""IVF: codes grouped into cells by k-means, so that a search scans only the cells near its query.

The cells are those of k-means over bits in -1/+1 scaled by sqrt(weights): there the squared distance of two
codes is 4 times their weighted Hamming distance. Centres are kept unscaled (means of bits), so that a search
with other weights than those of the training still ranks the cells by its own.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.codes import unpack

__all__ = ["CODES_PER_CELL", "SAMPLE_PER_CELL", "Cells"]

CODES_PER_CELL = 40  # k-means with fewer is noise
SAMPLE_PER_CELL = 40  # more hardly moves the recall, and takes longer
_CHUNK = 1024  # codes whose scores against all cells are held at once: they stay in the cache


class Cells:
    """A coarse quantiser: ``centres`` (n_cells, t) float32, each the mean of the -1/+1 bits of its cell."""

    def __init__(self, centres: NDArray[np.float32], weights: NDArray[np.floating] | None) -> None:
        self.centres = centres
        self.weights = weights  # (t,) or None: those under which codes are assigned to cells
        self._twice = 2 * centres.T
        self._squares = np.ascontiguousarray((centres**2).T)

    @classmethod
    def train(
        cls,
        codes: NDArray[np.uint8],
        n_bits: int,
        n_cells: int,
        weights: NDArray[np.floating] | None,
        *,
        seed: int = 0,
    ) -> "Cells":
        """k-means (faiss) over a sample of ``codes``."""
        import faiss

        if len(codes) < n_cells:
            raise ValueError(f"codes has {len(codes)} rows; training {n_cells} cells takes at least as many")
        largest = SAMPLE_PER_CELL * n_cells
        if len(codes) > largest:
            codes = codes[np.random.default_rng(seed).choice(len(codes), largest, replace=False)]
        scale = np.sqrt(_relative(weights, n_bits))
        points: NDArray[np.float32] = unpack(codes, n_bits).astype(np.float32) * scale
        kmeans = faiss.Kmeans(n_bits, n_cells, niter=8, seed=seed, min_points_per_centroid=1)
        kmeans.train(points)
        # A bit without weight does not move a cell, and its mean is never looked at under these weights.
        scaled = np.asarray(kmeans.centroids, dtype=np.float32)
        return cls(np.divide(scaled, scale, out=np.zeros_like(scaled), where=scale > 0), weights)

    def __len__(self) -> int:
        return len(self.centres)

    def of(self, codes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The cell of each code."""
        n_bits = self.centres.shape[1]
        w = _relative(self.weights, n_bits)
        # `_closeness` as one product, with a column of ones for its second term: this is most of the work.
        factors = np.concatenate([self._twice * w[:, None], -(w @ self._squares)[None]])
        values = np.ones((_CHUNK, n_bits + 1), dtype=np.float32)
        close = np.empty((_CHUNK, len(self)), dtype=np.float32)
        cells = np.empty(len(codes), dtype=np.int64)
        for first in range(0, len(codes), _CHUNK):
            chunk = codes[first : first + _CHUNK]
            values[: len(chunk), :-1] = unpack(chunk, n_bits)
            np.matmul(values, factors, out=close)
            cells[first : first + len(chunk)] = close[: len(chunk)].argmax(axis=1)
        return cells

    def nearest(
        self,
        values: NDArray[np.floating] | NDArray[np.int8],
        n_probes: int,
        weights: NDArray[np.floating] | None,
    ) -> NDArray[np.int64]:
        """The ``n_probes`` cells nearest to each query (q, t) of bits in -1/+1 or soft bits between, nearest
        first, under ``weights`` None, (t,) or (q, t)."""
        found = np.empty((len(values), n_probes), dtype=np.int64)
        for first in range(0, len(values), _CHUNK):
            rows = slice(first, first + _CHUNK)
            w = weights[rows] if weights is not None and weights.ndim == 2 else weights
            far = -self._closeness(values[rows], w)
            near = np.argpartition(far, n_probes - 1, axis=1)[:, :n_probes]
            order = np.argsort(np.take_along_axis(far, near, axis=1), axis=1, kind="stable")
            found[rows] = np.take_along_axis(near, order, axis=1)
        return found

    def _closeness(
        self, values: NDArray[np.number], weights: NDArray[np.floating] | None
    ) -> NDArray[np.float32]:
        """(q, n_cells): 2 sum_s w_s b_s c_s - sum_s w_s c_s^2, which is const - sum_s w_s (b_s - c_s)^2."""
        w = _relative(weights, self.centres.shape[1])
        close = (w * values.astype(np.float32)) @ self._twice
        close -= w @ self._squares
        return close


def _relative(weights: NDArray[np.floating] | None, n_bits: int) -> NDArray[np.float32]:
    """Weights with largest value 1: the order of the cells does not depend on their scale, float32 would."""
    if weights is None:
        return np.ones(n_bits, dtype=np.float32)
    largest = weights.max(axis=-1, keepdims=True)
    return np.divide(weights, largest, out=np.zeros(weights.shape), where=largest > 0).astype(np.float32)
