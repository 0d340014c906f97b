"""ScSPM"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from cbid.checks import check_choice, check_integer, check_real
from cbid.pooling.base import Pooling, Rows

__all__ = ["ScSPM"]

_CHUNK_ROWS = 4096
_RIDGE = 1e-6  # on the diagonal of the small systems, whose words may coincide


class ScSPM(Pooling):
    """Each row is written by few words of a learned dictionary; a cell keeps the largest share of each word.

    The code of a row x is argmin_u 1/2 |x - D^T u|^2 + alpha |u|_1 (the paper's lambda is 2 alpha). Absolute values
    are pooled by their maximum, and the vector has unit l2 length.

    Parameters
    ----------
    n_words : int
        Words of the dictionary.
    alpha : float > 0
        Weight of the l1 norm of a code; the larger, the fewer words a row uses.
    pyramid : sequence of grids
        (1, 2, 4): the whole image, 2 x 2 and 4 x 4 cells. A pair is (rows, columns). (1,) needs no positions.
    unit_rows : bool
        Bring each row to unit length first, as ``alpha`` expects. A row of zeros stays.
    tol : float > 0
        Codes are optimal up to ``tol`` alpha in every word's correlation with the residual.
    n_rows : int
        Rows drawn at random from all images to learn the dictionary from.
    n_iter : int
        Turns of coding the rows and improving the words.
    n_jobs : int or None
        Threads, as in scikit-learn.
    random_state : int, RandomState or None
        The same seed gives the same words.

    Attributes
    ----------
    words_ : (n_words, d), at most unit length each
    """

    def __init__(
        self,
        *,
        n_words: int = 1024,
        alpha: float = 0.15,
        pyramid: Sequence[Any] = (1, 2, 4),
        unit_rows: bool = True,
        tol: float = 1e-3,
        n_rows: int = 50_000,
        n_iter: int = 10,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_words = n_words
        self.alpha = alpha
        self.pyramid = pyramid
        self.unit_rows = unit_rows
        self.tol = tol
        self.n_rows = n_rows
        self.n_iter = n_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        check_real("alpha", self.alpha, 0, open_below=True)
        check_choice("unit_rows", self.unit_rows, (False, True))
        check_real("tol", self.tol, 0, 1, open_below=True)
        check_integer("n_iter", self.n_iter, 1)

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
    """Words (n_words, d) that lower the mean of 1/2 |x - D^T u|^2 + alpha |u|_1 over rows x and their codes u.

    In turns (Lee, Battle, Raina and Ng, 2007): the codes with the words fixed, then the words with the codes fixed,
    one word after another to the best of unit length at most. Neither turn raises the objective. The words start
    from rows drawn at random; one that no code uses is drawn anew.
    """
    if len(rows) < n_words:
        raise ValueError(f"n_words={n_words}: expected at most one word per row, {len(rows)}")
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


def sparse_codes(
    rows: NDArray[np.float32], words: NDArray[np.float32], gram: NDArray[np.float32], alpha: float, tol: float
) -> csr_array:
    """Codes (m, n_words) of the rows (m, d); the conditions above hold within ``tol`` alpha."""
    products = rows @ words.T
    # No more words than dimensions are independent; one more may come in before another leaves.
    most = min(words.shape[0], words.shape[1] + 1)
    parts = _solve_all(products, gram, np.float32(alpha), np.float32(tol * alpha), most)
    return csr_array(parts, shape=products.shape)


@numba.njit(nogil=True, cache=True)
def _factor(H: Any, L: Any, first: int, count: int) -> None:
    """Rows ``first`` to ``count`` of the Cholesky factor L of H + ridge; those before are there already."""
    for i in range(first, count):
        for j in range(i + 1):
            total = H[i, j]
            for t in range(j):
                total -= L[i, t] * L[j, t]
            # Rounding may leave less than nothing of words that coincide.
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
    """The best values ``u`` of the active words, the last of which is new; words whose value reaches zero leave.

    Returns how many stay.
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
            for j in range(i + 1):  # H is kept below its diagonal alone
                H[i, j] = H[i + 1, j + 1 if j >= leaver else j]
        first = leaver


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "nsz", "nnan"})  # so that it runs in lanes
def _strongest(g: Any) -> Any:
    largest = np.float32(0)
    for j in range(len(g)):
        largest = max(largest, abs(g[j]))
    return largest


@numba.njit(nogil=True, cache=True)
def _solve(
    c: Any, G: Any, alpha: Any, slack: Any, g: Any, active: Any, signs: Any, u: Any, v: Any, H: Any, L: Any
) -> int:
    """One row. Returns the number of words in ``active``, whose values are in ``u``."""
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
            if active[i] == new:  # as good as rounding lets it be
                return count
            H[before, i] = G[new, active[i]]
        H[before, before] = G[new, new]
        active[before], signs[before], u[before] = new, math.copysign(1.0, g[new]), 0.0
        count = _settle(c, alpha, active, signs, u, v, H, L, before + 1)
        if count == before and (count == 0 or active[count - 1] != new):
            break  # the new word left at once: nothing is gained by it
        g[:] = c
        for i in range(count):
            value, column = np.float32(u[i]), G[active[i]]
            for j in range(len(g)):
                g[j] -= value * column[j]
    return count


@numba.njit(nogil=True, cache=True)
def _solve_all(C: Any, G: Any, alpha: Any, slack: Any, most: int) -> Any:
    """Values, word numbers and row ends of the codes of all rows, as a csr_array takes them."""
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
