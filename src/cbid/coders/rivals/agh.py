"""Anchor-graph hashing."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances

from cbid.checks import check_choice, check_integer, check_real
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS, generator
from cbid.coders.mixins import PrefixMixin, check_arrays
from cbid.coders.rivals.common import Array, Seed, check_most_bits, check_vectors, fix_signs
from cbid.params import choice, estimator, integer, param, positive

_SHRINK = 1e-4  # relative; well above the rounding of float32


@estimator
class AnchorGraphHashing(PrefixMixin, Coder):
    """Signs of the eigenvectors of an anchor graph (Liu, Wang, Kumar and Chang, ICML 2011).

    Z (n, m) holds the similarities of each sample to its nearest anchors; its rows sum to 1. The adjacency of the
    graph is A = Z diag(1'Z)^-1 Z'. Its eigenvectors come from an m x m matrix and are functions of x through its row
    of Z. One layer takes their signs. Two layers take two bits from each of half as many eigenvectors: bit 2k is the
    sign of eigenvector k, and bit 2k + 1 cuts both of its sides again, at the thresholds for which the bit varies
    least over the graph. Every prefix is the code of that length.

    Parameters
    ----------
    n_bits : int, default=64
        At most (number of anchors - 1) x ``n_layers``.
    n_layers : {2, 1}, default=2
    n_anchors : int, default=300
        Number of k-means centres (300 in the paper). Fewer if X has fewer distinct samples.
    n_nearest : int, default=5
        Nearest anchors of a sample (5 in the comparison of the C-BID paper).
    sigma : float > 0 or None, default=None
        Similarities are exp(-||x - a||^2 / sigma^2). None: the mean distance to the furthest of the nearest anchors.
    n_iter : int, default=20
        Iterations of k-means.
    random_state : int, RandomState or None, default=0
        Seed of k-means.

    Attributes
    ----------
    anchors_ : (m, d)
    coef_ : (e, m)
        Eigenvector k of a sample is its row of Z times row k.
    thresholds_ : (e, 2)
        Second cuts of the positive and the negative side; zeros with one layer.
    sigma_, n_layers_, n_nearest_ : float, int, int
        The values used.
    """

    _ARRAYS = frozenset({"anchors_", "coef_", "thresholds_"})
    _VALUES = Coder._VALUES | {"sigma_", "n_layers_", "n_nearest_"}

    n_bits: int = param(64, integer(1, MOST_BITS))
    n_layers: int = param(2, choice(1, 2))
    n_anchors: int = param(300, integer(2))
    n_nearest: int = param(5, integer(1))
    sigma: float | None = param(None, positive)
    n_iter: int = param(20, integer(1))
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from vectors X (n, d); y is ignored."""
        samples = check_vectors(self, X, varied=True)
        seed = int(generator(self.random_state).integers(2**31))
        anchors = _find_anchors(samples, self.n_anchors, self.n_iter, seed)
        squares, nearest = _nearest_anchors(samples, anchors, self.n_nearest)
        sigma = float(self.sigma or np.sqrt(squares[:, -1]).mean() or 1.0)
        Z = _similarities(squares, nearest, len(anchors), sigma)
        coef = _eigenvectors(Z, -(-self.n_bits // self.n_layers))
        check_most_bits(
            self.n_bits,
            self.n_layers * len(coef),
            f"the graph of {len(anchors)} anchors has {len(coef)} eigenvectors (n_samples={len(samples)}, "
            f"n_features={samples.shape[1]}) and each gives {self.n_layers} bits",
        )
        self.anchors_, self.coef_, self.sigma_ = anchors, coef, sigma
        self.n_layers_, self.n_nearest_, self.n_bits_ = self.n_layers, self.n_nearest, self.n_bits
        self.thresholds_ = np.zeros((len(coef), 2))
        if self.n_layers == 2:
            self.thresholds_ = np.array([_second_cuts(Z, values) for values in (Z @ coef.T).T])
        return self

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        near = _nearest_anchors(X, self.anchors_, self.n_nearest_)
        first = (_similarities(*near, len(self.anchors_), self.sigma_) @ self.coef_.T).astype(X.dtype)
        if self.n_layers_ == 1:
            return first
        above, below = self.thresholds_.T.astype(X.dtype)
        second = np.where(first >= 0, first - above, below - first)
        return np.stack([first, second], axis=2).reshape(len(X), -1)[:, : self.n_bits_]

    def _first_bits(self, n_bits: int) -> dict[str, Any]:
        kept = -(-n_bits // self.n_layers_)
        return {"coef_": self.coef_[:kept], "thresholds_": self.thresholds_[:kept]}

    def _width(self) -> int:
        return max(super()._width(), len(self.anchors_))

    def _check_state(self) -> None:
        check_integer("n_bits_", self.n_bits_, 1, MOST_BITS)
        check_choice("n_layers_", self.n_layers_, (1, 2))
        check_integer("n_nearest_", self.n_nearest_, 1)
        check_real("sigma_", self.sigma_, 0, open_below=True)
        m, e = len(self.anchors_), -(-self.n_bits_ // self.n_layers_)
        check_arrays(self, {"anchors_": (m, self.n_features_in_), "coef_": (e, m), "thresholds_": (e, 2)})


def _find_anchors(X: NDArray[np.floating], count: int, n_iter: int, seed: int) -> Array:
    """Return the distinct centres of k-means in float64."""
    with warnings.catch_warnings():
        # With fewer distinct samples than anchors, k-means warns and returns copies.
        warnings.simplefilter("ignore", ConvergenceWarning)
        means = KMeans(min(count, len(X)), n_init=1, max_iter=n_iter, random_state=seed).fit(X)
    return np.unique(means.cluster_centers_.astype(np.float64), axis=0)


def _nearest_anchors(X: NDArray[np.floating], anchors: Array, count: int) -> tuple[Array, NDArray[np.intp]]:
    """Return squared distances to the ``count`` nearest anchors and their indices, (n, s) each, nearest first."""
    s = min(count, len(anchors))
    centre = anchors.mean(axis=0)  # distances lose fewest digits around the mean
    found = []
    step = max(1, 2**23 // max(len(anchors), X.shape[1]))
    for start in range(0, len(X), step):
        D = euclidean_distances(X[start : start + step] - centre, anchors - centre, squared=True)
        near = np.argpartition(D, s - 1, axis=1)[:, :s]
        squares = np.take_along_axis(D, near, axis=1)
        order = np.lexsort((near, squares), axis=1)
        found.append((np.take_along_axis(squares, order, axis=1), np.take_along_axis(near, order, axis=1)))
    return np.concatenate([squares for squares, _ in found]), np.concatenate([near for _, near in found])


def _similarities(squares: Array, nearest: NDArray[np.intp], m: int, sigma: float) -> csr_matrix:
    """Return the sparse Z (n, m) from squared distances to the nearest of m anchors."""
    # Subtracting the smallest cancels in the normalisation and avoids underflow far from all anchors.
    weights = np.exp(-(squares - squares[:, :1]) / sigma**2)
    weights /= weights.sum(axis=1, keepdims=True)
    n, s = nearest.shape
    return csr_matrix((weights.ravel(), nearest.ravel(), np.arange(0, n * s + 1, s)), shape=(n, m))


def _eigenvectors(Z: csr_matrix, count: int) -> Array:
    """Return coefficients (<= count, m): Z times a row is a non-constant eigenvector of A with mean square 1.

    The eigenvectors of A are those of M = L^-1/2 Z'Z L^-1/2, L = diag(1'Z), mapped to samples. The constant one
    corresponds to L^1/2 1 with eigenvalue 1 and is removed first: if the graph is disconnected, the other
    eigenvectors with eigenvalue 1 separate its components. Eigenvectors with eigenvalue 0 are dropped.
    """
    degree = np.asarray(Z.sum(axis=0)).ravel()
    root = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, np.finfo(float).tiny)), 0.0)
    M = root[:, None] * (Z.T @ Z).toarray() * root
    constant = np.sqrt(degree / degree.sum())
    M -= np.outer(constant, constant)
    m = len(M)
    values, vectors = eigh(M, subset_by_index=[max(0, m - count), m - 1])
    kept = values > 1e-10
    values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
    return fix_signs(np.sqrt(Z.shape[0] / values)[:, None] * (root[:, None] * vectors).T, axis=1)


def _second_cuts(Z: csr_matrix, y: Array) -> tuple[float, float]:
    """Return thresholds b+ and b- for the two sides of an eigenvector y (n,).

    The second bit is the sign of f = y - b+ if y >= 0 and b- - y otherwise. Among the pairs with sum f = 0, choose
    the one with the smallest f'(I - A)f. As b+ follows from b-, f = p + b- q and f'(I - A)f is a parabola in b-.
    """
    positive = y >= 0
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if n_positive == 0 or n_negative == 0:
        return 0.0, 0.0
    size = np.abs(y)
    p = np.where(positive, size - size.sum() / n_positive, size)
    q = np.where(positive, -n_negative / n_positive, 1.0)
    degree = np.asarray(Z.sum(axis=0)).ravel()

    def smoothness(a: Array, b: Array) -> float:
        used = degree > 0
        return float(a @ b - ((Z.T @ a)[used] / degree[used]) @ (Z.T @ b)[used])

    curvature = smoothness(q, q)
    # If the two sides share no anchor, the parabola is flat; cut each side at its own mean.
    flat = curvature <= 1e-12 * float(q @ q)
    below = float(y[~positive].mean()) if flat else -smoothness(q, p) / curvature
    above = (float(size.sum()) + n_negative * below) / n_positive
    if flat:
        # A side with one value would be cut by rounding errors at its mean: shrink the threshold a little.
        above *= 1 - _SHRINK * _is_constant(y[positive])
        below *= 1 - _SHRINK * _is_constant(y[~positive])
    return above, below


def _is_constant(y: Array) -> bool:
    return float(np.ptp(y)) <= 1e-9 * float(np.abs(y).max())
