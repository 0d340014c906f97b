"""Samples around their mean in units of their size, and checks that they vary at all."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOTHING_VARIES", "Centred", "centre", "check_squares", "check_varies", "class_means", "indicator"]


@dataclass(frozen=True)
class Centred:
    """Z = (X - mean) / unit, (n, d) float64; unit is one number, so that columns keep their relative scales."""

    Z: NDArray[np.float64]
    mean: NDArray[np.float64]
    unit: float


def centre(X: NDArray[np.floating]) -> Centred:
    """X around its mean, in units of the root mean square length of its samples."""
    mean = X.mean(axis=0, dtype=np.float64)
    Z = X - mean
    largest = float(np.abs(Z).max(initial=0.0))
    if largest == 0:
        return Centred(Z, mean, 1.0)
    Z /= largest  # first, so that squares do not overflow
    size = float(np.sqrt(np.mean(np.einsum("ij,ij->i", Z, Z))))
    Z /= size
    return Centred(Z, mean, largest * size)


def indicator(numbers: NDArray[np.integer], n_classes: int) -> NDArray[np.float64]:
    """(n, k): 1 where a sample is of a class."""
    Y = np.zeros((len(numbers), n_classes))
    Y[np.arange(len(numbers)), numbers] = 1
    return Y


def class_means(Z: NDArray[np.float64], numbers: NDArray[np.integer], n_classes: int) -> NDArray[np.float64]:
    """(k, d) means of the classes."""
    Y = indicator(numbers, n_classes)
    return (Y.T @ Z) / Y.sum(axis=0)[:, None]


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
