"""ITQ."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from cbid.checks import check_integer, check_real
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.rivals.lda_sign import canonical_directions
from cbid.coders.supervised import SupervisedMixin
from cbid.learning.axes import check_enough_axes, parts, principal_axes
from cbid.learning.centring import centre

__all__ = ["CCAITQ", "ITQ"]

Array = NDArray[np.float64]


class ITQ(HyperplaneCoder):
    """Leading principal axes, rotated so that taking signs loses least (Gong and Lazebnik, CVPR 2011).

    Minimises ||B - V R||^2 over codes B and rotations R, where V are the projections on as many axes as there are
    bits. The rotation mixes all axes: a prefix is no code of its own.

    Parameters
    ----------
    n_bits : int
        At most the number of axes along which X varies.
    n_iter : int
        Turns of codes and rotation (the paper's 50).
    random_state : int, RandomState or None
        Draws the rotation that learning starts from.
    """

    def __init__(self, *, n_bits: int = 64, n_iter: int = 50, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from vectors X (n, d); y is not used."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        check_integer("n_iter", self.n_iter, 0)
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        mean, axes = principal_axes(samples, self.n_bits)
        check_enough_axes(self.n_bits, len(axes.vectors), samples)
        W = axes.vectors.T  # (d, n_bits)
        V = np.concatenate([(samples[part] - mean) @ W for part in parts(len(samples))])
        R = fit_rotation(V, self.n_bits, n_iter=self.n_iter, rng=generator(self.random_state))
        return self._set_hyperplanes(W @ R, 0.0, mean)


class CCAITQ(SupervisedMixin, HyperplaneCoder):
    """Iterative quantisation of canonical correlation analysis (Gong and Lazebnik, CVPR 2011 and PAMI 2013).

    Each canonical direction is weighed by its correlation, as in the paper. There are n_classes - 1 of them at most;
    with more bits than that, the rotation spreads them over all bits.

    Parameters
    ----------
    n_bits : int
    reg : float >= 0
        Regularisation of the covariance of X, as a share of the mean variance of its columns.
    n_iter : int
        Turns of the rotation (the paper's 50).
    random_state : int, RandomState or None
        Draws the rotation that learning starts from.
    """

    def __init__(self, *, n_bits: int = 64, reg: float = 1e-4, n_iter: int = 50, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.reg = reg
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,)."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        check_real("reg", self.reg, 0)
        check_integer("n_iter", self.n_iter, 0)
        samples, numbers = self._labelled(X, y)
        data = centre(samples)
        W, correlations = canonical_directions(data.Z, numbers, len(self.classes_), reg=self.reg)
        W = (W * correlations)[:, : self.n_bits]
        R = fit_rotation(data.Z @ W, self.n_bits, n_iter=self.n_iter, rng=generator(self.random_state))
        return self._set_hyperplanes(W @ R / data.unit, 0.0, data.mean)


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
