"""Locality-constrained linear coding (Wang, Yang, Yu, Lv, Huang and Gong, 2010), in its approximate form.

The k nearest words B (k, d) approximate a row x with weights w that sum to one. The residual is then
x - B^T w = -Z^T w with Z = B - 1 x^T, and

    min_w  w^T (Z Z^T + ridge tr(Z Z^T) I) w   subject to  1^T w = 1

has the solution w proportional to (Z Z^T + ridge tr(Z Z^T) I)^-1 1.
"""

import math
from typing import Any

import numba
import numpy as np
from scipy.sparse import csr_array

from cbid.params import estimator, integer, param, positive
from cbid.pooling.base import Pooling, Rows, fixed_codes, k_means, nearest_words

__all__ = ["LLC"]


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

    def _learn(self, rows: Rows, seed: int, n_threads: int) -> None:
        self.words_ = k_means(rows, self.n_words, n_iter=self.n_iter, seed=seed, n_threads=n_threads)

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
