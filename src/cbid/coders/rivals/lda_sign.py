"""LDA-sign: signs of discriminant directions, which are the canonical directions of samples and labels.

Canonical correlation analysis between X and the indicators of its classes maximises w' B w / w' (C + reg I) w, where
C is the covariance of X and B that of the class means. This is linear discriminant analysis, up to the length of w.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular, svd

from cbid.checks import check_integer, check_real
from cbid.coders.hyperplane import HyperplaneCoder
from cbid.coders.rivals.common import Array, check_most_bits
from cbid.coders.supervised import SupervisedMixin
from cbid.learning.centring import centre, class_means

__all__ = ["LDASign", "canonical_directions"]


@dataclass(kw_only=True, eq=False, repr=False)
class LDASign(SupervisedMixin, HyperplaneCoder):
    """Signs of Fisher's linear discriminants around the mean of the samples.

    Parameters
    ----------
    n_bits : int or None, default=None
        At most n_classes - 1, and at most the number of features. None: as many as possible.
    reg : float >= 0, default=1e-4
        Regularisation of the covariance of X, relative to the mean variance of its columns.
    """

    n_bits: int | None = None
    reg: float = 1e-4

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,)."""
        check_real("reg", self.reg, 0)
        if self.n_bits is not None:
            check_integer("n_bits", self.n_bits, 1)
        samples, labels = self._labelled(X, y)
        k, d = len(self.classes_), samples.shape[1]
        most = min(k - 1, d)
        n_bits = most if self.n_bits is None else self.n_bits
        check_most_bits(n_bits, most, f"{k} classes in {d} features have {most} discriminants")
        data = centre(samples)
        W, _ = canonical_directions(data.Z, labels, k, reg=self.reg)
        return self._set_hyperplanes(W[:, :n_bits] / data.unit, 0.0, data.mean)


def canonical_directions(Z: Array, labels: NDArray[np.integer], n_classes: int, *, reg: float) -> tuple[Array, Array]:
    """Return directions W (d, c) and their correlations (c,), descending, c <= min(n_classes - 1, d).

    Z : (n, d) centred. ``reg`` is relative to the mean variance of its columns. Directions have w' (C + reg I) w = 1.
    """
    n, d = Z.shape
    C = Z.T @ Z / n
    C[np.diag_indices(d)] += max(reg, 1e-10) * (np.trace(C) / d or 1.0)
    L = cholesky(C, lower=True)
    share = np.bincount(labels, minlength=n_classes) / n
    # B = M M' with one column per class: directions are left singular vectors of L^-1 M.
    M = class_means(Z, labels, n_classes).T * np.sqrt(share)
    U, correlations, _ = svd(solve_triangular(L, M, lower=True), full_matrices=False)
    kept = min(n_classes - 1, d)
    return solve_triangular(L, U[:, :kept], lower=True, trans="T"), correlations[:kept]
