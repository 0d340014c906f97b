"""Spectral hashing, and its multidimensional form.

The multidimensional form has eigenfunctions of a Gaussian affinity along single axes, and their products. For samples
of density p along one axis, the operator (K g)(x) = sum_y W(x, y) p(y) g(y) / sum_y W(x, y) p(y) with
W(x, y) = exp(-(x - y)^2 / 2 sigma^2) has the constant as its first eigenfunction, with eigenvalue 1. The others are
smoother the larger their eigenvalues are (Fergus, Weiss and Torralba, NIPS 2009). Over independent axes, the
eigenfunctions and the eigenvalues are products of those of single axes.
"""

from dataclasses import field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from cbid import codes
from cbid.checks import check_choice, check_integer, check_real
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS, generator
from cbid.coders.mixins import PrefixMixin, check_arrays, check_indices
from cbid.coders.rivals.common import Array, Seed, check_most_bits, check_vectors
from cbid.coders.rivals.lsh import neighbour_distance
from cbid.learning.axes import parts, principal_axes
from cbid.params import estimator, flag, integer, param, positive


@estimator
class SpectralHashing(PrefixMixin, Coder):
    """Signs of Laplacian eigenfunctions of a box around the data (Weiss, Torralba and Fergus, NIPS 2008).

    The method assumes samples uniform in the box that their ranges along the principal axes span. Along axis j, with
    range R_j, the eigenfunctions are cos(m pi (x_j - low_j) / R_j), m = 1, 2, ..., with eigenvalues that grow with
    m / R_j. Over all axes, those with the smallest eigenvalues give the bits, so any number of bits is possible. As
    many axes as bits are considered, as in the paper. Every prefix is the code of the first eigenfunctions.

    Parameters
    ----------
    n_bits : int, default=64

    Attributes
    ----------
    axes_ : (c, d)
        Principal axes.
    low_, range_ : (c,)
        Smallest projection of a training sample (around ``mean_``) and the width of the box, along each axis.
    axis_, mode_ : (n_bits_,)
        The axis of each bit, and the number of half periods in the box.
    """

    _ARRAYS = frozenset({"mean_", "axes_", "low_", "range_", "axis_", "mode_"})
    _BY_BIT = ("axis_", "mode_")

    n_bits: int = param(64, integer(1, MOST_BITS))

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from vectors X (n, d); y is ignored."""
        samples = check_vectors(self, X)
        mean, axes = principal_axes(samples, self.n_bits)
        slices = parts(len(samples))
        ends = [(p.min(axis=0), p.max(axis=0)) for p in ((samples[part] - mean) @ axes.vectors.T for part in slices)]
        low = np.min([least for least, _ in ends], axis=0)
        self.mean_, self.axes_, self.low_ = mean, axes.vectors, low
        self.range_ = np.max([most for _, most in ends], axis=0) - low
        self.axis_, self.mode_ = smoothest_modes(self.range_, self.n_bits)
        self.n_bits_ = self.n_bits
        return self

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        used, place = np.unique(self.axis_, return_inverse=True)
        P = (X - self.mean_.astype(X.dtype)) @ self.axes_[used].T.astype(X.dtype) - self.low_[used].astype(X.dtype)
        return np.cos(P[:, place] * (np.pi * self.mode_ / self.range_[self.axis_]).astype(X.dtype))

    def _check_state(self) -> None:
        check_integer("n_bits_", self.n_bits_, 1, MOST_BITS)
        t, c, d = self.n_bits_, len(self.axes_), self.n_features_in_
        check_arrays(self, {"mean_": (d,), "axes_": (c, d), "low_": (c,), "range_": (c,)})
        check_indices(self, "axis_", (t,), below=c)
        check_indices(self, "mode_", (t,), below=MOST_BITS + 1, least=1)
        if not (self.range_ > 0).all():
            raise ValueError("range_: expected values above 0")


def smoothest_modes(ranges: NDArray[np.float64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return axis and mode, (count,) each, of the eigenfunctions with the smallest m / R_j, smallest first.

    The widest axis alone has ``count`` of them up to the frequency count / R_max, so none above it is needed.
    """
    most = np.ceil(count * ranges / ranges.max()).astype(np.int64)
    axis = np.repeat(np.arange(len(ranges)), most)
    mode = np.concatenate([np.arange(1, m + 1) for m in most])
    order = np.lexsort((axis, mode / ranges[axis]))[:count]
    return axis[order], mode[order]


BINS = 50
_PSEUDO = 0.1  # share of the mass distributed evenly, so that no part of the grid is empty

_OUTLIERS = 2.5  # per cent, at either end of an axis
_NEIGHBOUR = 50
_AXES_PER_BATCH = 64


