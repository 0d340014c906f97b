"""The features in which bits are searched: uncorrelated columns of nearly unit variance, optionally of RBF anchors.

A bit is a hyperplane in these features. In the linear form it is folded back into the units of X; in the kernel form
it stays a hyperplane over the similarities to the anchors.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.special import softmax
from sklearn.decomposition import PCA

from cbid.learning.scaling import NOTHING_VARIES, check_squares, indicator

__all__ = ["Anchors", "ClassShares", "Whitening", "fit_anchors", "fit_class_shares", "fit_whitening", "kernel_unit"]

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Whitening:
    """Z = (X - mean) @ basis; ``scale`` (c,) is what each principal axis was divided by.

    ``few_axes``: there are few axes for the samples, so the least ridge was chosen.
    """

    mean: NDArray[np.float64]
    basis: NDArray[np.float64]
    scale: NDArray[np.float64]
    few_axes: bool = False

    def __call__(self, X: Array) -> NDArray[np.float32]:
        return ((X - self.mean.astype(X.dtype)) @ self.basis.astype(X.dtype)).astype(np.float32)

    def fold(self, beta: Array) -> NDArray[np.float64]:
        """A direction in Z as a direction in X - mean."""
        return self.basis @ beta


# The ridge of whitening lies within these limits if it follows the samples, and leaves this share of them free.
_LEAST_RIDGE, _MOST_RIDGE = 1e-5, 0.1
_FREEDOM = 0.5


def fit_whitening(X: Array, *, n_components: int, ridge: float | None, random_state: int) -> Whitening:
    """Rotate to the leading principal axes and divide by sqrt(variance + ridge * typical variance).

    The ridge keeps axes that are little more than noise from being blown up to full size. The typical variance is
    the mean over the axes, each counted by its share of the variance, so that trailing axes do not change it. Axes
    without variance are left out. ``ridge=None`` chooses it by ``effective_ridge``.
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
    variance, axes = _principal_axes(scaled, min(n_components, *X.shape), random_state)
    kept = variance > 1e-7 * variance[0]
    variance, axes = variance[kept], axes[kept]
    typical = float(variance @ variance / variance.sum())
    chosen = ridge is None
    if ridge is None:
        ridge = effective_ridge(variance / typical, len(X))
    scale = np.sqrt(variance + ridge * typical)
    return Whitening(mean, axes.T / (unit * scale), scale, few_axes=chosen and ridge == _LEAST_RIDGE)


_MANY_AXES, _SAMPLES_AT_A_TIME = 512, 4096


