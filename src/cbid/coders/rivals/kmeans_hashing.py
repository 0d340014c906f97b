"""K-means hashing."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.validation import validate_data

from cbid.checks import check_integer, check_real
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS
from cbid.coders.rivals.affinity_kmeans import affinity_kmeans, corner_bits
from cbid.coders.shapes import check_arrays, check_indices
from cbid.learning.axes import check_enough_axes, parts, principal_axes

__all__ = ["KMeansHashing"]

Array = NDArray[np.float64]
_MOST_AXES = 1024  # unless there are more bits; what lies along further axes is left out


class KMeansHashing(Coder):
    """Numbers of the nearest k-means centres, learned so that Hamming distance fits (He, Wen and Sun, CVPR 2013).

    The principal axes are dealt out to subspaces of equal volume. In each, 2^b centres are learned by k-means that
    also wants them to lie to each other as the corners of a cube do; a sample's b bits are the number of its nearest
    centre. Bits of one subspace belong together: a prefix is no code of its own.

    Parameters
    ----------
    n_bits : int
        At most the number of axes along which X varies.
    bits_per_subspace : int, 1 to 8
        b: 4 as in the paper's experiments (8 is slower, and a little better on some data). The last subspace has
        fewer when n_bits is no multiple of it.
    lam : float >= 0
        Weight of the Hamming distances' fit against the quantisation error (the paper's 10).
    n_iter : int
        Rounds of k-means (the authors' 50).

    Attributes
    ----------
    axes_ : (c, d)
        Principal axes, subspace after subspace.
    subspace_ : (c,)
        Number of each axis' subspace.
    centres_ : (sum of 2^b over subspaces, most axes of a subspace)
        Centres of all subspaces, one after the other, padded with zeros.
    """

    _ARRAYS = frozenset({"mean_", "axes_", "subspace_", "centres_"})
    _VALUES = Coder._VALUES | {"bits_per_subspace_"}
    mean_: Array
    axes_: Array
    subspace_: NDArray[np.int64]
    centres_: Array
    bits_per_subspace_: int

    def __init__(self, *, n_bits: int = 64, bits_per_subspace: int = 4, lam: float = 10.0, n_iter: int = 50) -> None:
        self.n_bits = n_bits
        self.bits_per_subspace = bits_per_subspace
        self.lam = lam
        self.n_iter = n_iter

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from vectors X (n, d); y is not used."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        check_integer("bits_per_subspace", self.bits_per_subspace, 1, 8)
        check_real("lam", self.lam, 0)
        check_integer("n_iter", self.n_iter, 0)
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        mean, axes = principal_axes(samples, max(self.n_bits, _MOST_AXES))
        check_enough_axes(self.n_bits, len(axes.vectors), samples)
        shares = _shares(self.n_bits, self.bits_per_subspace)
        subspace = deal_axes(axes.lengths**2, shares)
        order = np.argsort(subspace, kind="stable")  # within a subspace, descending variance
        vectors, subspace = axes.vectors[order], subspace[order]
        width = int(np.bincount(subspace).max())
        centres = []
        for m, b in enumerate(shares):
            W = vectors[subspace == m].T
            Z = np.concatenate([(samples[part] - mean) @ W for part in parts(len(samples))])
            found, _ = affinity_kmeans(Z, b, lam=self.lam, n_iter=self.n_iter)
            centres.append(np.pad(found, ((0, 0), (0, width - found.shape[1]))))
        self.mean_, self.axes_, self.subspace_ = mean, vectors, subspace
        self.centres_, self.bits_per_subspace_ = np.concatenate(centres), self.bits_per_subspace
        self.n_bits_ = self.n_bits
        return self

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """How much nearer the nearest centre with the bit is than the nearest one without it, in squared distance."""
        Z = (X - self.mean_.astype(X.dtype)) @ self.axes_.T.astype(X.dtype)
        margins, first = [], 0
        for m, b in enumerate(_shares(self.n_bits_, self.bits_per_subspace_)):
            part = Z[:, self.subspace_ == m]
            centres = self.centres_[first : first + 2**b, : part.shape[1]].astype(X.dtype)
            D = euclidean_distances(part, centres, squared=True)
            bits = corner_bits(b).astype(bool)
            margins += [D[:, ~column].min(axis=1) - D[:, column].min(axis=1) for column in bits.T]
            first += 2**b
        return np.stack(margins, axis=1)

    def _width(self) -> int:
        return max(super()._width(), len(self.axes_) + 2**self.bits_per_subspace_)

    def _check_state(self) -> None:
        check_integer("n_bits_", self.n_bits_, 1, MOST_BITS)
        check_integer("bits_per_subspace_", self.bits_per_subspace_, 1, 8)
        shares = _shares(self.n_bits_, self.bits_per_subspace_)
        c, d = len(self.axes_), self.n_features_in_
        check_indices(self, "subspace_", (c,), below=len(shares))
        sizes = np.bincount(self.subspace_, minlength=len(shares))
        check_arrays(
            self,
            {"mean_": (d,), "axes_": (c, d), "centres_": (sum(2**b for b in shares), int(sizes.max()))},
        )
        if not sizes.all():
            raise ValueError("subspace_ leaves out a subspace")


def _shares(n_bits: int, b: int) -> list[int]:
    """Bits of each subspace."""
    return [b] * (n_bits // b) + [n_bits % b] * (n_bits % b > 0)


def deal_axes(variances: Array, shares: list[int]) -> NDArray[np.int64]:
    """Subspace of each axis, (c,), so that all have about the same product of variances for each of their bits.

    Axes come in descending variance, and go to the subspace with the smallest sum of log variances so far among those
    that are not full (Ge, He, Ke and Sun, CVPR 2013). Sizes follow the bits, and are no less than them.
    """
    c, total = len(variances), sum(shares)
    sizes = np.array([c * b // total for b in shares])
    sizes[: c - sizes.sum()] += 1
    logs = np.log(variances)
    logs = logs - logs.min() + 1
    filled, sums = np.zeros(len(shares), dtype=np.int64), np.zeros(len(shares))
    dealt = np.empty(c, dtype=np.int64)
    for axis, value in enumerate(logs):
        m = int(np.where(filled < sizes, sums / shares, np.inf).argmin())
        dealt[axis], filled[m], sums[m] = m, filled[m] + 1, sums[m] + value
    return dealt
