"""Leading axes of data: right singular vectors in float64, in bounded memory."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, svds

from cbid.learning.scaling import check_varies

__all__ = ["Axes", "leading_axes", "parts", "principal_axes"]

Array = NDArray[np.floating]
Rows = Callable[[slice], NDArray[np.float64]]

_ROWS = 8192
_DENSE_UP_TO = 4096  # columns; beyond, the d x d matrix gives way to a Krylov solver


@dataclass(frozen=True)
class Axes:
    """Orthonormal rows (c, d) and the length of the data along each, (c,), descending."""

    vectors: NDArray[np.float64]
    lengths: NDArray[np.float64]


def parts(n: int, rows: int = _ROWS) -> list[slice]:
    """Return slices of n rows that are processed one at a time."""
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


def leading_axes(rows: Rows, n: int, d: int, n_axes: int) -> Axes:
    """The ``n_axes`` leading right singular vectors of the (n, d) matrix whose rows ``rows`` gives a slice at a time.

    Axes along which there is nothing but rounding are left out, so fewer may come. The largest entry of each is
    positive.
    """
    if d <= _DENSE_UP_TO:
        gram = np.zeros((d, d))
        for part in parts(n):
            block = rows(part)
            gram += block.T @ block
        squares, vectors = eigh(gram, subset_by_index=[d - min(n_axes, d), d - 1])
        squares, vectors = np.maximum(squares[::-1], 0), vectors[:, ::-1].T
    else:
        squares, vectors = _by_krylov(rows, n, d, min(n_axes, n - 1, d - 1))
    kept = squares > d * np.finfo(np.float64).eps * squares.max(initial=0)
    vectors, squares = vectors[kept], squares[kept]
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1)
    return Axes(vectors * np.where(largest < 0, -1.0, 1.0), np.sqrt(squares))


def _by_krylov(rows: Rows, n: int, d: int, n_axes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    def times(V: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([rows(part) @ V for part in parts(n)])

    def transposed_times(U: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sum([rows(part).T @ U[part] for part in parts(n)], axis=0)

    matrix = LinearOperator(
        (n, d), matvec=times, rmatvec=transposed_times, matmat=times, rmatmat=transposed_times, dtype=np.float64
    )
    start = np.random.default_rng(0).standard_normal(min(n, d))
    _, lengths, vectors = svds(matrix, k=n_axes, v0=start, return_singular_vectors="vh")
    order = np.argsort(-lengths)
    return lengths[order] ** 2, vectors[order]


def principal_axes(X: Array, n_axes: int) -> tuple[NDArray[np.float64], Axes]:
    """Mean (d,) and principal axes of X; their lengths are standard deviations. At most ``n_axes``, with variance."""
    mean = X.mean(axis=0, dtype=np.float64)
    check_varies(X)
    found = leading_axes(lambda part: X[part] - mean, len(X), X.shape[1], n_axes)
    return mean, Axes(found.vectors, found.lengths / np.sqrt(len(X)))
