"""A dictionary for sparse codes: words of at most unit length that write a sample of rows by few of them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from cbid.pooling.lasso import sparse_codes

__all__ = ["coded", "learn_dictionary"]

Rows = NDArray[np.float32]
_CHUNK_ROWS = 4096


def learn_dictionary(
    rows: Rows, n_words: int, *, alpha: float, tol: float, n_iter: int, rng: np.random.Generator, n_threads: int = 1
) -> Rows:
    """Words (n_words, d) that lower the mean of 1/2 |x - D^T u|^2 + alpha |u|_1 over rows x and their codes u.

    In turns (Lee, Battle, Raina and Ng, 2007): the codes with the words fixed, then the words with the codes fixed,
    one word after another to the best of unit length at most. Neither turn raises the objective. The words start
    from rows drawn at random; one that no code uses is drawn anew.
    """
    if len(rows) < n_words:
        raise ValueError(f"n_words={n_words} is not accepted for {len(rows)} rows; give at most one word a row")
    words = normalize(rows[rng.choice(len(rows), n_words, replace=False)])
    for _ in range(n_iter):
        codes = coded(rows, words, alpha=alpha, tol=tol, n_threads=n_threads)
        unused = np.flatnonzero(~_improve(words, codes, rows))
        if len(unused):
            words[unused] = normalize(rows[rng.integers(len(rows), size=len(unused))])
    return words


def coded(rows: Rows, words: Rows, *, alpha: float, tol: float, n_threads: int = 1) -> csr_array:
    """Sparse codes (m, n_words) of all rows."""
    gram = words @ words.T
    starts = range(0, len(rows), _CHUNK_ROWS)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_threads) as threads:
        parts = threads.map(lambda a: sparse_codes(rows[a : a + _CHUNK_ROWS], words, gram, alpha, tol), starts)
        return vstack(list(parts), format="csr")


def _improve(words: Rows, codes: csr_array, rows: Rows) -> NDArray[np.bool_]:
    """One pass of coordinate descent over the words, in place; returns which of them the codes use.

    With U the codes, 1/2 |X - U D|^2 depends on D through A = U^T U and B = U^T X; the best word j given the others
    is D_j + (B_j - A_j D) / A_jj, scaled back to unit length where it is longer.
    """
    A = (codes.T @ codes).toarray()
    B = codes.T @ rows
    used = A.diagonal() > 0
    for j in np.flatnonzero(used):
        word = words[j] + (B[j] - A[j] @ words) / A[j, j]
        words[j] = word / max(np.linalg.norm(word), 1)
    return used
