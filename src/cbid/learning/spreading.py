"""Labels for samples without one: they spread over the graph of nearest neighbours (docs/method.md, section 9).

Each sample passes what it knows on to its neighbours, in proportion to their similarity, until little changes. Before
that is believed, it is tried on a part of the given labels.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags_array
from sklearn.preprocessing import normalize

from cbid.threads import faiss_threads

__all__ = ["spread_labels"]

Array = NDArray[np.floating]
Numbers = NDArray[np.int64]

# Neighbours of a sample, the share of what it knows that comes from them in each turn, and turns.
_NEIGHBOURS = 10
_PASSED_ON = 0.9
_TURNS = 40
# Samples without a label that take part at most: time grows with the square of their number.
_MOST_SAMPLES = 20_000


def spread_labels(X: Array, y: Numbers, rng: np.random.Generator, *, n_threads: int = 1) -> Numbers:
    """Return labels (n,) where some of the missing ones are filled in; y itself where that does not help.

    X : (n, d); y : (n,) class numbers, -1 for a sample without a label.

    Half of the labels of each class are hidden and found again, by spreading and by the nearest of the labels left.
    Labels that spread worse than that are not used. Classes with a single label cannot be tried.
    """
    labelled, missing = np.flatnonzero(y >= 0), np.flatnonzero(y < 0)
    if not len(labelled) or not len(missing):
        return y
    if len(missing) > _MOST_SAMPLES:
        missing = np.sort(rng.choice(missing, _MOST_SAMPLES, replace=False))
    part = np.concatenate([labelled, missing])
    known = y[part]
    unit = normalize(X[part] - X[part].mean(axis=0)).astype(np.float32)
    graph = _neighbour_graph(unit, n_threads)
    hidden = _half_of_each_class(known, rng)
    if len(hidden):
        tried = known.copy()
        tried[hidden] = -1
        left = np.flatnonzero(tried >= 0)
        nearest = tried[left][(unit[hidden] @ unit[left].T).argmax(axis=1)]
        if np.mean(_spread(graph, tried)[hidden] == known[hidden]) < np.mean(nearest == known[hidden]):
            return y
    filled = y.copy()
    filled[missing] = _spread(graph, known)[len(labelled) :]
    return filled


def _half_of_each_class(y: Numbers, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return half of the samples of each class that has two or more."""
    order = rng.permutation(np.flatnonzero(y >= 0))
    order = order[np.argsort(y[order], kind="stable")]
    sizes = np.bincount(y[order])
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order[place < np.repeat(sizes // 2, sizes)]


def _neighbour_graph(unit: NDArray[np.float32], n_threads: int) -> csr_matrix:
    """Return similarities of nearest neighbours, symmetric and scaled so that no sample counts by its degree."""
    import faiss  # slow to import, and most fits do without

    n = len(unit)
    k = min(_NEIGHBOURS + 1, n)
    with faiss_threads(n_threads):
        similarity, found = faiss.knn(unit, unit, k, metric=faiss.METRIC_INNER_PRODUCT)
    row = np.repeat(np.arange(n), k)
    value = np.where(found.ravel() == row, 0.0, np.maximum(similarity.ravel(), 0).astype(np.float64) ** 3)
    A = csr_matrix((value, (row, found.ravel())), shape=(n, n))
    A = A.maximum(A.T)
    scale = diags_array(1 / np.sqrt(np.maximum(np.asarray(A.sum(axis=1)).ravel(), 1e-12)))
    return csr_matrix(scale @ A @ scale)


def _spread(graph: csr_matrix, y: Numbers) -> Numbers:
    """Return the class of every sample; -1 where no label arrives."""
    given = np.flatnonzero(y >= 0)
    start = np.zeros((len(y), int(y.max()) + 1))
    start[given, y[given]] = 1
    start /= np.maximum(start.sum(axis=0), 1)  # classes with many labels do not flood the others
    found = start.copy()
    for _ in range(_TURNS):
        found = _PASSED_ON * (graph @ found) + (1 - _PASSED_ON) * start
    found /= np.maximum(found.sum(axis=0), 1e-300)
    return np.where(found.any(axis=1), found.argmax(axis=1), -1)
