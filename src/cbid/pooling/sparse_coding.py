"""Sparse coding with max pooling over a pyramid: ScSPM (Yang, Yu, Gong and Huang, 2009).

For a row x and words D (n_words, d), the code is

    argmin_u  1/2 |x - D^T u|^2 + alpha |u|_1 .

It depends only on the Gram matrix G = D D^T and the products c = D x. Let g = c - G u, the correlations of the words
with the residual: u is optimal if g_j = alpha sign(u_j) for nonzero u_j and |g_j| <= alpha otherwise.

Each row is solved by an active set, as in the feature-sign search of Lee, Battle, Raina and Ng (2007): the word that
violates the conditions most enters. With all signs known, the active values solve a small linear system. On the way
to this solution, the first value that would change its sign leaves.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from cbid.params import estimator, flag, integer, param, positive, real
from cbid.pooling.base import Pooling, Rows

_CHUNK_ROWS = 4096
_RIDGE = 1e-6  # on the diagonal of the small systems, whose words may coincide


@estimator
class ScSPM(Pooling):
    """Sparse codes of the rows over a learned dictionary, max pooling of absolute values, and unit l2 length.

    The code of a row x is argmin_u 1/2 |x - D^T u|^2 + alpha |u|_1 (the paper's lambda is 2 alpha).

    Parameters
    ----------
    n_words : int, default=1024
        Size of the dictionary.
    alpha : float > 0, default=0.15
        Weight of the l1 norm of a code; larger values give sparser codes.
    unit_rows : bool, default=True
        Scale each row to unit length first, as the default of ``alpha`` expects. A row of zeros stays zero.
    tol : float > 0, default=1e-3
        Tolerance of the optimality conditions, relative to alpha.
    n_rows : int, default=50_000
    n_iter : int, default=10
        Alternations of coding the rows and updating the words.
    pyramid, n_jobs, random_state
        As in ``Pooling``.

    Attributes
    ----------
    words_ : (n_words, d), each at most of unit length
    """

    alpha: float = param(0.15, positive)
    unit_rows: bool = param(True, flag)
    tol: float = param(1e-3, real(0, 1, open_below=True))
    n_rows: int = param(50_000, integer(1))
    n_iter: int = param(10, integer(1))

    def _learn(self, rows: Rows, seed: int, n_threads: int) -> None:
        self.words_ = learn_dictionary(
            self._scaled(rows),
            self.n_words,
            alpha=float(self.alpha),
            tol=float(self.tol),
            n_iter=self.n_iter,
            rng=np.random.default_rng(seed),
            n_threads=n_threads,
        )
        self._gram = self.words_ @ self.words_.T

    def _check_state(self) -> None:
        super()._check_state()
        self._gram = self.words_ @ self.words_.T

    def _code(self, rows: Rows) -> csr_array:
        codes = sparse_codes(self._scaled(rows), self.words_, self._gram, float(self.alpha), float(self.tol))
        return abs(codes)

    def _scaled(self, rows: Rows) -> Rows:
        return normalize(rows) if self.unit_rows else rows


def learn_dictionary(
    rows: Rows, n_words: int, *, alpha: float, tol: float, n_iter: int, rng: np.random.Generator, n_threads: int = 1
) -> Rows:
    """Learn words (n_words, d) that lower the mean of 1/2 |x - D^T u|^2 + alpha |u|_1 over rows x and their codes u.

    Alternates two steps that never raise the objective (Lee, Battle, Raina and Ng, 2007): codes with fixed words, and
    words with fixed codes, one word at a time, at most of unit length. Words start as random rows; a word that no
    code uses is replaced by another random row.
    """
    if len(rows) < n_words:
        raise ValueError(f"n_words={n_words}: expected at most one word per row, {len(rows)}")
    words = normalize(rows[rng.choice(len(rows), n_words, replace=False)])
    for _ in range(n_iter):
        codes = coded(rows, words, alpha=alpha, tol=tol, n_threads=n_threads)
        unused = np.flatnonzero(~_update_words(words, codes, rows))
        if len(unused):
            words[unused] = normalize(rows[rng.integers(len(rows), size=len(unused))])
    return words


def coded(rows: Rows, words: Rows, *, alpha: float, tol: float, n_threads: int = 1) -> csr_array:
    """Return the sparse codes (m, n_words) of all rows, in threads."""
    gram = words @ words.T
    starts = range(0, len(rows), _CHUNK_ROWS)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_threads) as threads:
        parts = threads.map(lambda a: sparse_codes(rows[a : a + _CHUNK_ROWS], words, gram, alpha, tol), starts)
        return vstack(list(parts), format="csr")


def _update_words(words: Rows, codes: csr_array, rows: Rows) -> NDArray[np.bool_]:
    """Run one pass of coordinate descent over the words, in place; return which words the codes use.

    With U the codes, 1/2 |X - U D|^2 depends on D through A = U^T U and B = U^T X. Given the others, the best word j
    is D_j + (B_j - A_j D) / A_jj, scaled to unit length if it is longer.
    """
    A = (codes.T @ codes).toarray()
    B = codes.T @ rows
    used = A.diagonal() > 0
    for j in np.flatnonzero(used):
        word = words[j] + (B[j] - A[j] @ words) / A[j, j]
        words[j] = word / max(np.linalg.norm(word), 1)
    return used


def sparse_codes(
    rows: NDArray[np.float32], words: NDArray[np.float32], gram: NDArray[np.float32], alpha: float, tol: float
) -> csr_array:
    """Return codes (m, n_words) of the rows (m, d) that are optimal within ``tol`` alpha."""
    products = rows @ words.T
    # At most d words are independent; one more may enter before another leaves.
    most = min(words.shape[0], words.shape[1] + 1)
    parts = _solve_all(products, gram, np.float32(alpha), np.float32(tol * alpha), most)
    return csr_array(parts, shape=products.shape)


@numba.njit(nogil=True, cache=True)
def _factor(H: Any, L: Any, first: int, count: int) -> None:
    """Compute rows ``first`` to ``count`` - 1 of the Cholesky factor L of H + ridge."""
    for i in range(first, count):
        for j in range(i + 1):
            total = H[i, j]
            for t in range(j):
                total -= L[i, t] * L[j, t]
            # Rounding may give a negative value for equal words.
            L[i, j] = math.sqrt(max(total, 0.0) + _RIDGE) if i == j else total / L[j, j]


@numba.njit(nogil=True, cache=True)
def _solve_factored(L: Any, v: Any, count: int) -> None:
    """Replace v by the solution of L L^T x = v."""
    for i in range(count):
        for t in range(i):
            v[i] -= L[i, t] * v[t]
        v[i] /= L[i, i]
    for i in range(count - 1, -1, -1):
        for t in range(i + 1, count):
            v[i] -= L[t, i] * v[t]
        v[i] /= L[i, i]


@numba.njit(nogil=True, cache=True)
def _settle(c: Any, alpha: float, active: Any, signs: Any, u: Any, v: Any, H: Any, L: Any, count: int) -> int:
    """Optimise the values ``u`` of the active words, the last of which is new; drop words that reach zero.

    Return the number of words that stay.
    """
    first = count - 1
    while True:
        _factor(H, L, first, count)
        for i in range(count):
            v[i] = c[active[i]] - alpha * signs[i]
        _solve_factored(L, v, count)
        step, leaver = 1.0, -1
        for i in range(count):
            if v[i] * signs[i] <= 0:
                reached = u[i] / (u[i] - v[i]) if u[i] != 0 else 0.0
                if reached < step:
                    step, leaver = reached, i
        for i in range(count):
            u[i] += step * (v[i] - u[i])
        if leaver < 0:
            return count
        count -= 1
        for i in range(leaver, count):
            active[i], signs[i], u[i] = active[i + 1], signs[i + 1], u[i + 1]
            for j in range(i + 1):  # only the lower triangle of H is used
                H[i, j] = H[i + 1, j + 1 if j >= leaver else j]
        first = leaver


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "nsz", "nnan"})  # allows vectorisation
def _strongest(g: Any) -> Any:
    largest = np.float32(0)
    for j in range(len(g)):
        largest = max(largest, abs(g[j]))
    return largest


@numba.njit(nogil=True, cache=True)
def _solve(
    c: Any, G: Any, alpha: Any, slack: Any, g: Any, active: Any, signs: Any, u: Any, v: Any, H: Any, L: Any
) -> int:
    """Solve one row; return the number of words in ``active``, whose values are in ``u``."""
    count = 0
    g[:] = c
    while count < len(active):
        strongest = _strongest(g)
        if strongest <= alpha + slack:
            break
        new = 0
        while abs(g[new]) != strongest:
            new += 1
        before = count
        for i in range(before):
            if active[i] == new:  # as accurate as rounding allows
                return count
            H[before, i] = G[new, active[i]]
        H[before, before] = G[new, new]
        active[before], signs[before], u[before] = new, math.copysign(1.0, g[new]), 0.0
        count = _settle(c, alpha, active, signs, u, v, H, L, before + 1)
        if count == before and (count == 0 or active[count - 1] != new):
            break  # the new word left immediately: no progress
        g[:] = c
        for i in range(count):
            value, column = np.float32(u[i]), G[active[i]]
            for j in range(len(g)):
                g[j] -= value * column[j]
    return count


@numba.njit(nogil=True, cache=True)
def _solve_all(C: Any, G: Any, alpha: Any, slack: Any, most: int) -> Any:
    """Return the codes of all rows as the data, indices and indptr of a csr_array."""
    m, n = C.shape
    ends = np.zeros(m + 1, np.int64)
    words = np.empty(16 * m + most, np.int32)
    values = np.empty(16 * m + most, np.float32)
    active = np.empty(most, np.int64)
    signs, u, v = np.empty(most), np.empty(most), np.empty(most)
    H, L = np.empty((most, most)), np.empty((most, most))
    g = np.empty(n, np.float32)
    for row in range(m):
        count = _solve(C[row], G, alpha, slack, g, active, signs, u, v, H, L)
        start = ends[row]
        if start + count > len(words):
            words = np.concatenate((words, np.empty(len(words) + most, np.int32)))
            values = np.concatenate((values, np.empty(len(values) + most, np.float32)))
        for i in range(count):
            words[start + i] = active[i]
            values[start + i] = u[i]
        ends[row + 1] = start + count
    return values[: ends[m]], words[: ends[m]], ends
