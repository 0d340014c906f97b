"""Checks and small steps that several rivals share."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from cbid.learning.neighbourhoods import of_unit_size, squared_distances
from cbid.learning.scaling import check_varies
from cbid.params import check_params
from cbid.threads import faiss_products

Array = NDArray[np.float64]
Vectors = NDArray[np.floating]
Seed = int | np.random.RandomState | None


def check_vectors(coder: BaseEstimator, X: ArrayLike, least: int = 2, *, varied: bool = False) -> Vectors:
    """Check the parameters and X of an unsupervised coder; return X (n, d) with at least ``least`` samples.

    With ``varied`` the samples must not be all equal.
    """
    check_params(coder)
    samples: Vectors = validate_data(coder, X, dtype=[np.float64, np.float32], ensure_min_samples=least)
    if varied:
        check_varies(samples)
    return samples


class CodeLengthError(ValueError):
    """A method has no codes of this length for the given data."""


def check_most_bits(n_bits: int, most: int, reason: str) -> None:
    """Raise a ``CodeLengthError`` if a method cannot give ``n_bits`` bits for this X and y."""
    if n_bits > most:
        raise CodeLengthError(f"n_bits={n_bits}: expected at most {most}, because {reason}")


def check_enough_axes(n_bits: int, found: int, X: Vectors) -> None:
    """Raise a ``CodeLengthError`` if X varies along fewer axes than a method needs bits."""
    samples = f"n_samples={len(X)}, n_features={X.shape[1]}"
    check_most_bits(n_bits, found, f"X ({samples}) varies along {found} axes and each gives one bit")


def subsample(X: Vectors, most: int, rng: np.random.Generator) -> Vectors:
    """Return at most ``most`` random samples of X, in their original order."""
    return X if len(X) <= most else X[np.sort(rng.choice(len(X), most, replace=False))]


def leading_eigenvectors(times: Callable[[Array], Array], n: int, count: int) -> Array:
    """Return the ``count`` leading eigenvectors (n, count) of a symmetric operator, largest eigenvalue first."""
    matrix = LinearOperator((n, n), matvec=lambda v: times(v.ravel()), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    values, vectors = eigsh(matrix, k=count, which="LA", v0=start, tol=1e-6)
    return vectors[:, np.argsort(-values)]


def fix_signs(V: Array, axis: int) -> Array:
    """Flip the vectors along ``axis`` so that the largest entry of each is positive."""
    largest = np.take_along_axis(V, np.expand_dims(np.abs(V).argmax(axis=axis), axis), axis=axis)
    return V * np.where(largest < 0, -1.0, 1.0)


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
