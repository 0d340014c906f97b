"""Codes of rows over a vocabulary: bags of words, locality-constrained linear coding, and efficient match kernels.

LLC (Wang, Yang, Yu, Lv, Huang and Gong, 2010) in its approximate form: the k nearest words B (k, d) approximate a
row x with weights w that sum to one. The residual is then x - B^T w = -Z^T w with Z = B - 1 x^T, and

    min_w  w^T (Z Z^T + ridge tr(Z Z^T) I) w   subject to  1^T w = 1

has the solution w proportional to (Z Z^T + ridge tr(Z Z^T) I)^-1 1.

EMK (Bo and Sminchisescu, 2009): the match kernel of two images is the mean of k(x, y) = exp(-gamma |x - y|^2) over
all pairs of their rows. With K the kernel between words and k(x) the kernel between a row and the words, k(x, y) is
approximately k(x)^T K^-1 k(y). So the match kernel is approximately the inner product of one vector per image:
K^(-1/2) times the mean of its k(x).
"""

import math
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from cbid.bags import Bags
from cbid.checks import check_arrays, check_real
from cbid.params import choice, estimator, integer, param, positive
from cbid.pooling.base import NORMS, Pooling, Rows, _as_bags, _scale, fixed_codes, nearest_words

_SCALE_ROWS = 5000  # rows that determine gamma
_CHUNK_VALUES = 2**24  # values of the vectors that are projected together


@estimator
class BagOfWords(Pooling):
    """Histograms of the nearest words, over the cells of a spatial pyramid.

    Parameters
    ----------
    n_words : int, default=200
    level_weights : "match" or None, default="match"
        The weights of the pyramid match kernel (Lazebnik et al., 2006), which favour fine cells; None: equal weights.
    assignment : {"hard", "soft"}, default="hard"
        A row counts for its nearest word, or for its ``n_nearest`` words in proportion to
        exp(-distance^2 / (2 width^2)) (Liu, Wang and Liu, 2011).
    n_nearest : int, default=5
        Words per row with soft assignment.
    width : float or None, default=None
        None: the root mean square distance of the training rows to their nearest words.
    pooling : {"sum", "max"}, default="sum"
        Sum the shares of the rows of a cell per word, or take the largest.
    norm : {"l1", "l2", "power", None}, default="l1"
        Norm of the whole vector; "power" takes square roots, then scales to unit l2 length.
    n_rows : int, default=200_000
    pyramid, n_iter, n_jobs, random_state
        As in ``Pooling``.

    Attributes
    ----------
    words_ : (n_words, d)
    width_ : float, with soft assignment

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(50, 8)) for image in range(4)]
    >>> BagOfWords(n_words=10, pyramid=(1,)).fit_transform(bags).shape
    (4, 10)
    """

    _VALUES = Pooling._VALUES | {"width_"}

    n_words: int = param(200, integer(1))
    level_weights: str | None = param("match", choice(None, "match"))
    assignment: str = param("hard", choice("hard", "soft"))
    n_nearest: int = param(5, integer(1))
    width: float | None = param(None, positive)
    pooling: str = param("sum", choice("sum", "max"))
    norm: str | None = param("l1", choice(*NORMS))
    n_rows: int = param(200_000, integer(1))

    def _settings(self) -> tuple[str, str | None, str | None]:
        return self.pooling, self.level_weights, self.norm

    def _learn(self, rows: Rows, seed: int, n_threads: int) -> None:
        super()._learn(rows, seed, n_threads)
        if self.assignment == "soft":
            squares, _ = nearest_words(rows, self.words_, n_threads=n_threads)
            # If every row is a word, the distance is 0 and any width works.
            self.width_ = float(self.width or np.sqrt(squares.mean(dtype=np.float64)) or 1.0)

    def _code(self, rows: Rows) -> csr_array:
        k = 1 if self.assignment == "hard" else min(self.n_nearest, len(self.words_))
        squares, words = nearest_words(rows, self.words_, k)
        shares = np.ones_like(squares)
        if self.assignment == "soft":
            # Relative to the nearest, so that not all underflow.
            shares = np.exp((squares[:, :1] - squares) / (2 * self.width_**2))
            shares /= shares.sum(axis=1, keepdims=True)
        return fixed_codes(shares, words, len(self.words_))


@estimator
class LLC(Pooling):
    """Locality-constrained linear codes of the rows, max pooling, and unit l2 length.

    Parameters
    ----------
    n_nearest : int, default=5
        Words per row.
    ridge : float > 0, default=1e-4
        Weight of the squared length of a code, relative to the trace of its Gram matrix.
    n_words, pyramid, n_rows, n_iter, n_jobs, random_state
        As in ``Pooling``.

    Attributes
    ----------
    words_ : (n_words, d)
    """

    n_nearest: int = param(5, integer(1))
    ridge: float = param(1e-4, positive)

    def _code(self, rows: Rows) -> csr_array:
        k = min(self.n_nearest, len(self.words_))
        _, nearest = nearest_words(rows, self.words_, k)
        weights = np.empty((len(rows), k), np.float32)
        _local_weights(rows, self.words_, nearest, float(self.ridge), weights)
        return fixed_codes(weights, nearest, len(self.words_))