def _principal_axes(X: Array, count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the variances (c,) and the axes (c, d) of centred X (n, d), largest first."""
    n, d = X.shape
    if d <= _MANY_AXES or n < 2 * d or count < 0.8 * d:
        pca = PCA(count, random_state=seed).fit(X)
        return pca.explained_variance_.astype(np.float64), pca.components_.astype(np.float64)
    # Here PCA would decompose X itself, which takes ten times as long for 60,000 samples.
    products = np.zeros((d, d))
    for start in range(0, n, _SAMPLES_AT_A_TIME):
        some = X[start : start + _SAMPLES_AT_A_TIME]
        products += some.T @ some
    variance, axes = eigh(products / (n - 1), subset_by_index=(d - count, d - 1))
    return variance[::-1], axes.T[::-1]


def effective_ridge(variance: NDArray[np.float64], n: int) -> float:
    """Return the ridge at which n samples determine the axes: sum v / (v + ridge) is at most n / 2.

    Each axis counts by how much of it whitening leaves. With about as many axes as samples any labels fit, and a bit
    follows the training samples only. ``variance`` is in units of the typical variance; the ridge lies in
    [1e-5, 0.1].
    """
    low, high = np.log(_LEAST_RIDGE), np.log(_MOST_RIDGE)
    for _ in range(20):
        middle = (low + high) / 2
        if np.sum(variance / (variance + np.exp(middle))) > _FREEDOM * n:
            low = middle
        else:
            high = middle
    return float(np.exp(high)) if high > np.log(_LEAST_RIDGE) + 1e-3 else _LEAST_RIDGE


@dataclass(frozen=True)
class Anchors:
    """Similarities to m anchor points (m, d): exp(-gamma ||x - a||^2), or exp(-gamma ||x - a||_1) ("laplacian")."""

    points: Array
    gamma: float
    kernel: str = "rbf"

    def __call__(self, X: Array) -> NDArray[np.float32]:
        if self.kernel == "laplacian":
            centre = self.points.mean(axis=0, dtype=np.float64)
            left, right = (((part - centre) * self.gamma).astype(np.float32) for part in (X, self.points))
            return _exp_of_l1(np.ascontiguousarray(left), np.ascontiguousarray(right))
        # Around the anchors' mean and in units of the kernel's width: neither offset nor scale costs digits.
        centre = self.points.mean(axis=0, dtype=np.float64).astype(X.dtype)
        unit = X.dtype.type(np.sqrt(self.gamma))
        n, d = X.shape
        # -||x - a||^2 = 2 x.a - ||x||^2 - ||a||^2 in one product: the squares are two more columns.
        left = np.empty((n, d + 2), dtype=np.float32)
        np.multiply(X - centre, unit, out=left[:, :d], casting="same_kind")
        left[:, d] = np.einsum("ij,ij->i", left[:, :d], left[:, :d])
        left[:, d + 1] = 1
        right = np.empty((len(self.points), d + 2), dtype=np.float32)
        right[:, :d] = (self.points - centre.astype(self.points.dtype)) * unit
        right[:, d + 1] = -np.einsum("ij,ij->i", right[:, :d], right[:, :d])
        right[:, :d] *= 2
        right[:, d] = -1
        K = left @ right.T
        return np.exp(np.minimum(K, 0, out=K), out=K)


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "nsz"})  # lets the sums use SIMD
def _exp_of_l1(X: Array, points: Array) -> NDArray[np.float32]:
    """Return exp(-||x - a||_1) for each row of X (n, d) and each point (m, d)."""
    K = np.empty((len(X), len(points)), dtype=np.float32)
    for i in range(len(X)):
        for j in range(len(points)):
            total = np.float32(0)
            for k in range(X.shape[1]):
                total += abs(X[i, k] - points[j, k])
            K[i, j] = np.exp(-total)
    return K


def fit_anchors(
    X: Array,
    *,
    n_anchors: int,
    gamma: float | None,
    rng: np.random.Generator,
    width: float | None = None,
    kernel: str = "rbf",
) -> Anchors:
    """Return anchors drawn from X; gamma defaults to ``width`` (1) over `kernel_unit`."""
    chosen = np.sort(rng.choice(len(X), size=min(n_anchors, len(X)), replace=False))
    if gamma is None:
        unit = kernel_unit(X, kernel)
        gamma = (width or 1.0) / unit if unit > 0 else 1.0
    return Anchors(X[chosen], float(gamma), kernel)


def kernel_unit(X: Array, kernel: str) -> float:
    """Return the total variance of X for the kernel "rbf", the total mean absolute deviation for "laplacian"."""
    if kernel == "laplacian":
        return float(np.abs(X - X.mean(axis=0, dtype=np.float64)).mean(axis=0).sum())
    spread = float(X.var(axis=0, dtype=np.float64).sum())  # half the mean squared distance of two samples
    check_squares(spread, X)
    return spread


@dataclass(frozen=True)
class ClassShares:
    """Shares of the classes in a sample, which add up to one: softmax((x - mean) . coef + intercept)."""

    mean: NDArray[np.float64]
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]

    def __call__(self, X: Array) -> NDArray[np.float32]:
        scores = (X - self.mean.astype(X.dtype)) @ self.coef.T.astype(X.dtype)
        scores += self.intercept.astype(X.dtype)
        shares: NDArray[np.float32] = softmax(scores, axis=1).astype(np.float32, copy=False)
        return shares


# Ridges that are tried, in units of the typical variance within classes, and factors of the scores.
_SHARE_RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0)
# If classes are in a tree: shares of the way to the mean of its group that the mean of a class moves.
_PULLS = (0.15, 0.3, 0.45)
_FACTORS = 2.0 ** np.arange(-6, 2.1, 0.5)
# A bit adds up the small shares of many classes: sharper shares than the most likely ones leave less of them.
_SHARPER = 4.0
_FOLDS = 5


def fit_class_shares(
    X: Array, y: NDArray[np.integer], *, n_components: int, seed: int, levels: Sequence[NDArray[np.integer]] = ()
) -> tuple[ClassShares, NDArray[np.float32]]:
    """Return class shares learned from X (n, d) with class numbers y (n,), and those of the samples themselves.

    Linear discriminant analysis over the leading principal axes. The ridge is the one that names most classes, and
    the factor of the scores four times that of the largest likelihood, both of samples left out, a fifth at a time.
    The shares (n, k) that are returned are those too: of a sample as if it were new. ``levels`` are those of a tree
    above the classes, coarse to fine, as the node of each class (k,): means of classes are then pulled to that of
    their group, and first the ridge, then the pull is the one that names most classes and nodes.
    """
    axes = fit_whitening(X, n_components=n_components, ridge=0.0, random_state=seed)
    basis = axes.basis * axes.scale
    Z = (X - axes.mean.astype(X.dtype)) @ basis.astype(X.dtype)
    fold = _folds(y, np.random.default_rng(seed))
    n_classes = int(y.max()) + 1
    questions = [*levels, np.arange(n_classes)]

    def trial(ridge: float, pull: float) -> tuple[float, NDArray[np.float64]]:
        """Return how many classes and nodes are named, as shares added up, and the scores of samples left out."""
        scores = np.empty((len(y), n_classes))
        for left_out in (fold == number for number in range(_FOLDS)):
            coef, intercept = discriminants(Z[~left_out], y[~left_out], n_classes, ridge, levels, pull)
            scores[left_out] = Z[left_out] @ coef + intercept
        named = scores.argmax(axis=1)
        return sum(float(np.mean(of[named] == of[y])) for of in questions), scores

    pull, right, ridge, scores = 0.0, -1.0, 0.0, np.empty(0)
    for tried in _SHARE_RIDGES:
        named, found = trial(tried, pull)
        if named > right:
            right, ridge, scores = named, tried, found
    for tried in _PULLS if levels else ():
        named, found = trial(ridge, tried)
        if named > right:
            right, pull, scores = named, tried, found
    own = np.arange(len(y)), y
    losses = [-float(np.mean(np.log(softmax(factor * scores, axis=1)[own] + 1e-12))) for factor in _FACTORS]
    factor = _SHARPER * float(_FACTORS[int(np.argmin(losses))])
    coef, intercept = discriminants(Z, y, n_classes, ridge, levels, pull)
    shares = ClassShares(axes.mean, factor * (basis @ coef).T, factor * intercept)
    return shares, softmax(factor * scores, axis=1).astype(np.float32)


def discriminants(
    Z: Array,
    y: NDArray[np.integer],
    n_classes: int,
    ridge: float,
    levels: Sequence[NDArray[np.integer]] = (),
    pull: float = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return coef (d, k) and intercept (k,) of linear discriminants: log of the shares of Gaussian classes.

    The classes have one covariance, that of the samples around their class means plus ``ridge`` times its typical
    variance. A class without samples has an intercept of -infinity. On each of the ``levels``, the finest first, the
    mean of a class moves by the share ``pull`` towards the mean of the classes in its node.
    """
    sizes = np.bincount(y, minlength=n_classes)
    means = (indicator(y, n_classes).T @ Z) / np.maximum(sizes, 1)[:, None]
    within = (Z - means[y]).astype(np.float64)
    covariance = within.T @ within / len(y)
    square, trace = float(np.sum(covariance * covariance)), float(np.trace(covariance))
    covariance[np.diag_indices(len(covariance))] += ridge * square / trace if square > 0 else 1.0
    for of in reversed(levels):
        members = indicator(of, int(of.max()) + 1).T * (sizes > 0)
        of_node = (members @ means) / np.maximum(members.sum(axis=1), 1)[:, None]
        means = (1 - pull) * means + pull * of_node[of]
    coef = cho_solve(cho_factor(covariance, overwrite_a=True), means.T)
    prior = np.log(np.maximum(sizes, 1) / len(y))
    intercept = np.where(sizes > 0, prior - 0.5 * np.einsum("rj,jr->r", means, coef), -np.inf)
    return coef, intercept


def _folds(y: NDArray[np.integer], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the fold of each sample; the samples of a class are spread evenly, in random order."""
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(y), dtype=np.int64)
    fold[order] = np.arange(len(y)) % _FOLDS
    return fold
