"""Nearest patches by every distance: of heads as a product of matrices, of rows where these leave it open."""

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
from threadpoolctl import threadpool_limits

from cbid.classify._rows import LANES, nearest_by_bounds
from cbid.classify.heads import ROUNDING, TINY, Heads
from cbid.classify.patch_search import Answers, Floats, in_shares, nothing_found
from cbid.threads import faiss_products, faiss_threads

__all__ = ["FlatSearch", "far_centre"]

_QUERIES, _ROWS = 1024, 512  # of one product: what it reads and writes stays in the second-level cache


class FlatSearch:
    """Every distance, exactly.

    axes: (width, m) of heads (`heads.head_axes`), or None. With them rows are compared only where the distance of
    their heads is less than that of the nearest so far. Without, every distance is part of a product of matrices
    (faiss).
    centre: (width,), subtracted from rows and queries for such products; that of structures whose distances are
    compared is the same. Heads need none.
    """

    def __init__(self, rows: Floats, axes: Floats | None = None, centre: Floats | None = None) -> None:
        self._head = None if axes is None else Heads.around(rows, axes)
        self._centre = centre if axes is None else None
        self._rows = np.ascontiguousarray(rows if self._centre is None else rows - self._centre)
        self.nbytes = 0 if self._centre is None else self._rows.nbytes
        if self._head is not None:
            # Shuffled, so that what is nearest early is a good bound for all that follows.
            self._order = np.random.default_rng(0).permutation(len(rows)).astype(np.int32)
            self._heads = _padded(self._head(rows)[self._order])
            self.nbytes += self._heads.nbytes + self._order.nbytes

    def query(self, Q: Floats, k: int, n_threads: int) -> Answers:
        if self._head is not None:
            with threadpool_limits(1, user_api="blas") if n_threads > 1 else nullcontext():  # shares are the threads
                return in_shares(lambda part: self._by_heads(part, k), np.ascontiguousarray(Q), n_threads)
        import faiss

        Q = Q if self._centre is None else Q - self._centre
        with faiss_threads(n_threads), faiss_products(True):
            distances, positions = faiss.knn(np.ascontiguousarray(Q), self._rows, k)
        distances[positions < 0] = np.inf
        return np.maximum(distances, 0), positions  # |q|^2 - 2 q.x + |x|^2 may come out just below zero

    def _by_heads(self, Q: Floats, k: int) -> Answers:
        assert self._head is not None
        distances, positions = nothing_found(len(Q), k)
        asked = self._head(Q)
        # A product gives |x|^2 - 2 q.x; the rest of the distance, |q|^2, is the same for all rows.
        room = np.float32(TINY) - np.float32(1 - ROUNDING) * np.einsum("ij,ij->i", asked, asked)
        asked = np.hstack([-2 * asked, np.ones((len(Q), 1), np.float32)])
        bounds = np.empty(_QUERIES * _ROWS, np.float32)
        for start in range(0, len(self._heads), _ROWS):
            heads = self._heads[start : start + _ROWS]
            order = self._order[start : start + _ROWS]
            for first in range(0, len(Q), _QUERIES):
                part = slice(first, first + _QUERIES)
                out = bounds[: len(asked[part]) * len(heads)].reshape(-1, len(heads))
                np.dot(asked[part], heads.T, out=out)
                nearest_by_bounds(out, room[part], Q[part], self._rows, order, distances[part], positions[part])
        return distances, positions


def _padded(heads: Floats) -> Floats:
    """Heads (n, m) and their squared lengths, less what may be lost by rounding, as one more column; rows infinitely
    far fill the last LANES up."""
    out = np.zeros((-(-len(heads) // LANES) * LANES, heads.shape[1] + 1), np.float32)
    out[: len(heads), :-1] = heads
    out[: len(heads), -1] = np.float32(1 - ROUNDING) * np.einsum("ij,ij->i", heads, heads)
    out[len(heads) :, -1] = np.inf
    return out


def far_centre(parts: Sequence[Floats]) -> Floats | None:
    """The mean of all rows where it lies far outside of them, which would cost products of matrices their digits.

    Elsewhere None: rows are then searched as they are, and not copied.
    """
    n = sum(len(part) for part in parts)
    mean = sum(part.sum(axis=0, dtype=np.float64) for part in parts) / n
    squares = sum(float(np.einsum("ij,ij->", part, part, dtype=np.float64)) for part in parts) / n
    # The mean square is that of the mean and the variance; here the variance is less than a tenth of it.
    return mean.astype(np.float32) if mean @ mean > 0.9 * squares else None
