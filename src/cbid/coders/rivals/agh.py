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
from sklearn.utils.validation import validate_data

from cbid.checks import check_choice, check_integer, check_real
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS, generator
from cbid.coders.prefix import PrefixMixin
from cbid.coders.shapes import check_arrays
from cbid.learning.variation import check_varies

__all__ = ["AnchorGraphHashing"]

Array = NDArray[np.float64]
_SHORT = 1e-4  # a share of the value, well above the rounding of float32


class AnchorGraphHashing(PrefixMixin, Coder):
    """Eigenvectors of a graph in which samples meet at anchors (Liu, Wang, Kumar and Chang, ICML 2011).

    Z (n, m) holds the similarities of samples to their few nearest anchors, rows summing to 1. The graph's adjacency
    is A = Z diag(1'Z)^-1 Z', so that its eigenvectors come from an m x m matrix and are functions of x through its
    row of Z. One layer takes their signs. Two layers cut both sides of every eigenvector once more, at thresholds for
    which the bit varies least over the graph, and take two bits from each of half as many eigenvectors: bit 2k is the
    k-th eigenvector's sign, bit 2k + 1 its second cut. Every prefix is the code of that length.

    Parameters
    ----------
    n_bits : int
        At most the number of anchors less one, times the layers.
    n_layers : {2, 1}
    n_anchors : int
        k-means centres (the paper's 300); fewer where there are fewer distinct samples.
    n_nearest : int
        Nearest anchors of a sample: 5, as C-BID's paper has it.
    sigma : float > 0 or None
        Similarities are exp(-||x - a||^2 / sigma^2). None: the mean distance to the furthest of the nearest anchors.
    n_iter : int
        Rounds of k-means.
    random_state : int, RandomState or None
        For k-means.

    Attributes
    ----------
    anchors_ : (m, d)
    coef_ : (e, m)
        Eigenvector k of a sample is its row of Z times row k.
    thresholds_ : (e, 2)
        Second cuts of the positive and the negative side (zeros with one layer).
    sigma_, n_layers_, n_nearest_ : float, int, int
        As they were used.
    """

    _ARRAYS = frozenset({"anchors_", "coef_", "thresholds_"})
    _VALUES = Coder._VALUES | {"sigma_", "n_layers_", "n_nearest_"}
    anchors_: Array
    coef_: Array
    thresholds_: Array
    sigma_: float
    n_layers_: int
    n_nearest_: int

    def __init__(
        self,
        *,
        n_bits: int = 64,
        n_layers: int = 2,
        n_anchors: int = 300,
        n_nearest: int = 5,
        sigma: float | None = None,
        n_iter: int = 20,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_layers = n_layers
        self.n_anchors = n_anchors
        self.n_nearest = n_nearest
        self.sigma = sigma
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from vectors X (n, d); y is not used."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        check_choice("n_layers", self.n_layers, (1, 2))
        check_integer("n_anchors", self.n_anchors, 2)
        check_integer("n_nearest", self.n_nearest, 1)
        check_integer("n_iter", self.n_iter, 1)
        if self.sigma is not None:
            check_real("sigma", self.sigma, 0, open_below=True)
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_varies(samples)
        seed = int(generator(self.random_state).integers(2**31))
        anchors = _find_anchors(samples, self.n_anchors, self.n_iter, seed)
        squares, nearest = _nearest_anchors(samples, anchors, self.n_nearest)
        sigma = float(self.sigma or np.sqrt(squares[:, -1]).mean() or 1.0)
        Z = _similarities(squares, nearest, len(anchors), sigma)
        coef = _eigenvectors(Z, -(-self.n_bits // self.n_layers))
        if self.n_layers * len(coef) < self.n_bits:
            raise ValueError(
                f"n_bits={self.n_bits}: the graph of {len(anchors)} anchors has {len(coef)} "
                f"eigenvectors (n_samples={len(samples)}, n_features={samples.shape[1]}), {self.n_layers} bits each: "
                f"give at most {self.n_layers * len(coef)}"
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
    """Centres of k-means, in float64, no two the same."""
    with warnings.catch_warnings():
        # Fewer distinct samples than anchors asked for: k-means then leaves copies.
        warnings.simplefilter("ignore", ConvergenceWarning)
        means = KMeans(min(count, len(X)), n_init=1, max_iter=n_iter, random_state=seed).fit(X)
    return np.unique(means.cluster_centers_.astype(np.float64), axis=0)


def _nearest_anchors(X: NDArray[np.floating], anchors: Array, count: int) -> tuple[Array, NDArray[np.intp]]:
    """Squared distances to the ``count`` nearest anchors and their numbers, (n, s) each, the nearest first."""
    s = min(count, len(anchors))
    centre = anchors.mean(axis=0)  # around which distances have their digits
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
    """Z (n, m), sparse, from squared distances to the nearest of m anchors."""
    # Less the smallest, which the normalisation takes out again: a sample far from all anchors keeps its digits.
    weights = np.exp(-(squares - squares[:, :1]) / sigma**2)
    weights /= weights.sum(axis=1, keepdims=True)
    n, s = nearest.shape
    return csr_matrix((weights.ravel(), nearest.ravel(), np.arange(0, n * s + 1, s)), shape=(n, m))


def _eigenvectors(Z: csr_matrix, count: int) -> Array:
    """Coefficients (<= count, m): Z times a row is an eigenvector of A, of mean square 1, without the constant one.

    A's eigenvectors are those of M = L^-1/2 Z'Z L^-1/2, L = diag(1'Z), brought to samples. The constant belongs to
    L^1/2 1 with eigenvalue 1, and is taken out beforehand: where the graph falls into parts, the others with
    eigenvalue 1 tell the parts from each other. Eigenvectors without weight in the graph are left out.
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
    coef = np.sqrt(Z.shape[0] / values)[:, None] * (root[:, None] * vectors).T
    largest = np.take_along_axis(coef, np.abs(coef).argmax(axis=1)[:, None], axis=1)
    return coef * np.where(largest < 0, -1.0, 1.0)


def _second_cuts(Z: csr_matrix, y: Array) -> tuple[float, float]:
    """Thresholds b+ and b- of the two sides of an eigenvector y (n,).

    The second bit is the sign of f = y - b+ where y >= 0 and b- - y elsewhere. Of all pairs that balance it, sum f =
    0, the one with the smallest f'(I - A)f: with b+ given by b-, f = p + b- q is on a line and f'(I - A)f a parabola.
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
    # Where the two sides share no anchor the parabola is flat, and each side is cut at its own mean.
    flat = curvature <= 1e-12 * float(q @ q)
    below = float(y[~positive].mean()) if flat else -smoothness(q, p) / curvature
    above = (float(size.sum()) + n_negative * below) / n_positive
    if flat:
        # A side that is one part has one value. At its mean, rounding would draw the bit: it is cut short of that.
        above *= 1 - _SHORT * _is_one_value(y[positive])
        below *= 1 - _SHORT * _is_one_value(y[~positive])
    return above, below


def _is_one_value(y: Array) -> bool:
    return float(np.ptp(y)) <= 1e-9 * float(np.abs(y).max())
