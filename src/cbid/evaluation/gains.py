"""How relevant items are to queries, from their labels: the gains of graded metrics."""

import itertools
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

__all__ = ["has_sets", "is_matrix", "label_matrices", "shared_labels"]


def shared_labels(queries: Any, items: Any) -> NDArray[np.int64]:
    """Return the number of labels that each query shares with each item, (q, n): the gains of graded metrics.

    Parameters
    ----------
    queries, items : array-like or sparse array of shape (q, labels) and (n, labels), or lists
        Values 0 and 1; or a list or set of labels for each.

    Examples
    --------
    >>> shared_labels([["sea", "sky"]], [["sky"], ["sky", "sea", "sand"], ["tree"]])
    array([[1, 2, 0]])
    """
    left, right = label_matrices(queries, items, ("queries", "items"))
    return np.asarray((left @ right.T).toarray(), dtype=np.int64)


def label_matrices(left: Any, right: Any, names: tuple[str, str]) -> tuple[csr_array, csr_array]:
    """Return the labels of two lists of samples as 0/1 matrices with the same columns."""
    tables = [is_matrix(given) for given in (left, right)]
    if tables[0] != tables[1]:
        raise ValueError(
            f"{names[0]} and {names[1]}: expected two 0/1 matrices, or two lists of lists or sets of labels"
        )
    if tables[0]:
        matrices = [_indicator(given, name) for given, name in zip((left, right), names)]
        if matrices[0].shape[1] != matrices[1].shape[1]:
            shapes = [matrix.shape for matrix in matrices]
            raise ValueError(f"{names[0]} {shapes[0]}, {names[1]} {shapes[1]}: expected one column per label in both")
        return matrices[0], matrices[1]
    sets = [_label_sets(given, name) for given, name in zip((left, right), names)]
    columns: dict[Any, int] = {}
    for labels in itertools.chain.from_iterable(sets):
        for label in labels:
            columns.setdefault(label, len(columns))
    found = []
    for rows in sets:
        places = np.array([columns[label] for labels in rows for label in labels], dtype=np.int64)
        ends = np.cumsum([0, *(len(labels) for labels in rows)])
        found.append(csr_array((np.ones(len(places), np.int64), places, ends), shape=(len(rows), len(columns))))
    return found[0], found[1]


def is_matrix(labels: Any) -> bool:
    """Return whether labels are a matrix with one column per label, and not a list of labels or label sets."""
    return issparse(labels) or getattr(labels, "ndim", 1) == 2


def has_sets(labels: Any) -> bool:
    """Return whether labels are several for each sample: a matrix, or a list with a list or set among its entries."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind != "O":
        return is_matrix(labels)
    return is_matrix(labels) or any(isinstance(v, (list, set, np.ndarray)) for v in labels)


def _indicator(given: Any, name: str) -> csr_array:
    matrix = csr_array(given)
    if not np.isin(matrix.data, (0, 1)).all():
        other = matrix.data[~np.isin(matrix.data, (0, 1))][0]
        raise ValueError(f"{name} holds {other}: expected 0 and 1, one column per label")
    return csr_array(matrix, dtype=np.int64)


def _label_sets(given: Iterable[Any], name: str) -> list[list[Any]]:
    """Return the distinct labels of each sample; an entry that is neither a list nor a set is one label."""
    rows = [list(v) if isinstance(v, (list, set, np.ndarray)) else [v] for v in given]
    for label in itertools.chain.from_iterable(rows):
        if not isinstance(label, Hashable):
            raise ValueError(f"{name} holds {label!r}: expected numbers, strings or other hashable labels")
    return [list(dict.fromkeys(row)) for row in rows]
