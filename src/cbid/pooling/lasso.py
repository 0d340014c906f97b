"""Sparse codes: l1-penalised least squares for many rows over one set of words.

For a row x and words D (n_words, d), the code is

    argmin_u  1/2 |x - D^T u|^2 + alpha |u|_1 .

Only the Gram matrix G = D D^T and the products c = D x enter. u is optimal when g = c - G u, the words' correlations
with the residual, has g_j = alpha sign(u_j) where u_j is not zero and |g_j| <= alpha elsewhere.

Each row is solved by an active set, as in the feature-sign search of Lee, Battle, Raina and Ng (2007): the word that
breaks the conditions most comes in; with all signs known the active values solve a small linear system; on the way
there, the first value that would change its sign leaves.
"""

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

__all__ = ["sparse_codes"]

_RIDGE = 1e-6  # on the diagonal of the small systems, whose words may coincide


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