@estimator
class MultidimensionalSpectralHashing(PrefixMixin, Coder):
    """Codes that approximate the affinity exp(-||x - y||^2 / 2 sigma^2) (Weiss, Fergus and Torralba, ECCV 2012).

    Bits are signs h of the eigenfunctions with the largest eigenvalues w. The affinity of two codes is the sum of
    w_s h_s h'_s, so the weighted Hamming distance with ``weights_`` ranks by affinity. There are too many products of
    eigenfunctions to store. So, as in the paper, bits are functions of single axes, and the affinity over all their
    products is

        product over axes of (1 + sum over the bits of the axis of w_s h_s h'_s) - 1,

    which ``affinity`` computes from codes. As many principal axes as bits are used, cut at the 2.5th and 97.5th
    percentile, with a grid of 50 bins each. Every prefix is the code of the first eigenfunctions.

    Parameters
    ----------
    n_bits : int, default=64
        At most 49 per axis along which X varies; with ``outer``, many more.
    sigma : float > 0 or None, default=None
        Width of the affinity. None: the mean distance of a sample to its 50th nearest neighbour.
    outer : bool, default=False
        False: bits are functions of single axes, as in the paper. True: products are bits too, and the weighted
        Hamming distance is the complete affinity.
    random_state : int, RandomState or None, default=0
        Seed of the samples whose distances give sigma.

    Attributes
    ----------
    sigma_ : float
    weights_ : (n_bits_,)
        Eigenvalues, descending, without the constant's eigenvalue 1.
    """

    _ARRAYS = frozenset({"mean_", "axes_", "low_", "high_", "functions_", "axis_", "factors_", "weights_"})
    _VALUES = Coder._VALUES | {"sigma_", "outer_"}
    _BY_BIT = ("factors_", "weights_")

    n_bits: int = param(64, integer(1, MOST_BITS))
    sigma: float | None = param(None, positive)
    outer: bool = param(False, flag)
    random_state: Seed = 0

    factors_: NDArray[np.int64] = field(init=False)

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from vectors X (n, d); y is ignored."""
        samples = check_vectors(self, X)
        mean, axes = principal_axes(samples, min(self.n_bits, samples.shape[1]))
        sigma = self.sigma or neighbour_distance(samples, _NEIGHBOUR, name="sigma", rng=generator(self.random_state))
        low, high, density = _along_axes(samples, mean, axes.vectors)
        values, functions = grid_eigenfunctions(density, (high - low) / BINS, sigma)
        # The functions of each bit, as indices axis * (BINS - 1) + j, and the eigenvalues of the bits.
        if self.outer:
            factors, weights = best_products(values, self.n_bits)
        else:
            order = np.argsort(-values.ravel(), kind="stable")[: self.n_bits]
            factors, weights = order[:, None], values.ravel()[order]
        n, d = samples.shape
        reason = f"X (n_samples={n}, n_features={d}) varies along {len(low)} axes, with {len(weights)} functions"
        check_most_bits(self.n_bits, len(weights), reason)
        used, place = np.unique(factors[factors >= 0], return_inverse=True)
        self.factors_ = np.full(factors.shape, -1, dtype=np.int64)
        self.factors_[factors >= 0] = place
        axis, function = np.divmod(used, BINS - 1)
        kept, self.axis_ = np.unique(axis, return_inverse=True)
        self.functions_ = functions[axis, function]
        self.mean_, self.axes_, self.low_, self.high_ = mean, axes.vectors[kept], low[kept], high[kept]
        self.weights_, self.sigma_, self.outer_ = weights, float(sigma), bool(self.outer)
        self.n_bits_ = self.n_bits
        return self

    def affinity(self, a: NDArray[np.uint8], b: NDArray[np.uint8]) -> Array:
        """Return the affinity of every code of ``a`` to every code of ``b``, (n_a, n_b), at least -1; large is near.

        With ``outer=False`` it sums over all products of the bits' eigenfunctions along different axes.
        """
        check_is_fitted(self)
        left, right = (codes.unpack(codes.check_codes(c, self.n_bits_), self.n_bits_) for c in (a, b))
        if self.outer_:
            return (left * self.weights_) @ right.T.astype(np.float64)
        axis = self.axis_[self.factors_[:, 0]]
        product = np.ones((len(left), len(right)))
        for j in np.unique(axis):
            product *= 1 + (left[:, axis == j] * self.weights_[axis == j]) @ right[:, axis == j].T.astype(np.float64)
        return product - 1

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        P = ((X - self.mean_.astype(X.dtype)) @ self.axes_.T.astype(X.dtype)).astype(np.float64)
        values = interpolate(P[:, self.axis_], self.low_[self.axis_], self.high_[self.axis_], self.functions_)
        padded = np.hstack([values, np.ones((len(X), 1))])  # factor index -1 is the last column
        return np.prod(padded[:, self.factors_], axis=2).astype(X.dtype)

    def _width(self) -> int:
        return max(super()._width(), 4 * len(self.functions_), self.factors_.size)

    def _check_state(self) -> None:
        check_integer("n_bits_", self.n_bits_, 1, MOST_BITS)
        t, c, m, d = self.n_bits_, len(self.axes_), len(self.functions_), self.n_features_in_
        check_arrays(
            self,
            {"mean_": (d,), "axes_": (c, d), "low_": (c,), "high_": (c,), "functions_": (m, BINS), "weights_": (t,)},
        )
        check_indices(self, "axis_", (m,), below=c)
        check_indices(self, "factors_", (t, max(1, self.factors_.shape[-1])), below=m, least=-1)
        check_real("sigma_", self.sigma_, 0, open_below=True)
        check_choice("outer_", self.outer_, (True, False) if self.factors_.shape[1] == 1 else (True,))
        if not (self.high_ > self.low_).all() or (self.weights_ < 0).any():
            raise ValueError("high_, weights_: expected axes of positive width and weights of at least 0")


def _along_axes(X: NDArray[np.floating], mean: Array, axes: Array) -> tuple[Array, Array, Array]:
    """Return the ends of each axis, (c,) and (c,), and the density of its samples on the grid, (c, BINS)."""
    lows, highs, densities = [], [], []
    for start in range(0, len(axes), _AXES_PER_BATCH):
        W = axes[start : start + _AXES_PER_BATCH].T
        P = np.concatenate([(X[part] - mean) @ W for part in parts(len(X))])
        low, high = np.percentile(P, [_OUTLIERS, 100 - _OUTLIERS], axis=0)
        # If nearly all samples share one value, use the full range instead.
        flat = high <= low
        low[flat], high[flat] = P[:, flat].min(axis=0), P[:, flat].max(axis=0)
        lows.append(low)
        highs.append(high)
        densities.append(histograms(P, low, high))
    return np.concatenate(lows), np.concatenate(highs), np.concatenate(densities)


def histograms(P: Array, low: Array, high: Array) -> Array:
    """Return the density (c, BINS) of the columns of P (n, c); values outside low..high fall in the end bins."""
    n, c = P.shape
    bins = np.clip(((P - low) / (high - low) * BINS).astype(np.int64), 0, BINS - 1)
    counts = np.bincount((bins + np.arange(c) * BINS).ravel(), minlength=c * BINS).reshape(c, BINS)
    return (1 - _PSEUDO) * counts / n + _PSEUDO / BINS


def grid_eigenfunctions(density: Array, step: Array, sigma: float) -> tuple[Array, Array]:
    """Return eigenvalues (c, BINS - 1), descending, and eigenfunctions (c, BINS - 1, BINS) without the constant.

    density : (c, BINS). ``step`` (c,) is the width of a bin. Eigenfunctions have mean square 1 under the measure of
    the operator, p(x) sum_y W(x, y) p(y).
    """
    place = np.arange(BINS)
    W = np.exp(-0.5 * ((place[:, None] - place) * (step / sigma)[:, None, None]) ** 2)  # (c, BINS, BINS)
    degree = np.einsum("cij,cj->ci", W, density)
    root = np.sqrt(density / degree)
    values, vectors = np.linalg.eigh(root[:, :, None] * W * root[:, None, :])
    measure = density * degree
    functions = np.swapaxes(vectors, 1, 2) / np.sqrt(measure / measure.sum(axis=1, keepdims=True))[:, None, :]
    # Ascending, the constant last. The smallest may be slightly negative through rounding.
    return np.clip(values[:, -2::-1], 0, 1), functions[:, -2::-1]


def interpolate(x: Array, low: Array, high: Array, functions: Array) -> Array:
    """Return the values (n, m) at x (n, m) of function j: row j of ``functions``, on the grid of low_j..high_j."""
    place = np.clip((x - low) / (high - low) * BINS - 0.5, 0, BINS - 1)
    left = np.minimum(place.astype(np.int64), BINS - 2)
    share = place - left
    column = np.arange(len(functions))
    return functions[column, left] * (1 - share) + functions[column, left + 1] * share


def best_products(values: Array, count: int) -> tuple[NDArray[np.int64], Array]:
    """Return the ``count`` largest products of eigenvalues of different axes.

    values : (c, k) in [0, 1], descending. Returns (count, order), where each row holds the indices axis * k + j of
    the functions of a product, padded with -1, and the products (count,), descending. Dropping a factor never makes a
    product smaller, so it is exact to go axis by axis and keep the best.
    """
    k = values.shape[1]
    products, chosen = np.ones(1), np.zeros((1, 0), dtype=np.int64)
    for axis in np.argsort(-values[:, 0], kind="stable"):
        if len(products) > count and values[axis, 0] <= products[-1]:
            break  # no later axis can contribute
        grown = np.concatenate([products, np.outer(products, values[axis]).ravel()])
        order = np.argsort(-grown, kind="stable")[: count + 1]
        new = order >= len(products)
        before = np.where(new, (order - len(products)) // k, order)
        factor = np.where(new, axis * k + (order - len(products)) % k, -1)
        products, chosen = grown[order], np.hstack([chosen[before], factor[:, None]])
    chosen = -np.sort(-chosen[1:], axis=1)  # drop the constant; padding last
    return chosen[:, : max(1, int((chosen >= 0).sum(axis=1).max(initial=1)))], products[1:]
