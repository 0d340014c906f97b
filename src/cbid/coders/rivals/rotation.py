"""The rotation of iterative quantisation: axes turned so that their signs lose least."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["fit_rotation"]

Array = NDArray[np.float64]


def fit_rotation(V: Array, n_bits: int, *, n_iter: int, rng: np.random.Generator) -> Array:
    """R (c, n_bits) with orthonormal rows that lowers ||B - V R||^2, B = sign(V R), by turns from a random start.

    V : (n, c) with c <= n_bits. With fewer axes than bits this is the same as axes of zeros beside them. Each turn is
    an orthogonal Procrustes problem: with B' V = U S W', the best R is W U'.
    """
    R = np.linalg.qr(rng.standard_normal((n_bits, n_bits)))[0][: V.shape[1]]
    for _ in range(n_iter):
        B = np.where(V @ R >= 0, 1.0, -1.0)
        U, _, Wt = np.linalg.svd(B.T @ V, full_matrices=False)
        R = Wt.T @ U.T
    return R
