"""Labels as they are given, and as places in the sorted classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["coded"]


def coded(given: Sequence[Any] | NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Labels (n,) int64 and sorted classes, so that classes[labels] is what was given; None and NaN become -1.

    Text and numbers together are an error: they have no order.

    >>> labels, classes = coded(["dog", "cat", None, "dog"])
    >>> labels.tolist(), classes.tolist()
    ([1, 0, -1, 1], ['cat', 'dog'])
    """
    if isinstance(given, np.ndarray) and given.dtype != object:
        known = ~np.isnan(given) if given.dtype.kind == "f" else np.ones(len(given), dtype=bool)
        there = given[known]
    else:
        # NaN alone differs from itself.
        known = np.array([label is not None and label == label for label in given], dtype=bool)
        there = [label for label, is_there in zip(given, known) if is_there]
        texts = [label for label in there if isinstance(label, str)]
        if 0 < len(texts) < len(there):
            other = next(label for label in there if not isinstance(label, str))
            raise ValueError(f"labels holds {texts[0]!r} and {other!r}; text or numbers are accepted, not both")
    labels = np.full(len(given), -1, dtype=np.int64)
    classes, labels[known] = np.unique(there, return_inverse=True)
    return labels, classes
