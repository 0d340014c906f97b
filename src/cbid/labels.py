"""Labels of any hashable kind as class numbers 0..k-1, and sets of labels as a sparse matrix."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import assert_all_finite, column_or_1d


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
    known = _are_present(labels)
    present: Any = labels[known]
    if labels.dtype == object:
        present = present.tolist()
        texts = [label for label in present if isinstance(label, str)]
        if 0 < len(texts) < len(present):
            other = next(label for label in present if not isinstance(label, str))
            raise ValueError(f"labels hold {texts[0]!r} and {other!r}: expected either text or numbers")
    numbers = np.full(len(labels), -1, dtype=np.int64)
    classes, numbers[known] = encode_labels(present)
    return classes, numbers


def _are_present(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels are neither None nor NaN."""
    if labels.dtype == object:
        return np.array([label is not None and label == label for label in labels], dtype=bool)  # NaN != NaN
    return ~np.isnan(labels) if labels.dtype.kind == "f" else np.ones(len(labels), dtype=bool)


def unmarked(labels: Any) -> Any:
    """Return labels with None for the integer -1, the usual mark of a missing label; not if 1 is the only other one.

    >>> unmarked([2, -1, 1])
    [2, None, 1]
    >>> unmarked([1, -1, 1])
    [1, -1, 1]
    """
    values = labels.tolist() if isinstance(labels, np.ndarray) and labels.ndim == 1 else labels
    if not isinstance(values, list) or not any(type(v) is int and v == -1 for v in values):
        return labels
    if all(v == 1 for v in values if v is not None and v != -1):
        return labels
    return [None if type(v) is int and v == -1 else v for v in values]


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
    known = _are_present(labels) & ~np.asarray(masked)
    if missing_label is not None:
        marked = [v == missing_label for v in labels] if labels.dtype == object else labels == missing_label
        known &= ~np.asarray(marked, dtype=bool)
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


def are_label_sets(Y: Any) -> bool:
    """Return whether Y gives several labels for each item.

    That is a sparse matrix, an array or table of two dimensions and more than one column, or a sequence with a list
    or a set among its entries. Tuples and frozensets are single labels.

    >>> are_label_sets([["dog", "grass"], ["cat"]]), are_label_sets([("a", 1), ("b", 2)])
    (True, False)
    """
    if issparse(Y):
        return True
    if isinstance(Y, (list, tuple)):
        if not any(isinstance(entry, (list, set)) for entry in Y):
            # Rows of a matrix, or arrays of labels? Both are plausible.
            rows = [i for i, entry in enumerate(Y) if isinstance(entry, np.ndarray) and entry.shape not in ((), (1,))]
            if rows:
                raise ValueError(
                    f"labels[{rows[0]}] is an array of shape {Y[rows[0]].shape}: expected a list or set of labels "
                    "for each item, or one matrix of 0 and 1"
                )
            return False
        return True
    shape = Y.shape if hasattr(Y, "shape") else np.asarray(Y).shape
    if len(shape) == 1 and getattr(getattr(Y, "dtype", None), "kind", None) == "O":
        return any(isinstance(entry, (list, set, np.ndarray)) for entry in Y)
    return len(shape) == 2 and shape[1] != 1


def encode_label_sets(Y: Any, *, name: str = "Y") -> tuple[NDArray[Any], csr_matrix]:
    """Return classes (k,) and the indicator matrix (n, k) of items with any number of labels each.

    Parameters
    ----------
    Y : matrix (n, labels) of 0 and 1, dense or sparse, or sequence of n lists or sets of labels
        A matrix has a column for each label, named 0, 1, ..., or by the columns of a table. In a sequence None is an
        empty set.
    name : str, default="Y"
        The argument's name in errors.

    Returns
    -------
    classes : array (k,)
        The labels that at least one item has, in ascending order if they can be compared.
    matrix : csr_matrix (n, k) of uint8
        Indices are sorted, and all stored values are 1.

    Examples
    --------
    >>> classes, matrix = encode_label_sets([["dog", "grass"], {"dog"}, []])
    >>> classes.tolist(), matrix.toarray().tolist()
    (['dog', 'grass'], [[1, 1], [1, 0], [0, 0]])
    """
    if issparse(Y) or (not isinstance(Y, (list, tuple)) and np.ndim(Y) == 2):
        classes, matrix = _from_indicator(Y, name)
    else:
        classes, matrix = _from_sets(Y, name)
    used = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]))
    if len(used) < matrix.shape[1]:
        classes, matrix = classes[used], matrix[:, used]
    matrix.sort_indices()
    return classes, matrix


def _from_indicator(Y: Any, name: str) -> tuple[NDArray[Any], csr_matrix]:
    columns = np.asarray(Y.columns) if hasattr(Y, "columns") else np.arange(Y.shape[1])
    if not issparse(Y):
        Y = np.asarray(Y)
        if Y.dtype == object:
            try:
                Y = Y.astype(np.float64)
            except (TypeError, ValueError):
                raise ValueError(f"{name} holds objects: expected a matrix of 0 and 1") from None
    if Y.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {Y.dtype}: expected a matrix of 0 and 1")
    matrix = csr_matrix(Y, copy=True)  # the next two steps work in place, and Y is the caller's
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    wrong = np.flatnonzero(matrix.data != 1)
    if len(wrong):
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right")) - 1
        raise ValueError(
            f"{name}[{row}, {matrix.indices[wrong[0]]}]={matrix.data[wrong[0]]}: expected 0 or 1 everywhere"
        )
    return columns, csr_matrix((np.ones(matrix.nnz, dtype=np.uint8), matrix.indices, matrix.indptr), matrix.shape)


def _from_sets(Y: Any, name: str) -> tuple[NDArray[Any], csr_matrix]:
    flat: list[Any] = []
    counts = []
    for i, entry in enumerate(Y):
        if entry is not None and not isinstance(entry, (list, set, np.ndarray)):
            raise ValueError(f"{name}[{i}]={entry!r}: expected a list or set of labels, or None for no label")
        labels = [] if entry is None else entry.tolist() if isinstance(entry, np.ndarray) else list(entry)
        for label in labels:
            if not isinstance(label, Hashable) or label is None or label != label:
                raise ValueError(f"{name}[{i}] holds {label!r}: expected numbers, strings or other hashable labels")
        flat += labels
        counts.append(len(labels))
    classes, numbers = encode_labels(flat) if flat else (np.empty(0), np.empty(0, dtype=np.int64))
    item = np.repeat(np.arange(len(counts)), counts)
    matrix = csr_matrix((np.ones(len(flat), dtype=np.uint8), (item, numbers)), shape=(len(counts), len(classes)))
    matrix.sum_duplicates()
    matrix.data[:] = 1  # a list may name a label twice
    return classes, matrix


def single_labels(matrix: csr_matrix) -> NDArray[np.int64] | None:
    """Return the class number of each item (n,), -1 without a label; None if some item has several."""
    counts = np.diff(matrix.indptr)
    if (counts > 1).any():
        return None
    numbers = np.full(len(counts), -1, dtype=np.int64)
    numbers[counts == 1] = matrix.indices
    return numbers


def label_sets(classes: NDArray[Any], matrix: csr_matrix) -> list[list[Any]]:
    """Return the labels of each item as lists: the inverse of ``encode_label_sets``."""
    names: Sequence[Any] = classes.tolist()
    cuts = zip(matrix.indptr, matrix.indptr[1:])
    return [[names[c] for c in matrix.indices[start:stop]] for start, stop in cuts]
