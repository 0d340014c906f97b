"""What a code is worth: four figures from distances, labels and features, the same for every method.

- knn: 5-NN accuracy; equal distances go to the smaller row (rows are in random order), equal votes to the smaller
  class.
- map: mean average precision over the training set, tie-aware (``cbid.evaluation``).
- p10: precision among the 10 nearest, tie-aware.
- svm: accuracy of one-against-rest linear SVMs on the bits in -1/+1 divided by the root of their number, C = 1.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.evaluation import average_precision, precision_at

__all__ = ["figures", "hamming_rows", "nearest_class", "svm_accuracy", "svm_of_bits", "unit_bits"]

Array = NDArray[Any]
_QUERIES = 256


def hamming_rows(train: Array, test: Array, weights: Array | None = None) -> Iterator[Array]:
    """Distances (rows, n) of a part of the queries at a time, from bits in -1/+1: whole numbers without weights."""
    stored = train.T.astype(np.float32) if weights is None else weights[:, None] * train.T / weights.sum()
    for start in range(0, len(test), _QUERIES):
        products = test[start : start + _QUERIES].astype(stored.dtype) @ stored
        if weights is None:
            yield ((train.shape[1] - products) / 2).astype(np.int32)
        else:
            yield np.round(1 - products, 12)  # what differs in the last digit of a sum is a tie


def figures(
    rows: Iterable[Array], y: Array, yt: Array, train: Array | None = None, test: Array | None = None
) -> dict[str, float]:
    """The four figures; without features for the SVM, three."""
    hits, precisions, at_ten, start = 0, [], [], 0
    for distances in rows:
        labels = yt[start : start + len(distances)]
        relevant = labels[:, None] == y
        precisions.append(average_precision(distances, relevant))
        at_ten.append(precision_at(distances, relevant, 10))
        hits += int((nearest_class(distances, y) == labels).sum())
        start += len(distances)
    found = {
        "knn": hits / len(yt),
        "map": float(np.mean(np.concatenate(precisions))),
        "p10": float(np.mean(np.concatenate(at_ten))),
    }
    if train is not None and test is not None:
        found["svm"] = svm_accuracy(train, y, test, yt)
    return found


def nearest_class(distances: Array, y: Array, k: int = 5) -> Array:
    """The class with most of the k nearest, for each row of distances."""
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    votes = np.zeros((len(distances), int(y.max()) + 1), dtype=int)
    np.add.at(votes, (np.arange(len(distances))[:, None], y[nearest]), 1)
    return votes.argmax(axis=1)


def svm_of_bits() -> Any:
    """The linear SVM of all codes."""
    from sklearn.svm import LinearSVC

    # A loose tolerance: accuracies differ by less than a query, and 102 classes are learned five times as fast.
    return LinearSVC(C=1.0, dual=True, tol=1e-2, max_iter=5000, random_state=0)


def unit_bits(bits: Array) -> Array:
    """Rows of length one."""
    return bits / np.sqrt(bits.shape[1])


def svm_accuracy(train: Array, y: Array, test: Array, yt: Array) -> float:
    return float(svm_of_bits().fit(unit_bits(train), y).score(unit_bits(test), yt))
