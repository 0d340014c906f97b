"""IVF: codes grouped into cells by k-means, so that a search scans only the cells near its query.

The cells are those of k-means over bits in -1/+1 under sum_s w_s (b_s - c_s)^2, which between two codes is 4
times their weighted Hamming distance. A centre is the mean of the bits of its cell, whatever the weights; so
a search with other weights than those of the training ranks the cells by its own.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from cbid.codes import unpack
from cbid.search.scan import _thread_count

__all__ = ["CODES_PER_CELL", "SAMPLE_PER_CELL", "Cells"]

CODES_PER_CELL = 40  # k-means with fewer is noise
SAMPLE_PER_CELL = 40  # more hardly moves the recall, and takes longer
_ROUNDS = 10
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
        """k-means over a sample of ``codes``: rounds of assignment and means, from codes drawn at random."""
        if len(codes) < n_cells:
            raise ValueError(f"codes has {len(codes)} rows; training {n_cells} cells takes at least as many")
        rng = np.random.default_rng(seed)
        if len(codes) > SAMPLE_PER_CELL * n_cells:
            codes = codes[rng.choice(len(codes), SAMPLE_PER_CELL * n_cells, replace=False)]
        bits = unpack(codes, n_bits)
        cells = cls(bits[rng.choice(len(bits), n_cells, replace=False)].astype(np.float32), weights)
        for _ in range(_ROUNDS):
            own = cells.of(codes)
            sizes = np.bincount(own, minlength=n_cells)
            held = sizes > 0
            first = (np.cumsum(sizes) - sizes)[held]
            centres = bits[rng.integers(0, len(bits), n_cells)].astype(np.float32)  # where a cell is empty
            sums = np.add.reduceat(bits[np.argsort(own, kind="stable")], first, axis=0, dtype=np.float32)
            centres[held] = sums / sizes[held, None]
            cells = cls(centres, weights)
        return cells

    def __len__(self) -> int:
        return len(self.centres)

    def of(self, codes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The cell of each code."""
        n_bits = self.centres.shape[1]
        w = _relative(self.weights, n_bits)
        # `_closeness` as one product, with a column of ones for its second term: this is most of the work.
        factors = np.concatenate([self._twice * w[:, None], -(w @ self._squares)[None]])
        cells = np.empty(len(codes), dtype=np.int64)

        def assign(begin: int, end: int) -> None:
            values = np.ones((_CHUNK, n_bits + 1), dtype=np.float32)
            close = np.empty((_CHUNK, len(self)), dtype=np.float32)
            for first in range(begin, end, _CHUNK):
                chunk = codes[first : min(first + _CHUNK, end)]
                values[: len(chunk), :-1] = unpack(chunk, n_bits)
                np.matmul(values, factors, out=close)
                cells[first : first + len(chunk)] = close[: len(chunk)].argmax(axis=1)

        # Threads over codes, each with its own products: the threads of a BLAS meet after every chunk, and on
        # a machine that is busy with other things then wait for each other most of the time.
        n_jobs = max(min(_thread_count(None), len(codes) // (4 * _CHUNK)), 1)
        if n_jobs == 1:
            assign(0, len(codes))
            return cells
        edges = np.linspace(0, len(codes), n_jobs + 1).astype(int).tolist()
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_jobs) as pool:
            list(pool.map(assign, edges[:-1], edges[1:]))
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

    def _closeness(self, values: NDArray[np.number], weights: NDArray[np.floating] | None) -> NDArray[np.float32]:
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
