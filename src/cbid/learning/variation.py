"""Whether there is anything to learn from: data that vary, by amounts whose squares can be computed with."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOTHING_VARIES", "check_squares", "check_varies"]

Array = NDArray[np.floating]
NOTHING_VARIES = "X has no column that varies: there is nothing to learn bits from"


def check_varies(X: Array) -> None:
    """A ValueError where all samples of X (n, d) are one and the same, of which every bit would be constant."""
    if not _varies(X):
        raise ValueError(NOTHING_VARIES)


def check_squares(spread: float, X: Array, least: float = 0.0) -> None:
    """A ValueError where ``spread``, made of squares of X around its mean, has left the range of float64.

    ``least`` is the smallest spread that the caller can do with, where that is more.
    """
    if not np.isfinite(spread):
        raise ValueError("X has values whose squares overflow; scale X down")
    if spread < max(least, np.finfo(np.float64).tiny) and _varies(X):
        raise ValueError("X varies so little that squares underflow; scale X up")


def _varies(X: Array) -> bool:
    return bool((X.max(axis=0) > X.min(axis=0)).any())  # compared, since a difference may overflow