@numba.njit(nogil=True, cache=True)
def _local_weights(rows: Any, words: Any, nearest: Any, ridge: float, weights: Any) -> None:
    """Fill in the weights (m, k) of the nearest words of each row, by the Cholesky factor of its k x k system."""
    k, d = nearest.shape[1], rows.shape[1]
    Z = np.empty((k, d), np.float32)
    C = np.empty((k, k))
    w = np.empty(k)
    for m in range(len(rows)):
        for i in range(k):
            Z[i] = words[nearest[m, i]] - rows[m]
        trace = 0.0
        for i in range(k):
            for j in range(i + 1):
                total = 0.0
                for t in range(d):
                    total += Z[i, t] * Z[j, t]
                C[i, j] = total
            trace += C[i, i]
        for i in range(k):
            C[i, i] += ridge * trace if trace > 0 else 1.0  # trace 0: all k words equal the row and get equal weights
        for i in range(k):  # C = L L^T, in place; L v = 1
            for j in range(i + 1):
                for t in range(j):
                    C[i, j] -= C[i, t] * C[j, t]
                C[i, j] = math.sqrt(C[i, i]) if i == j else C[i, j] / C[j, j]
            w[i] = 1.0
            for t in range(i):
                w[i] -= C[i, t] * w[t]
            w[i] /= C[i, i]
        total = 0.0
        for i in range(k - 1, -1, -1):  # L^T w = v
            for t in range(i + 1, k):
                w[i] -= C[t, i] * w[t]
            w[i] /= C[i, i]
            total += w[i]
        for i in range(k):
            weights[m, i] = w[i] / total


@estimator
class EMK(Pooling):
    """Vectors of images whose inner products approximate a match kernel of their rows, cell by cell.

    Parameters
    ----------
    n_words : int, default=1000
        Words onto which the kernel is projected, learned by k-means.
    gamma : float or None, default=None
        Parameter of the Gaussian kernel. None: 1 / (median squared distance between a row and a word).
    ridge : float > 0, default=1e-3
        Added to the diagonal of the kernel between words, whose entries are 1.
    pyramid
        As in ``Pooling``; every cell is divided by the number of rows of the whole image.
    norm : {"l1", "l2", "power", None}, default="l2"
        Norm of the whole vector; "power" takes signed square roots, then scales to unit l2 length. With None, inner
        products approximate the match kernel itself.
    n_rows, n_iter, n_jobs, random_state
        As in ``Pooling``.

    Attributes
    ----------
    words_ : (n_words, d)
    gamma_ : float
    projection_ : (n_words, n_words), the inverse square root of the kernel between words

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(50, 8)) for image in range(4)]
    >>> EMK(n_words=10, pyramid=(1,)).fit_transform(bags).shape
    (4, 10)
    """

    _ARRAYS = Pooling._ARRAYS | {"projection_"}
    _VALUES = Pooling._VALUES | {"gamma_"}

    n_words: int = param(1000, integer(1))
    gamma: float | None = param(None, positive)
    ridge: float = param(1e-3, positive)
    norm: str | None = param("l2", choice(*NORMS))

    def _settings(self) -> tuple[str, str | None, str | None]:
        return "sum", None, None  # scaled after the projection

    def _learn(self, rows: Rows, seed: int, n_threads: int) -> None:
        super()._learn(rows, seed, n_threads)
        if self.gamma is None:
            step = max(1, len(rows) // _SCALE_ROWS)  # the rows are already a random sample
            # If all rows are equal, the distance is 0 and any gamma works.
            self.gamma_ = 1 / (float(np.median(_squares(rows[::step], self.words_))) or 1.0)
        else:
            self.gamma_ = float(self.gamma)
        kernel = np.exp(-self.gamma_ * _squares(self.words_, self.words_).astype(np.float64))
        eigenvalues, vectors = np.linalg.eigh(kernel)
        roots = np.sqrt(np.maximum(eigenvalues, 0) + self.ridge)
        self.projection_ = ((vectors / roots) @ vectors.T).astype(np.float32)

    def _code(self, rows: Rows) -> csr_array:
        """Return the kernel (m, n_words) between rows and words."""
        kernel = np.exp(np.float32(-self.gamma_) * _squares(rows, self.words_))
        m, n = kernel.shape
        every = np.tile(np.arange(n, dtype=np.int32), m)
        return csr_array((kernel.ravel(), every, np.arange(0, m * n + 1, n)), shape=(m, n))

    def transform(self, X: Bags | Sequence[ArrayLike]) -> NDArray[np.float32]:
        """Return one vector per image, (n, n_cells n_words) float32; zeros for an image without rows."""
        bags = _as_bags(X)
        vectors = super().transform(bags)
        vectors /= np.maximum(bags.sizes, 1).astype(np.float32)[:, None]
        at_once = max(1, _CHUNK_VALUES // vectors.shape[1])
        for start in range(0, len(vectors), at_once):
            part = vectors[start : start + at_once]
            part[:] = (part.reshape(-1, len(self.words_)) @ self.projection_).reshape(part.shape)
            _scale(part, self.norm)
        return vectors

    def _check_state(self) -> None:
        super()._check_state()
        check_arrays(self, {"projection_": (self.n_words, self.n_words)}, dtype="float32")
        check_real("gamma_", self.gamma_, 0, open_below=True)


def _squares(a: Rows, b: Rows) -> Rows:
    """Return the squared distances between the rows of a and b."""
    found = (a**2).sum(1)[:, None] - 2 * (a @ b.T) + (b**2).sum(1)
    return np.asarray(np.maximum(found, 0), np.float32)
