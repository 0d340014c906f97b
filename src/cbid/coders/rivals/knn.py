"""Nearest neighbours of every sample among the others."""

import numpy as np
from numpy.typing import NDArray

from cbid.learning.neighbourhoods import of_unit_size, squared_distances
from cbid.threads import faiss_products

__all__ = ["nearest_others"]


def nearest_others(X: NDArray[np.floating], k: int) -> NDArray[np.int64]:
    """Return indices (n, k) of the k nearest other samples by Euclidean distance, nearest first; k < n.

    Matrix products find a shortlist that exact differences re-rank. If rounding errors of the products may have
    missed a nearer sample, as in clusters much tighter than X is wide, the sample is compared with all samples.
    """
    import faiss  # slow to import

    Z = of_unit_size(X)
    everyone = np.arange(len(X), dtype=np.int32)
    rough, found = faiss.knn(Z, Z, min(2 * k + 1, len(X)))
    near, distances = _rank(Z, everyone, found.astype(np.int32), k)
    squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    error = Z.shape[1] * np.finfo(np.float32).eps * (squares + squares.max())
    furthest = distances[:, -1]
    unsure = everyone[(furthest > 0) & (furthest > rough[:, -1] - error)] if found.shape[1] < len(X) else everyone[:0]
    if len(unsure):
        with faiss_products(False):
            found = faiss.knn(Z[unsure], Z, k + 1)[1]
        near[unsure] = _rank(Z, unsure, found.astype(np.int32), k)[0]
    return near.astype(np.int64)


def _rank(
    Z: NDArray[np.float32], samples: NDArray[np.int32], found: NDArray[np.int32], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the k nearest of the samples found for each sample, without itself, and their squared distances."""
    distances = squared_distances(Z, samples, found)
    # The sample itself goes last and is cut off; among many copies of one point it may not be among those found.
    distances[found == samples[:, None]] = np.inf
    order = np.lexsort((found, distances), axis=1)[:, :k]
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(distances, order, axis=1)
