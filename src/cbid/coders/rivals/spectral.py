"""Spectral hashing."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_integer
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS
from cbid.coders.mixins import PrefixMixin, check_arrays, check_indices
from cbid.coders.rivals.common import check_vectors
from cbid.learning.axes import parts, principal_axes
from cbid.params import estimator, integer, param

__all__ = ["SpectralHashing"]


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
