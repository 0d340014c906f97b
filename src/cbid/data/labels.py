"""Labels as they are given, and as places in the sorted classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["coded"]


def coded(given: Sequence[Any] | NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Labels (n,) int64 and sorted classes, so that classes[labels] is what was given; None becomes -1.

    >>> labels, classes = coded(["dog", "cat", None, "dog"])
    >>> labels.tolist(), classes.tolist()
    ([1, 0, -1, 1], ['cat', 'dog'])
    """
    if isinstance(given, np.ndarray) and given.dtype != object:
        classes, codes = np.unique(given, return_inverse=True)
        return codes.astype(np.int64), classes
    known = np.array([label is not None for label in given], dtype=bool)
    labels = np.full(len(given), -1, dtype=np.int64)
    classes, labels[known] = np.unique([label for label in given if label is not None], return_inverse=True)
    return labels, classes
