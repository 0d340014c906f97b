"""Samples moved to their mean and divided by one number, so that ridges and steps mean the same for any X."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Centred", "centre", "class_means", "indicator"]


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
    Z /= largest  # first, lest squares overflow
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
