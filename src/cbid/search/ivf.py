"""IVF: codes grouped into cells by k-means; a search scans only the cells near its query.

k-means runs over bits in -1/+1 under sum_s w_s (b_s - c_s)^2; between two codes this is 4 times their weighted
Hamming distance. A centre is the mean of the bits of its cell and does not depend on the weights, so a search
with its own weights ranks the cells by them.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from cbid.codes import unpack
from cbid.search.scan import thread_count

CODES_PER_CELL = 40  # with fewer, k-means fits noise
SAMPLE_PER_CELL = 40  # more takes longer and hardly changes the recall
_ROUNDS = 10
_CHUNK = 1024  # codes scored against all cells at once: the scores stay in the cache


class Cells:
    """A coarse quantiser: ``centres`` (n_cells, t) float32, each the mean of the -1/+1 bits of its cell."""

    def __init__(self, centres: NDArray[np.float32], weights: NDArray[np.floating] | None) -> None:
        self.centres = centres
        self.weights = weights  # (t,) or None: weights for assigning codes to cells
        self._twice = 2 * centres.T
        self._squares = np.ascontiguousarray((centres**2).T)

    @classmethod
    def train(
        cls,
        codes: NDArray[np.uint8],
        n_bits: int,
        n_cells: int,
        weights: NDArray[np.floating] | None,
    ) -> "Cells":
        """Run k-means over a sample of ``codes``, from randomly drawn codes."""
        if len(codes) < n_cells:
            raise ValueError(f"codes has {len(codes)} rows; expected at least {n_cells}, one per cell")
        rng = np.random.default_rng(0)
        if len(codes) > SAMPLE_PER_CELL * n_cells:
            codes = codes[rng.choice(len(codes), SAMPLE_PER_CELL * n_cells, replace=False)]
        bits = unpack(codes, n_bits)
        cells = cls(bits[rng.choice(len(bits), n_cells, replace=False)].astype(np.float32), weights)
        for _ in range(_ROUNDS):
            own = cells.of(codes)
            sizes = np.bincount(own, minlength=n_cells)
            held = sizes > 0
            first = (np.cumsum(sizes) - sizes)[held]
            centres = bits[rng.integers(0, len(bits), n_cells)].astype(np.float32)  # for empty cells
            sums = np.add.reduceat(bits[np.argsort(own, kind="stable")], first, axis=0, dtype=np.float32)
            centres[held] = sums / sizes[held, None]
            cells = cls(centres, weights)
        return cells

    def __len__(self) -> int:
        return len(self.centres)

    @property
    def nbytes(self) -> int:
        """Bytes of the centres, in the forms that searches use."""
        return self.centres.nbytes + self._twice.nbytes + self._squares.nbytes

    def of(self, codes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the cell of each code."""
        n_bits = self.centres.shape[1]
        w = _relative(self.weights, n_bits)
        # `_closeness` as one product, with a column of ones for its second term: most of the time is spent here.
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

        # Threads over codes, each with its own products. The threads of a BLAS synchronise after every chunk and,
        # on a busy machine, spend most of the time waiting for each other.
        n_jobs = max(min(thread_count(None), len(codes) // (4 * _CHUNK)), 1)
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
        """Return the ``n_probes`` nearest cells of each query (q, t), bits in -1/+1 or real values, nearest first.

        ``weights`` is None, (t,) or (q, t).
        """
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
    """Weights scaled to a maximum of 1: the order of the cells stays the same, and float32 cannot overflow."""
    if weights is None:
        return np.ones(n_bits, dtype=np.float32)
    largest = weights.max(axis=-1, keepdims=True)
    return np.divide(weights, largest, out=np.zeros(weights.shape), where=largest > 0).astype(np.float32)
