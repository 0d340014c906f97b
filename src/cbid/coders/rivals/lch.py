"""Laplacian co-hashing."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from cbid.checks import check_integer
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS
from cbid.coders.prefix import PrefixMixin
from cbid.coders.shapes import check_arrays
from cbid.learning.axes import leading_axes, parts
from cbid.learning.variation import check_varies

__all__ = ["LaplacianCoHashing"]

Array = NDArray[np.float64]


class LaplacianCoHashing(PrefixMixin, Coder):
    """Samples and features hashed together, as the two sides of one graph (Zhang, Wang, Cai and Lu, ECIR 2010).

    A sample is joined to each of its features by an edge as heavy as the feature's value. The smoothest functions
    over this graph come from the singular vectors of D^-1/2 A E^-1/2, where A holds the edges and D and E the sums of
    its rows and columns. The trivial leading one is left out; each of the next is cut at the median of the training
    samples. A new sample takes the mean of its features' values, weighted by its edges, which for a training sample
    is the same. Every prefix is the code of that length.

    Edges cannot be negative. Where X has negative values, each feature is two, one for either sign; if none of the
    training samples has any, negative values of later samples count as zero.

    Parameters
    ----------
    n_bits : int
        Less than the rank of A.

    Attributes
    ----------
    terms_ : (n_bits_, d) or (n_bits_, 2 d)
        The features' values at each bit; those of negative signs follow the positive ones.
    threshold_ : (n_bits_,)
    """

    _ARRAYS = frozenset({"terms_", "threshold_"})
    _BY_BIT = ("terms_", "threshold_")
    terms_: Array
    threshold_: Array

    def __init__(self, *, n_bits: int = 64) -> None:
        self.n_bits = n_bits

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from vectors X (n, d); y is not used."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
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
            return scaled - np.outer(scaled @ constant, constant)  # the trivial direction is taken out

        axes = leading_axes(rows, n, len(columns), self.n_bits)
        if len(axes.lengths) < self.n_bits:
            raise ValueError(
                f"n_bits={self.n_bits}: the graph of n_samples={n} samples and "
                f"n_features={samples.shape[1]} features has {len(axes.lengths)} functions that are not constant: "
                f"give at most {len(axes.lengths)}"
            )
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
    """A, (n, d), or (n, 2 d) with the sizes of negative values in the second half."""
    positive = np.maximum(X, 0).astype(np.float64)
    return np.hstack([positive, np.maximum(-X, 0)]) if signed else positive


def _shares(X: NDArray[np.floating], signed: bool) -> Array:
    """Edges of each sample as shares of their sum; a sample without any has none."""
    A = _edges(X, signed)
    degree = A.sum(axis=1, keepdims=True)
    return A / np.where(degree > 0, degree, 1.0)
