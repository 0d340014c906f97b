"""Canonical directions of samples and labels, which are the discriminant directions of Fisher.

Canonical correlation analysis between X and the indicators of its classes maximises w' B w / w' (C + reg I) w, where
C is the covariance of X and B that of the class means: linear discriminant analysis, up to the length of w.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular, svd

from cbid.learning.centring import class_means

__all__ = ["canonical_directions"]

Array = NDArray[np.float64]


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
