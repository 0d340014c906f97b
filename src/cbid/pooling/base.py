"""Base class of the poolings: learn words from rows, code rows by words, pool the codes, scale the vector.

Codes are pooled over the cells of a spatial pyramid (Lazebnik, Schmid and Ponce, 2006): a sequence of grids, coarse
to fine. 2 means 2 x 2 cells, (3, 1) three rows and one column. Cells are numbered grid by grid, row by row. The
pooled vector of an image concatenates the cells, each with one value per word.
"""

import os
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from itertools import pairwise
from typing import Any, Self

import numba
import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, assert_all_finite, check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from cbid.bags import Bags, check_bags
from cbid.checks import check_arrays, check_integer
from cbid.params import check_params, estimator, integer, jobs, param
from cbid.storage.models import Saved, load_from
from cbid.threads import faiss_threads

Rows = NDArray[np.float32]  # (m, d)

NORMS = (None, "l1", "l2", "power")
_CHUNK_ROWS = 8192  # rows that a thread codes at once


@estimator
class Pooling(Saved, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of the poolings. A subclass learns ``words_`` from rows and codes rows by them.

    X is a ``Bags``, or a sequence of (m_i, d) arrays if the pyramid is (1,).

    Parameters
    ----------
    n_words : int, default=1024
        Size of the vocabulary, learned by k-means.
    pyramid : sequence of grids, default=(1, 2, 4)
        (1, 2, 4): the whole image, 2 x 2 and 4 x 4 cells. A pair means (rows, columns). (1,) needs no positions.
    n_rows : int, default=100_000
        Random rows of all images from which the words are learned.
    n_iter : int, default=25
        Iterations of k-means.
    n_jobs : int or None, default=None
        Number of threads, as in scikit-learn.
    random_state : int, RandomState or None, default=0
        Seed of the drawn rows and the initial words.

    Attributes
    ----------
    words_ : (n_words, d)
    """

    _ARRAYS = frozenset({"words_"})

    n_words: int = param(1024, integer(1))
    pyramid: Sequence[Any] = (1, 2, 4)
    n_rows: int = param(100_000, integer(1))
    n_iter: int = param(25, integer(1))
    n_jobs: int | None = param(None, jobs)
    random_state: Any = 0

    words_: Rows = field(init=False)

    def _settings(self) -> tuple[str, str | None, str | None]:
        """Return how codes are pooled ("sum" or "max"), the weights of the pyramid, and the norm."""
        return "max", None, "l2"

    def _learn(self, rows: Rows, seed: int, n_threads: int) -> None:
        """Set ``words_``, and in a subclass what else ``_code`` needs, from a sample of rows (m, d)."""
        self.words_ = k_means(rows, self.n_words, n_iter=self.n_iter, seed=seed, n_threads=n_threads)

    @abstractmethod
    def _code(self, rows: Rows) -> csr_array:
        """Return codes (m, n_words) of rows (m, d), in one thread."""

    def _check_params(self) -> None:
        check_params(self)
        check_pyramid(self.pyramid)

    def fit(self, X: Bags | Sequence[ArrayLike], y: Any = None) -> Self:
        """Learn the words from ``n_rows`` random rows of X; y is ignored."""
        self._check_params()
        bags = _as_bags(X)
        if not len(bags.values):
            raise ValueError("X has no rows: expected at least one image with rows")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows = _floats(draw_rows(bags.values, self.n_rows, np.random.default_rng(seed)))
        assert_all_finite(rows, input_name="X")
        n_threads = effective_n_jobs(self.n_jobs)
        with threadpool_limits(n_threads, user_api="blas"):
            self._learn(rows, seed, n_threads)
        self.n_features_in_ = rows.shape[1]
        return self

    def transform(self, X: Bags | Sequence[ArrayLike]) -> NDArray[np.float32]:
        """Return one vector per image, (n, n_cells n_words) float32; zeros for an image without rows."""
        check_is_fitted(self)
        bags = self._as_fitted(X)
        how, weights, norm = self._settings()
        grids = check_pyramid(self.pyramid)
        of_cell = cell_weights(grids, weights)[:, None]
        pooled = np.empty((len(bags), len(of_cell), len(self.words_)), np.float32)

        def work(first: int, last: int) -> None:
            part = _part(bags, first, last)
            if not len(part.values):
                pooled[first:last] = 0
                return
            codes = self._code(_floats(check_bags(part, first=first).values))
            pooled[first:last] = pool(codes, part.offsets, cells_of(part, grids), len(of_cell), how) * of_cell
            _scale(pooled[first:last].reshape(last - first, -1), norm)

        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(effective_n_jobs(self.n_jobs)) as threads:
            list(threads.map(lambda edges: work(*edges), pairwise(_edges(bags.offsets))))
        return pooled.reshape(len(bags), -1)

    def code(self, rows: ArrayLike) -> csr_array:
        """Return the codes (m, n_words) of rows (m, d) before pooling."""
        check_is_fitted(self)
        return self._code(_floats(self._as_fitted([rows]).values))

    def _as_fitted(self, X: Bags | Sequence[ArrayLike]) -> Bags:
        bags = _as_bags(X)
        if bags.values.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {bags.values.shape[1]} features per row: {type(self).__name__} expects {self.n_features_in_}"
            )
        return bags

    def _check_state(self) -> None:
        self._check_params()
        check_arrays(self, {"words_": (self.n_words, self.n_features_in_)}, dtype="float32")

    @property
    def _n_features_out(self) -> int:
        return len(self.words_) * len(cell_weights(check_pyramid(self.pyramid), None))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def _as_bags(X: Bags | Sequence[ArrayLike]) -> Bags:
    """Return Bags unchanged (they may be memory-mapped; ``transform`` checks them in parts), or convert a list."""
    return X if isinstance(X, Bags) else check_bags(X)


def _floats(rows: NDArray[Any]) -> Rows:
    return np.ascontiguousarray(rows, dtype=np.float32)


def _edges(offsets: NDArray[np.int64]) -> list[int]:
    """Return image indices 0 = e_0 < e_1 ... = n that cut the images into parts of about ``_CHUNK_ROWS`` rows."""
    inner = np.searchsorted(offsets, np.arange(_CHUNK_ROWS, offsets[-1], _CHUNK_ROWS))
    return [int(e) for e in np.unique([0, *inner, len(offsets) - 1])]


def _part(bags: Bags, first: int, last: int) -> Bags:
    """Return the images ``first`` to ``last`` - 1 as views."""
    start, stop = bags.offsets[first], bags.offsets[last]
    return Bags(
        bags.values[start:stop],
        bags.offsets[first : last + 1] - start,
        None if bags.frames is None else bags.frames[start:stop],
        None if bags.shapes is None else bags.shapes[first:last],
    )


def _scale(vectors: NDArray[np.float32], norm: str | None) -> None:
    """Scale each row in place: to unit l1 or l2 length, or ("power") its signed roots to unit l2 length."""
    if norm == "power":
        vectors[:] = np.sign(vectors) * np.sqrt(np.abs(vectors))
    if norm is not None:
        lengths = np.linalg.norm(vectors, 1 if norm == "l1" else 2, axis=1, keepdims=True)
        vectors /= np.where(lengths > 0, lengths, 1)


def load(path: str | os.PathLike[str]) -> Any:
    """Open a pooling or classifier of this package that ``save`` wrote."""
    import cbid.pooling  # here, because its modules import this one

    return load_from(cbid.pooling, Saved, path)


def draw_rows(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    """Return at most ``most`` random rows, in their original order."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(rng.choice(len(rows), most, replace=False, shuffle=False))]


def k_means(rows: Rows, n_words: int, *, n_iter: int = 25, seed: int = 0, n_threads: int = 1) -> Rows:
    """Return centres (n_words, d) of the rows by faiss's k-means, from random rows; the seed fixes the result."""
    import faiss

    if len(rows) < n_words:
        raise ValueError(f"n_words={n_words}: expected at most one word per row, {len(rows)}")
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    clustering = faiss.Kmeans(
        rows.shape[1], n_words, niter=n_iter, seed=seed, min_points_per_centroid=1, max_points_per_centroid=len(rows)
    )
    with faiss_threads(n_threads):
        clustering.train(rows)
    return np.ascontiguousarray(clustering.centroids, dtype=np.float32)


def nearest_words(
    rows: Rows, words: Rows, k: int = 1, *, n_threads: int = 1
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return squared distances and indices (m, k) of the k words nearest to each row, nearest first."""
    import faiss

    with faiss_threads(n_threads):
        distances, indices = faiss.knn(np.ascontiguousarray(rows), words, k)
    return np.maximum(distances, 0), indices


def fixed_codes(values: NDArray[np.float32], words: NDArray[np.int64], n_words: int) -> csr_array:
    """Return codes (m, n_words) with k entries each, from values and word indices (m, k)."""
    m, k = words.shape
    return csr_array((values.ravel(), words.ravel(), np.arange(0, m * k + 1, k)), shape=(m, n_words))


Grids = list[tuple[int, int]]


def check_pyramid(pyramid: Any) -> Grids:
    """Return the grids as (rows, columns); raise a ValueError if ``pyramid`` is invalid."""
    if isinstance(pyramid, (str, bytes)) or not np.iterable(pyramid) or not len(tuple(pyramid)):
        raise ValueError(f"pyramid={pyramid!r}: expected grids such as (1, 2, 4) or (1, 2, (3, 1))")
    grids = []
    for level in pyramid:
        sides = (level, level) if np.ndim(level) == 0 else tuple(level)
        if len(sides) != 2:
            raise ValueError(f"pyramid={pyramid!r}: expected numbers or pairs (rows, columns), not {level!r}")
        for side in sides:
            check_integer("pyramid: rows or columns", side, 1, 1000)
        grids.append((int(sides[0]), int(sides[1])))
    return grids


def cell_weights(grids: Grids, weights: str | None) -> NDArray[np.float32]:
    """Return the weight of each cell, (n_cells,): 1, or with "match" the weights of the pyramid match kernel.

    With grids 0 to L, the cells of grid l > 0 weigh 2^(l - L - 1) and those of grid 0 weigh 2^-L.
    """
    last = len(grids) - 1
    of_grid = [0.5 ** (last - max(level - 1, 0)) if weights == "match" else 1.0 for level in range(len(grids))]
    return np.repeat(np.asarray(of_grid, np.float32), [rows * columns for rows, columns in grids])


def cells_of(bags: Bags, grids: Grids) -> NDArray[np.int32]:
    """Return the cell of each row in each grid, (m, len(grids)), by the centre of its patch."""
    cells = np.empty((len(bags.values), len(grids)), np.int32)
    first = 0
    for level, (rows, columns) in enumerate(grids):
        if rows == columns == 1:
            cells[:, level] = first
        else:
            if bags.frames is None or bags.shapes is None:
                raise ValueError(
                    f"X has no positions: a pyramid with {rows} x {columns} cells needs Bags with frames and shapes; "
                    "otherwise use pyramid=(1,)"
                )
            # The centre of the first pixel is at 0, so the image starts at -0.5.
            height, width = bags.shapes[bags.owners].T
            y = np.floor((bags.frames[:, 1] + 0.5) * rows / height)
            x = np.floor((bags.frames[:, 0] + 0.5) * columns / width)
            cells[:, level] = first + np.clip(y, 0, rows - 1) * columns + np.clip(x, 0, columns - 1)
        first += rows * columns
    return cells


def pool(
    codes: csr_array, offsets: NDArray[np.int64], cells: NDArray[np.int32], n_cells: int, how: str
) -> NDArray[np.float32]:
    """Return sums or maxima (n, n_cells, n_words) of the codes (m, n_words) of each image's rows in each cell.

    Entries that are not stored and empty cells count as zero, so a maximum is never negative.
    """
    pooled = np.zeros((len(offsets) - 1, n_cells, codes.shape[1]), np.float32)
    # Fixed types, so that numba compiles the kernels once.
    ends, words = codes.indptr.astype(np.int64, copy=False), codes.indices.astype(np.int32, copy=False)
    values = codes.data.astype(np.float32, copy=False)
    _pool(ends, words, values, offsets, cells, how == "max", pooled)
    return pooled


@numba.njit(nogil=True, cache=True)
def _pool(ends: Any, words: Any, values: Any, offsets: Any, cells: Any, largest: bool, pooled: Any) -> None:
    for image in range(len(offsets) - 1):
        for row in range(offsets[image], offsets[image + 1]):
            for level in range(cells.shape[1]):
                histogram = pooled[image, cells[row, level]]
                for place in range(ends[row], ends[row + 1]):
                    word, value = words[place], values[place]
                    histogram[word] = max(histogram[word], value) if largest else histogram[word] + value
