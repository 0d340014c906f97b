"""Label trees (Bengio, Weston and Grangier, 2010): classes that are mistaken for each other stay together longest."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

__all__ = ["confusion_affinity", "grow_tree"]

_LEAST_AFFINITY = 1e-6  # of any two classes, so that the graph holds together


def confusion_affinity(numbers: NDArray[np.integer], predicted: NDArray[np.integer]) -> NDArray[np.float64]:
    """How easily two classes are mistaken, (k, k): the mean of the shares of each taken for the other.

    numbers, predicted: (n,), class numbers 0 to k - 1 of samples and what a classifier says of them.
    """
    k = int(numbers.max()) + 1
    confusion = np.zeros((k, k))
    np.add.at(confusion, (numbers, predicted), 1)
    confusion /= confusion.sum(axis=1, keepdims=True)
    return (confusion + confusion.T) / 2


def grow_tree(affinity: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The nodes of a binary tree over k classes but its root, (2 k - 2, k): which classes each node holds.

    Each node is cut in two where the classes are least mistaken for each other, down to single classes. Parents come
    before their children, the two children of a node next to each other.
    """
    k = len(affinity)
    nodes = []
    open_nodes = [np.arange(k)]
    for classes in open_nodes:  # which grows meanwhile
        if len(classes) == 1:
            continue
        side = _normalized_cut(affinity[np.ix_(classes, classes)])
        for part in (classes[side], classes[~side]):
            nodes.append(np.isin(np.arange(k), part))
            open_nodes.append(part)
    return np.array(nodes).reshape(-1, k)


def _normalized_cut(affinity: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Two sides of a graph by spectral clustering (Shi and Malik, 2000): which nodes are with the first, (k,).

    Along the second eigenvector of the normalised Laplacian, the cut of least normalised cost.
    """
    W = affinity + _LEAST_AFFINITY
    np.fill_diagonal(W, 0)  # a node is never parted from itself
    degrees = W.sum(axis=1)
    scale = 1 / np.sqrt(degrees)
    _, vectors = eigh(-W * scale[:, None] * scale, subset_by_index=[0, 1])
    position = vectors[:, 1] * scale
    order = np.argsort(position, kind="stable")
    within = np.tril(W[np.ix_(order, order)])  # each pair once, at the later of its two
    size = np.cumsum(degrees[order])[:-1]  # of the first side, for every cut
    cost = size - 2 * np.cumsum(within.sum(axis=1))[:-1]
    cut = int(np.argmin(cost / size + cost / (degrees.sum() - size))) + 1
    side = np.zeros(len(W), dtype=bool)
    side[order[:cut]] = True
    return side if side[0] else ~side  # an eigenvector's sign is arbitrary
