"""How relevant items are to queries, from their labels: the gains of graded metrics."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse

from cbid.label_trees import parse_tree
from cbid.labels import are_label_sets, encode_label_sets, encode_labels


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


def tree_similarity(queries: Any, items: Any, tree: Any) -> NDArray[np.float64]:
    """Return how near the labels of queries and items are in a tree, (q, n), from 0 to 1.

    It is 1 - h / H for a lowest common ancestor of height h in a tree of height H: 1 for equal labels, 0 for labels
    that have only the root in common.

    Parameters
    ----------
    queries, items : array-like of shape (q,) and (n,)
        One label each.
    tree : str, mapping or nested dict
        A separator of path labels, child -> parent, or nested dicts, as `CBID.fit` takes it.

    Examples
    --------
    >>> tree_similarity(["animal/dog"], ["animal/dog", "animal/cat", "car"], "/")
    array([[1. , 0.5, 0. ]])
    """
    classes, numbers = [], []
    for given, name in ((queries, "queries"), (items, "items")):
        if are_label_sets(given):
            raise ValueError(f"{name} has several labels for each sample: expected one, which is in the tree")
        found, places = encode_labels(given)
        classes.append(found.tolist())
        numbers.append(places)
    every = list(dict.fromkeys([*classes[0], *classes[1]]))
    if not every:
        return np.zeros((len(numbers[0]), len(numbers[1])))
    shared = parse_tree(tree, every).shared_levels(every)
    place = {label: i for i, label in enumerate(every)}
    rows, columns = (np.array([place[label] for label in of], dtype=np.int64)[at] for of, at in zip(classes, numbers))
    return shared[np.ix_(rows, columns)] / shared.max()


def label_matrices(left: Any, right: Any, names: tuple[str, str]) -> tuple[csr_matrix, csr_matrix]:
    """Return the labels of two lists of samples as 0/1 matrices with the same columns."""
    tables = [issparse(given) or getattr(given, "ndim", 1) == 2 for given in (left, right)]
    if tables[0] != tables[1]:
        raise ValueError(
            f"{names[0]} and {names[1]}: expected two 0/1 matrices, or two lists of lists or sets of labels"
        )
    if tables[0] and left.shape[1] != right.shape[1]:
        raise ValueError(f"{names[0]} {left.shape}, {names[1]} {right.shape}: expected one column per label in both")
    parts = [_encoded(given, name) for given, name in zip((left, right), names)]
    columns = {label: i for i, label in enumerate(dict.fromkeys([*parts[0][0], *parts[1][0]]))}
    found = []
    for classes, matrix in parts:
        places = np.array([columns[label] for label in classes], dtype=np.int64)
        indices = places[matrix.indices] if len(places) else matrix.indices
        values = np.ones(matrix.nnz, dtype=np.int64)
        found.append(csr_matrix((values, indices, matrix.indptr), (matrix.shape[0], len(columns))))
    return found[0], found[1]


def _encoded(given: Any, name: str) -> tuple[list[Any], csr_matrix]:
    if are_label_sets(given) or getattr(given, "ndim", 1) == 2:
        classes, matrix = encode_label_sets(given, name=name)
        return classes.tolist(), matrix
    classes, numbers = encode_labels(given)
    ones = np.ones(len(numbers), dtype=np.uint8)
    return classes.tolist(), csr_matrix((ones, numbers, np.arange(len(numbers) + 1)), (len(numbers), len(classes)))
