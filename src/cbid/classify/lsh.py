"""Nearest patches by locality-sensitive hashing with p-stable functions (Datar et al., 2004)."""

import numpy as np
from numpy.typing import NDArray

from cbid.classify._rows import nearest_in_buckets
from cbid.classify.heads import Heads, slack
from cbid.classify.patch_search import Answers, Floats, in_shares, nothing_found

__all__ = ["LSHSearch"]

Keys = NDArray[np.uint64]

_CHUNK = 4096  # rows hashed at a time


class LSHSearch:
    """Rows that share a bucket with the query in any table are compared with it; the nearest of them are returned.

    A table's bucket is the values of ``n_functions`` functions floor((a.x + b) / bin_width), with directions a drawn
    evenly from the unit sphere and b from 0 to bin_width. (Directions with normal coordinates, the usual form, are
    sqrt(d) times as long: for the same buckets their bins are that much wider.) A query that is alone in all its
    buckets has no answer. ``axes`` are those of heads (`heads.head_axes`), which comparisons begin with, or None.
    """

    def __init__(
        self,
        rows: Floats,
        *,
        n_tables: int,
        n_functions: int,
        bin_width: float,
        seed: int,
        axes: Floats | None = None,
    ) -> None:
        rng = np.random.default_rng(seed)
        self._rows = np.ascontiguousarray(rows)
        self._shape = n_tables, n_functions
        directions = rng.normal(size=(rows.shape[1], n_tables * n_functions))
        directions /= np.linalg.norm(directions, axis=0)
        self._directions = (directions / bin_width).astype(np.float32)
        self._shifts = rng.random(n_tables * n_functions, dtype=np.float32)
        # Sums of odd multiples modulo 2^64: two buckets of a table have one key with probability about 2^-63.
        self._multipliers = 2 * rng.integers(2**63, size=n_functions, dtype=np.uint64) + 1
        keys = self._keys(rows)  # (n, tables)
        self._order = np.argsort(keys, axis=0, kind="stable").astype(np.int32).T.copy()
        self._sorted = np.take_along_axis(keys.T, self._order, axis=1)
        self.nbytes = self._order.nbytes + self._sorted.nbytes + self._directions.nbytes
        self._head, self._heads = None, self._rows
        if axes is not None:
            self._head = Heads.around(rows, axes)
            self._heads = self._head(rows)
            self._most = float(np.einsum("ij,ij->i", self._heads, self._heads).max(initial=0.0))
            self.nbytes += self._heads.nbytes

    def query(self, Q: Floats, k: int, n_threads: int) -> Answers:
        def search(part: Floats) -> Answers:
            keys = self._keys(part).T
            by_bucket = np.argsort(keys, axis=1)
            keys = np.take_along_axis(keys, by_bucket, axis=1)  # in order they are found faster
            starts, ends = (
                np.stack([np.searchsorted(table, asked, side) for table, asked in zip(self._sorted, keys)])
                for side in ("left", "right")
            )
            asked, rounding = part, np.zeros(len(part), np.float32)
            if self._head is not None:
                asked = self._head(part)
                rounding = slack(asked, self._most)
            found = nothing_found(len(part), k)
            nearest_in_buckets(
                part, asked, rounding, self._rows, self._heads, self._order, by_bucket, starts, ends, *found
            )
            return found

        return in_shares(search, np.ascontiguousarray(Q), n_threads)

    def _keys(self, X: Floats) -> Keys:
        keys = np.empty((len(X), self._shape[0]), np.uint64)
        for start in range(0, len(X), _CHUNK):
            part = X[start : start + _CHUNK]
            bins = np.floor(part @ self._directions + self._shifts).astype(np.int64).view(np.uint64)
            keys[start : start + _CHUNK] = bins.reshape(len(part), *self._shape) @ self._multipliers
        return keys
