"""Descent on b' Q b + p' b over b in -1/+1, one flip at a time."""

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["descend", "energy"]

Array = NDArray[np.float64]


def energy(Q: Array, p: Array, b: Array) -> float:
    """b' Q b + p' b."""
    return float(b @ Q @ b + p @ b)


def descend(Q: Array, p: Array, start: Array) -> Array:
    """b from ``start`` by the flip that lowers the energy most, until none lowers it.

    Q : (n, n) symmetric. Its diagonal adds a constant and plays no part.
    """
    Q = Q.astype(np.float64)
    np.fill_diagonal(Q, 0)
    b = start.astype(np.float64)
    _descend(Q, p.astype(np.float64), b, 1e-9 * (np.abs(Q).max(initial=0) + np.abs(p).max(initial=0)))
    return b


@numba.njit(nogil=True, cache=True)
def _descend(Q, p, b, least):  # type: ignore[no-untyped-def]
    n = len(b)
    # Flipping bit i changes the energy by -4 b_i (Q b)_i - 2 p_i b_i.
    pull = 4 * (Q @ b) + 2 * p
    while True:
        best, gain = -1, least
        for i in range(n):
            if b[i] * pull[i] > gain:
                best, gain = i, b[i] * pull[i]
        if best < 0:
            return
        b[best] = -b[best]
        for j in range(n):
            pull[j] += 8 * b[best] * Q[j, best]
