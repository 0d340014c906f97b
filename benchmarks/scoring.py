"""The two figures of the accuracy benchmarks, for codes under plain Hamming distance."""

import numpy as np

from cbid.evaluation import mean_average_precision


def neighbour_accuracy(train, y, test, yt, k=5):
    """k-NN accuracy over bits in -1/+1; equal distances go to the smaller row, equal votes to the smaller class."""
    hits = 0
    for start in range(0, len(test), 500):
        part = slice(start, start + 500)
        distances = (train.shape[1] - test[part].astype(np.float32) @ train.T.astype(np.float32)) / 2
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        votes = np.stack([np.bincount(row, minlength=y.max() + 1) for row in y[order]])
        hits += int((votes.argmax(axis=1) == yt[part]).sum())
    return hits / len(test)


def scores(train, y, test, yt):
    """(5-NN accuracy, mean average precision over the training set)."""
    return neighbour_accuracy(train, y, test, yt), mean_average_precision(test, yt, train, y)


def prefix_scores(coder, data, lengths):
    """The scores of one fitted coder at its prefixes."""
    X, y, Xt, yt = data
    train, test = coder.transform(X), coder.transform(Xt)
    return {length: scores(train[:, :length], y, test[:, :length], yt) for length in lengths}
