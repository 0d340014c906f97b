"""Figures of codes from distances, labels and features, the same for every method.

- knn: 5-NN accuracy. Ties of distances go to the smaller row (rows are in random order), ties of votes to the smaller
  class.
- map: mean average precision over the training set, tie-aware (``cbid.evaluation``).
- p10: precision among the 10 nearest, tie-aware.
- svm: accuracy of linear SVMs, one against the rest, on bits in -1/+1 divided by the root of their number, C = 1.
"""

import numpy as np

from cbid.evaluation import average_precision, mean_average_precision, precision_at
from cbid.paper.coding import linear_svm
from cbid.paper.unseen import nearest_class

BLOCK = 256  # queries at a time


def hamming_rows(train, test, weights=None):
    """Yield distances (rows, n) of some queries at a time, from bits in -1/+1; integers without weights."""
    stored = train.T.astype(np.float32) if weights is None else weights[:, None] * train.T / weights.sum()
    for start in range(0, len(test), BLOCK):
        products = test[start : start + BLOCK].astype(stored.dtype) @ stored
        if weights is None:
            yield ((train.shape[1] - products) / 2).astype(np.int32)
        else:
            yield np.round(1 - products, 12)  # sums that differ in their last digit are ties


def figures(rows, y, yt, train=None, test=None):
    """Return the four figures from rows of distances; without features for the SVM, three of them."""
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
        train, test = (part / np.sqrt(part.shape[1]) for part in (train, test))
        found["svm"] = float(linear_svm().fit(train, y).score(test, yt))
    return found


def neighbour_accuracy(train, y, test, yt, k=5):
    """Return the k-NN accuracy of bits in -1/+1 under plain Hamming distance."""
    predicted = [nearest_class(distances, y, k) for distances in hamming_rows(train, test)]
    return float(np.mean(np.concatenate(predicted) == yt))


def scores(train, y, test, yt):
    """Return (5-NN accuracy, mean average precision over the training set) under plain Hamming distance."""
    return neighbour_accuracy(train, y, test, yt), mean_average_precision(test, yt, train, y)


def prefix_scores(coder, data, lengths):
    """Return the scores of a fitted coder at its prefixes."""
    X, y, Xt, yt = data
    train, test = coder.transform(X), coder.transform(Xt)
    return {length: scores(train[:, :length], y, test[:, :length], yt) for length in lengths}
