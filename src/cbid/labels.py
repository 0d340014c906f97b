"""Labels of any hashable kind as class numbers 0..k-1."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, column_or_1d

__all__ = ["check_labels", "encode_labels", "encode_partial_labels", "image_labels", "is_list_of_objects"]


def is_list_of_objects(y: Any) -> bool:
    """Return whether numpy would misread the list y: tuples as a matrix, or numbers among strings as text."""
    if not isinstance(y, (list, tuple)):
        return False
    if any(isinstance(v, (tuple, frozenset)) for v in y):
        return True
    texts = sum(isinstance(v, str) for v in y)
    return 0 < texts < len(y)


def encode_labels(y: Any, *, missing: bool = False) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return classes (k,) and the class number of every label (n,), so that ``classes[numbers]`` equals y.

    Parameters
    ----------
    y : sequence of labels
        A sequence of tuples is a sequence of labels, not a matrix.
    missing : bool, default=False
        If True, None and NaN are missing labels with number -1, and text cannot be mixed with numbers.

    Returns
    -------
    classes : array (k,)
        In ascending order if labels can be compared, else in order of appearance.
    numbers : array (n,) of int64

    Examples
    --------
    >>> classes, numbers = encode_labels(["dog", "cat", None, "dog"], missing=True)
    >>> classes.tolist(), numbers.tolist()
    (['cat', 'dog'], [1, 0, -1, 1])
    """
    if is_list_of_objects(y):
        labels: NDArray[Any] = np.empty(len(y), dtype=object)
        labels[:] = list(y)
    else:
        labels = np.asarray(y)
    if missing:
        return _encode_present(labels)
    if labels.dtype != object:
        return np.unique(labels, return_inverse=True)
    for value in labels:
        if not isinstance(value, Hashable):
            raise ValueError(f"y holds {value!r}: expected numbers, strings or other hashable labels")
    seen = dict.fromkeys(labels.tolist())
    try:
        ordered = sorted(seen)
    except TypeError:
        ordered = list(seen)
    number = {value: r for r, value in enumerate(ordered)}
    classes = np.empty(len(ordered), dtype=object)
    classes[:] = ordered
    return classes, np.array([number[value] for value in labels.tolist()], dtype=np.int64)


def _encode_present(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    present: Any
    if labels.dtype == object:
        known = np.array([label is not None and label == label for label in labels], dtype=bool)  # NaN != NaN
        present = labels[known].tolist()
        texts = [label for label in present if isinstance(label, str)]
        if 0 < len(texts) < len(present):
            other = next(label for label in present if not isinstance(label, str))
            raise ValueError(f"labels hold {texts[0]!r} and {other!r}: expected either text or numbers")
    else:
        known = ~np.isnan(labels) if labels.dtype.kind == "f" else np.ones(len(labels), dtype=bool)
        present = labels[known]
    numbers = np.full(len(labels), -1, dtype=np.int64)
    classes, numbers[known] = encode_labels(present)
    return classes, numbers


def encode_partial_labels(y: Any, missing_label: Any = None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return classes (k,) and class numbers (n,), with -1 for a missing label.

    None, NaN, masked entries and values equal to ``missing_label`` are missing.

    >>> classes, numbers = encode_partial_labels([2, -1, 1, None], missing_label=-1)
    >>> classes.tolist(), numbers.tolist()
    ([1, 2], [1, -1, 0, -1])
    """
    masked = np.ma.getmaskarray(y) if isinstance(y, np.ma.MaskedArray) else False
    if isinstance(y, np.ma.MaskedArray):
        y = np.asarray(y.data)
    if is_list_of_objects(y) or (isinstance(y, (list, tuple)) and any(v is None for v in y)):
        labels: NDArray[Any] = np.empty(len(y), dtype=object)
        labels[:] = list(y)
    else:
        labels = np.asarray(y)
    if labels.dtype == object:
        known = np.array([v is not None and v == v for v in labels], dtype=bool)  # NaN != NaN
        if missing_label is not None:
            known &= np.array([v != missing_label for v in labels], dtype=bool)
    else:
        known = ~np.isnan(labels) if labels.dtype.kind == "f" else np.ones(len(labels), dtype=bool)
        if missing_label is not None:
            known &= labels != missing_label
    known &= ~np.asarray(masked)
    numbers = np.full(len(labels), -1, dtype=np.int64)
    present: Any = labels[known]
    if labels.dtype == object and not any(isinstance(v, (tuple, frozenset)) for v in present):
        plain = present.tolist()
        if not is_list_of_objects(plain) and all(isinstance(v, (int, float, str, bool, np.generic)) for v in plain):
            present = np.array(plain) if plain else np.empty(0)
    classes, numbers[known] = encode_labels(present)
    return classes, numbers


def image_labels(y: Any, n: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return classes (k,) and class numbers (n,) of n images; one class is enough."""
    if y is None:
        raise ValueError("y=None: expected one label for each image (fit requires y)")
    if not is_list_of_objects(y):
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
    if len(y) != n:
        raise ValueError(f"y has {len(y)} labels: expected {n}, one for each image")
    return encode_labels(y)


def check_labels(y: Any, n: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return classes (k,) and class numbers (n,) of n images of at least two classes."""
    classes, numbers = image_labels(y, n)
    if len(classes) < 2:
        raise ValueError(f"y has one class ({classes.tolist()[0]!r}): expected at least two")
    return classes, numbers
