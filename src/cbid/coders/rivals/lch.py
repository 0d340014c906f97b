"""Laplacian co-hashing of samples and features."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_integer
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS
from cbid.coders.mixins import PrefixMixin, check_arrays
from cbid.coders.rivals.common import Array, check_most_bits, check_vectors
from cbid.learning.axes import leading_axes, parts
from cbid.learning.scaling import check_varies
from cbid.params import estimator, integer, param

__all__ = ["LaplacianCoHashing"]


@estimator
class LaplacianCoHashing(PrefixMixin, Coder):
    """Samples and features hashed together as a bipartite graph (Zhang, Wang, Cai and Lu, ECIR 2010).

    An edge joins a sample to each of its features; its weight is the value of the feature. The smoothest functions
    over this graph are the singular vectors of D^-1/2 A E^-1/2, where A holds the edges and D and E the sums of its
    rows and columns. The first, constant one is dropped; each of the next is cut at its median over the training
    samples. The value of a sample, training or new, is the mean of its features' values, weighted by its edges. Every
    prefix is the code of that length.

    Edges cannot be negative. If X has negative values, each feature becomes two, one per sign. If no training sample
    has any, negative values of later samples count as zero.

    Parameters
    ----------
    n_bits : int, default=64
        Less than the rank of A.

    Attributes
    ----------
    terms_ : (n_bits_, d) or (n_bits_, 2 d)
        The features' values at each bit, first of the positive, then of the negative signs.
    threshold_ : (n_bits_,)
    """

    _ARRAYS = frozenset({"terms_", "threshold_"})
    _BY_BIT = ("terms_", "threshold_")

    n_bits: int = param(64, integer(1, MOST_BITS))

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from vectors X (n, d); y is ignored."""
        samples = check_vectors(self, X)
        check_varies(samples)
        n = len(samples)
        signed = bool((samples < 0).any())
        slices = parts(n)
        columns = np.sum([_edges(samples[part], signed).sum(axis=0) for part in slices], axis=0)
        total = columns.sum()
        root = np.where(columns > 0, 1 / np.sqrt(np.maximum(columns, np.finfo(float).tiny)), 0.0)
        constant = np.sqrt(columns / total) if total > 0 else columns

        def rows(part: slice) -> Array:
            A = _edges(samples[part], signed)
            degree = A.sum(axis=1)
            scaled = A * root / np.sqrt(np.where(degree > 0, degree, 1.0))[:, None]
            return scaled - np.outer(scaled @ constant, constant)  # remove the constant function

        axes = leading_axes(rows, n, len(columns), self.n_bits)
        found = len(axes.lengths)
        reason = f"the graph of n_samples={n} and n_features={samples.shape[1]} has {found} functions not constant"
        check_most_bits(self.n_bits, found, reason)
        terms = axes.vectors * root / axes.lengths[:, None]
        values = np.concatenate([_shares(samples[part], signed) @ terms.T for part in slices])
        self.terms_, self.threshold_, self.n_bits_ = terms, np.median(values, axis=0), self.n_bits
        return self

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        signed = self.terms_.shape[1] > self.n_features_in_
        return (_shares(X, signed) @ self.terms_.T - self.threshold_).astype(X.dtype)

    def _width(self) -> int:
        return max(super()._width(), 2 * self.terms_.shape[1])

    def _check_state(self) -> None:
        check_integer("n_bits_", self.n_bits_, 1, MOST_BITS)
        d = self.n_features_in_
        width = 2 * d if self.terms_.shape[-1] == 2 * d else d
        check_arrays(self, {"terms_": (self.n_bits_, width), "threshold_": (self.n_bits_,)})


def _edges(X: NDArray[np.floating], signed: bool) -> Array:
    """Return A, (n, d), or (n, 2 d) with the magnitudes of negative values in the second half."""
    positive = np.maximum(X, 0).astype(np.float64)
    return np.hstack([positive, np.maximum(-X, 0)]) if signed else positive


def _shares(X: NDArray[np.floating], signed: bool) -> Array:
    """Return the edges of each sample divided by their sum; zeros for a sample without edges."""
    A = _edges(X, signed)
    degree = A.sum(axis=1, keepdims=True)
    return A / np.where(degree > 0, degree, 1.0)
