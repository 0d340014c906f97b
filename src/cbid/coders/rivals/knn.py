"""Nearest neighbours of every sample among the others, and what graphs are made of them."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh

from cbid.learning.neighbourhoods import of_unit_size, squared_distances
from cbid.threads import faiss_products

__all__ = ["cosine_graph", "laplacian_eigenmap", "nearest_others"]

_EDGES = 2**14  # whose samples are gathered at a time
_LEAST = 1e-3  # weight of an edge between neighbours whose cosine is not positive, so that no sample falls out


def nearest_others(X: NDArray[np.floating], k: int) -> NDArray[np.int64]:
    """Numbers (n, k) of each sample's k nearest others by Euclidean distance, nearest first; k < n.

    Products of matrices find a shortlist, ranked again by differences. Where their error, as in clusters much tighter
    than X is wide, leaves open whether a nearer one was missed, the sample is compared with all by differences.
    """
    import faiss  # slow to import

    Z = of_unit_size(X)
    everyone = np.arange(len(X), dtype=np.int32)
    rough, found = faiss.knn(Z, Z, min(2 * k + 1, len(X)))
    near, distances = _ranked(Z, everyone, found.astype(np.int32), k)
    squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    error = Z.shape[1] * np.finfo(np.float32).eps * (squares + squares.max())
    furthest = distances[:, -1]
    unsure = everyone[(furthest > 0) & (furthest > rough[:, -1] - error)] if found.shape[1] < len(X) else everyone[:0]
    if len(unsure):
        with faiss_products(False):
            found = faiss.knn(Z[unsure], Z, k + 1)[1]
        near[unsure] = _ranked(Z, unsure, found.astype(np.int32), k)[0]
    return near.astype(np.int64)


def _ranked(
    Z: NDArray[np.float32], samples: NDArray[np.int32], found: NDArray[np.int32], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The k nearest of those found for each sample, without itself, and their squared distances by differences."""
    distances = squared_distances(Z, samples, found)
    # The sample itself goes last and is cut off; of many copies of one point it may not be among the found.
    distances[found == samples[:, None]] = np.inf
    order = np.lexsort((found, distances), axis=1)[:, :k]
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(distances, order, axis=1)


def cosine_graph(X: NDArray[np.floating], k: int) -> csr_matrix:
    """Edges between samples of which one is among the k nearest of the other by cosine, weighted by it.

    Where that leaves parts without an edge between them, each is joined to its nearest sample outside, until all is
    one: a function over parts alone would say nothing about the samples in them.
    """
    norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    unit = (X / np.where(norms > 0, norms, 1.0)[:, None]).astype(np.float32)
    n = len(X)
    first, second = np.repeat(np.arange(n), k), nearest_others(unit, k).ravel()
    while True:
        W = _graph(unit, first, second)
        n_parts, part = connected_components(W, directed=False)
        if n_parts == 1:
            return W
        joins = np.array([_join(unit, part == p) for p in np.argsort(np.bincount(part), kind="stable")[:-1]])
        first, second = np.concatenate([first, joins[:, 0]]), np.concatenate([second, joins[:, 1]])


def _graph(unit: NDArray[np.float32], first: NDArray[np.int64], second: NDArray[np.int64]) -> csr_matrix:
    """The graph with edges between the samples ``first`` (m,) and ``second`` (m,), in both directions."""
    cosines = np.empty(len(first))
    for start in range(0, len(first), _EDGES):
        part = slice(start, start + _EDGES)
        cosines[part] = np.einsum("ij,ij->i", unit[first[part]], unit[second[part]], dtype=np.float64)
    n = len(unit)
    edges = coo_matrix((np.maximum(cosines, _LEAST), (first, second)), shape=(n, n)).tocsr()
    edges.data = np.minimum(edges.data, 1.0)  # an edge named twice
    return edges.maximum(edges.T).tocsr()


def _join(unit: NDArray[np.float32], inside: NDArray[np.bool_]) -> tuple[int, int]:
    """The nearest pair of samples of which one is inside a part of the graph."""
    import faiss

    within, without = np.flatnonzero(inside), np.flatnonzero(~inside)
    distances, found = faiss.knn(unit[within], unit[without], 1)
    nearest = int(distances[:, 0].argmin())
    return int(within[nearest]), int(without[found[nearest, 0]])


def laplacian_eigenmap(W: csr_matrix, n_axes: int) -> NDArray[np.float64]:
    """The n_axes smoothest functions over a graph, (n, n_axes), without the constant: L v = lambda D v.

    They are the leading eigenvectors u of D^-1/2 W D^-1/2, brought back by v = D^-1/2 u; the constant belongs to
    D^1/2 1 and is taken out beforehand.
    """
    degree = np.asarray(W.sum(axis=1)).ravel()
    root = 1 / np.sqrt(degree)
    constant = np.sqrt(degree / degree.sum())

    def times(u: NDArray[np.float64]) -> NDArray[np.float64]:
        u = u.ravel()
        return root * (W @ (root * u)) + u - 2 * constant * (constant @ u)

    # Plus the identity, which moves all eigenvalues to [0, 2] and the constant to the bottom.
    matrix = LinearOperator(W.shape, matvec=times, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(W.shape[0])
    values, vectors = eigsh(matrix, k=n_axes, which="LA", v0=start, tol=1e-6)
    found = root[:, None] * vectors[:, np.argsort(-values)]
    largest = np.take_along_axis(found, np.abs(found).argmax(axis=0)[None], axis=0)
    return found * np.where(largest < 0, -1.0, 1.0)
