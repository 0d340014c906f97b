"""LDA."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular, svd

from cbid.checks import check_integer, check_real
from cbid.coders.hyperplane import HyperplaneCoder
from cbid.coders.supervised import SupervisedMixin
from cbid.learning.centring import centre, class_means

__all__ = ["LDASign", "canonical_directions"]

Array = NDArray[np.float64]


class LDASign(SupervisedMixin, HyperplaneCoder):
    """Signs of Fisher's linear discriminants around the mean of the samples.

    There are at most n_classes - 1 of them, nor more than features: more bits are an error.

    Parameters
    ----------
    n_bits : int or None
        None: as many as there are.
    reg : float >= 0
        Regularisation of the covariance of X, as a share of the mean variance of its columns.
    """

    def __init__(self, *, n_bits: int | None = None, reg: float = 1e-4) -> None:
        self.n_bits = n_bits
        self.reg = reg

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,)."""
        check_real("reg", self.reg, 0)
        if self.n_bits is not None:
            check_integer("n_bits", self.n_bits, 1)
        samples, numbers = self._labelled(X, y)
        most = min(len(self.classes_) - 1, samples.shape[1])
        n_bits = most if self.n_bits is None else self.n_bits
        if n_bits > most:
            raise ValueError(
                f"n_bits={n_bits!r}: {len(self.classes_)} classes in {samples.shape[1]} features "
                f"have {most} discriminants: give an integer from 1 to {most}, or None"
            )
        data = centre(samples)
        W, _ = canonical_directions(data.Z, numbers, len(self.classes_), reg=self.reg)
        return self._set_hyperplanes(W[:, :n_bits] / data.unit, 0.0, data.mean)


def canonical_directions(
    Z: Array, numbers: NDArray[np.integer], n_classes: int, *, reg: float
) -> tuple[Array, Array]:
    """Directions W (d, c) and their correlations (c,), descending, c <= min(n_classes - 1, d).

    Z : (n, d) centred. ``reg`` is a share of the mean variance of its columns. Directions have w' (C + reg I) w = 1.
    """
    n, d = Z.shape
    C = Z.T @ Z / n
    C[np.diag_indices(d)] += max(reg, 1e-10) * (np.trace(C) / d or 1.0)
    L = cholesky(C, lower=True)
    share = np.bincount(numbers, minlength=n_classes) / n
    # B = M M' with one column for each class: directions are left singular vectors of L^-1 M.
    M = class_means(Z, numbers, n_classes).T * np.sqrt(share)
    U, correlations, _ = svd(solve_triangular(L, M, lower=True), full_matrices=False)
    kept = min(n_classes - 1, d)
    return solve_triangular(L, U[:, :kept], lower=True, trans="T"), correlations[:kept]
