"""Labels of any hashable kind as numbers 0..k-1."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, column_or_1d

__all__ = ["check_labels", "image_labels", "is_list_of_objects", "number_labels"]


def is_list_of_objects(y: Any) -> bool:
    """Whether y is a list of labels that numpy would spoil: take for a matrix, or turn numbers into text."""
    if not isinstance(y, (list, tuple)):
        return False
    if any(isinstance(v, (tuple, frozenset)) for v in y):
        return True
    texts = sum(isinstance(v, str) for v in y)
    return 0 < texts < len(y)


def number_labels(y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Classes (k,) and the class number of every label (n,).

    Classes are in ascending order where they can be compared, else in order of appearance. A sequence of tuples is a
    sequence of labels, not a matrix.
    """
    if is_list_of_objects(y):
        labels: NDArray[Any] = np.empty(len(y), dtype=object)
        labels[:] = list(y)
    else:
        labels = np.asarray(y)
    if labels.dtype != object:
        return np.unique(labels, return_inverse=True)
    for value in labels:
        if not isinstance(value, Hashable):
            raise ValueError(f"y holds {value!r}, which is not hashable; labels are numbers, strings or hashables")
    seen = dict.fromkeys(labels.tolist())
    try:
        ordered = sorted(seen)
    except TypeError:
        ordered = list(seen)
    number = {value: r for r, value in enumerate(ordered)}
    classes = np.empty(len(ordered), dtype=object)
    classes[:] = ordered
    return classes, np.array([number[value] for value in labels.tolist()], dtype=np.int64)


def image_labels(y: Any, n: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Classes (k,), one or several, and the class number (n,) of each of n images."""
    if y is None:
        raise ValueError("y is None; learning requires y, one label for each image")
    if not is_list_of_objects(y):
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
    if len(y) != n:
        raise ValueError(f"y has {len(y)} labels for {n} images; give one for each")
    return number_labels(y)


def check_labels(y: Any, n: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The same, of images to learn from: at least two classes."""
    classes, numbers = image_labels(y, n)
    if len(classes) < 2:
        raise ValueError(f"y has one class ({classes.tolist()[0]!r}); learning needs at least two")
    return classes, numbers
