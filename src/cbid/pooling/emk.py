"""Efficient match kernels (Bo and Sminchisescu, 2009): the mean of kernel features of an image's rows.

The match kernel of two images is the mean of k(x, y) = exp(-gamma |x - y|^2) over all pairs of their rows. With K the
kernel between words and k(x) the kernel between a row and the words, k(x, y) is approximately k(x)^T K^-1 k(y). So
the match kernel is approximately the inner product of one vector per image: K^(-1/2) times the mean of its k(x).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from cbid.bags import Bags
from cbid.checks import check_arrays, check_real
from cbid.params import choice, estimator, integer, param, positive
from cbid.pooling.base import NORMS, Pooling, Rows, _as_bags, _scale

_SCALE_ROWS = 5000  # rows that determine gamma
_CHUNK_VALUES = 2**24  # values of the vectors that are projected at once


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
