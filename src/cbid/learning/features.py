"""The features in which bits are searched: uncorrelated columns of nearly unit variance, optionally of RBF anchors.

A bit is a hyperplane in these features. In the linear form it is folded back into the units of X; in the kernel form
it stays a hyperplane over the similarities to the anchors.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from cbid.learning.scaling import NOTHING_VARIES, check_squares

__all__ = ["Anchors", "Whitening", "fit_anchors", "fit_whitening"]

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Whitening:
    """Z = (X - mean) @ basis; ``scale`` (c,) is what each principal axis was divided by."""

    mean: NDArray[np.float64]
    basis: NDArray[np.float64]
    scale: NDArray[np.float64]

    def __call__(self, X: Array) -> NDArray[np.float32]:
        return ((X - self.mean.astype(X.dtype)) @ self.basis.astype(X.dtype)).astype(np.float32)

    def fold(self, beta: Array) -> NDArray[np.float64]:
        """A direction in Z as a direction in X - mean."""
        return self.basis @ beta


def fit_whitening(X: Array, *, n_components: int, ridge: float, random_state: int) -> Whitening:
    """Rotate to the leading principal axes and divide by sqrt(variance + ridge * typical variance).

    The ridge keeps axes that are little more than noise from being blown up to full size. The typical variance is
    the mean over the axes, each counted by its share of the variance, so that trailing axes do not change it. Axes
    without variance are left out.
    """
    mean = X.mean(axis=0, dtype=np.float64)
    centred = X - mean.astype(X.dtype)
    # One number for all columns: their relative scales are part of the data.
    square = float(np.mean(np.square(centred, dtype=np.float64)))
    unit = float(np.sqrt(square))
    # Below this a column is constant but for the rounding of its mean.
    if not np.any(np.abs(centred).max(axis=0) > 8 * np.finfo(X.dtype).eps * np.abs(mean)):
        raise ValueError(NOTHING_VARIES)
    # Hyperplanes are in inverse units, and whitening enlarges some: they must stay within the type of X.
    check_squares(square, X, least=(64 * float(np.finfo(X.dtype).tiny)) ** 2)
    scaled = (centred / X.dtype.type(unit)).astype(np.float32, copy=False)
    pca = PCA(min(n_components, *X.shape), random_state=random_state).fit(scaled)
    variance = pca.explained_variance_.astype(np.float64)
    kept = variance > 1e-7 * variance[0]
    variance, axes = variance[kept], pca.components_[kept].astype(np.float64)
    typical = float(variance @ variance / variance.sum())
    scale = np.sqrt(variance + ridge * typical)
    return Whitening(mean, axes.T / (unit * scale), scale)


@dataclass(frozen=True)
class Anchors:
    """Similarities exp(-gamma ||x - a||^2) to m anchor points (m, d)."""

    points: Array
    gamma: float

    def __call__(self, X: Array) -> NDArray[np.float32]:
        # Around the anchors' mean and in units of the kernel's width: neither offset nor scale costs digits.
        centre = self.points.mean(axis=0, dtype=np.float64)
        unit = np.sqrt(self.gamma)
        K = _squared_distances(
            ((X - centre) * unit).astype(np.float32), ((self.points - centre) * unit).astype(np.float32)
        )
        return np.exp(np.negative(K, out=K), out=K)


def fit_anchors(X: Array, *, n_anchors: int, gamma: float | None, rng: np.random.Generator) -> Anchors:
    """Anchors drawn from X; gamma defaults to the inverse of the total variance."""
    chosen = np.sort(rng.choice(len(X), size=min(n_anchors, len(X)), replace=False))
    if gamma is None:
        spread = float(X.var(axis=0, dtype=np.float64).sum())  # half the mean squared distance of two samples
        check_squares(spread, X)
        gamma = 1 / spread if spread > 0 else 1.0
    return Anchors(X[chosen], float(gamma))


def _squared_distances(X: NDArray[np.float32], A: NDArray[np.float32]) -> NDArray[np.float32]:
    D = X @ A.T
    D *= -2
    D += np.einsum("ij,ij->i", X, X)[:, None]
    D += np.einsum("ij,ij->i", A, A)
    return np.maximum(D, 0, out=D)
