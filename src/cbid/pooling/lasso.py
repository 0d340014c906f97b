"""Sparse codes: l1-penalised least squares for many rows over one set of words.

For a row x and words D (n_words, d), the code is

    argmin_u  1/2 |x - D^T u|^2 + alpha |u|_1 .

Only the Gram matrix G = D D^T and the products c = D x enter. u is optimal when g = c - G u, the words' correlations
with the residual, has g_j = alpha sign(u_j) where u_j is not zero and |g_j| <= alpha elsewhere.
"""

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

__all__ = ["sparse_codes"]

_IN_LANES = {"reassoc", "nsz", "nnan"}  # sums in any order, and no case for NaN
_MOST_SWEEPS = 10_000  # of one round; a few tens are usual


def sparse_codes(
    rows: NDArray[np.float32], words: NDArray[np.float32], gram: NDArray[np.float32], alpha: float, tol: float
) -> csr_array:
    """Codes (m, n_words) of the rows (m, d); the conditions above hold within ``tol`` alpha."""
    products = rows @ words.T
    parts = _solve_all(products, gram, np.float32(alpha), np.float32(tol * alpha))
    return csr_array(parts, shape=products.shape)


@numba.njit(nogil=True, cache=True, fastmath=_IN_LANES)
def _descend(c: Any, G: Any, alpha: Any, slack: Any, active: Any, is_active: Any, u: Any, count: int) -> int:
    """Solve over the active words alone, from the values in ``u``; words whose value becomes zero leave.

    Returns how many stay.
    """
    H = np.empty((count, count), np.float32)
    g = np.empty(count, np.float32)
    for i in range(count):
        g[i] = c[active[i]]
        for j in range(count):
            H[i, j] = G[active[i], active[j]]
    for i in range(count):
        for j in range(count):
            g[i] -= H[i, j] * u[j]
    for _ in range(_MOST_SWEEPS):
        broken = np.float32(0)
        for i in range(count):
            free = g[i] + H[i, i] * u[i]  # the correlation with what the others leave
            new = np.sign(free) * max(abs(free) - alpha, np.float32(0)) / H[i, i]
            change = new - u[i]
            if change != 0:
                broken = max(broken, abs(change) * H[i, i])
                u[i] = new
                column = H[i]
                for j in range(count):
                    g[j] -= change * column[j]
        if broken <= np.float32(0.1) * slack:
            break
    stay = 0
    for i in range(count):
        is_active[active[i]] = u[i] != 0
        if u[i] != 0:
            active[stay], u[stay] = active[i], u[i]
            stay += 1
    return stay


@numba.njit(nogil=True, cache=True, fastmath=_IN_LANES)
def _solve(c: Any, G: Any, alpha: Any, slack: Any, active: Any, is_active: Any, u: Any) -> int:
    """One row, by an active set: coordinate descent on the active words, then those let in that break the conditions.

    Returns the number of words in ``active``, which have the values in ``u``.
    """
    n = len(c)
    g = c.copy()
    count = 0
    while True:
        worst = np.float32(0)
        for j in range(n):
            worst = max(worst, np.float32(0) if is_active[j] else abs(g[j]))
        if worst <= alpha + slack:
            return count
        # Whatever is nearly as bad as the worst comes with it: fewer rounds, and few that must leave again.
        least = max(alpha + slack, np.float32(0.9) * worst)
        for j in range(n):
            if not is_active[j] and abs(g[j]) > least:
                active[count] = j
                is_active[j] = True
                u[count] = 0
                count += 1
        count = _descend(c, G, alpha, slack, active, is_active, u, count)
        g[:] = c
        for i in range(count):
            column = G[active[i]]
            for j in range(n):
                g[j] -= u[i] * column[j]


@numba.njit(nogil=True, cache=True)
def _solve_all(C: Any, G: Any, alpha: Any, slack: Any) -> Any:
    """Values, word numbers and row ends of the codes of all rows, as a csr_array takes them."""
    m, n = C.shape
    ends = np.zeros(m + 1, np.int64)
    words = np.empty(16 * m + n, np.int32)
    values = np.empty(16 * m + n, np.float32)
    active = np.empty(n, np.int64)
    is_active = np.zeros(n, np.bool_)
    u = np.empty(n, np.float32)
    for row in range(m):
        count = _solve(C[row], G, alpha, slack, active, is_active, u)
        start = ends[row]
        if start + count > len(words):
            words = np.concatenate((words, np.empty(len(words) + n, np.int32)))
            values = np.concatenate((values, np.empty(len(values) + n, np.float32)))
        for i in range(count):
            words[start + i] = active[i]
            values[start + i] = u[i]
            is_active[active[i]] = False
        ends[row + 1] = start + count
    return values[: ends[m]], words[: ends[m]], ends
