"""K-means hashing: k-means whose centres are arranged like the corners of a cube, so that their indices are codes.

With 2^b centres c and the share p_i of samples nearest to each, it minimises

    E = mean squared distance of samples to their centres + lam sum_ij p_i p_j (||c_i - c_j|| - scale sqrt(h_ij))^2,

where h_ij is the Hamming distance of the indices i and j (He, Wen and Sun, CVPR 2013, eqs. 3, 4 and 8).
"""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import euclidean_distances

from cbid.checks import check_integer
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS
from cbid.coders.mixins import check_arrays, check_indices
from cbid.coders.rivals.common import Array, check_enough_axes, check_vectors
from cbid.learning.axes import parts, principal_axes
from cbid.params import estimator, integer, param, real

_STEPS = 100  # updates of the centres per assignment of the samples

_MOST_AXES = 1024  # unless there are more bits; further axes are dropped


@estimator
class KMeansHashing(Coder):
    """Indices of the nearest k-means centres, learned so that Hamming distance fits (He, Wen and Sun, CVPR 2013).

    The principal axes are distributed over subspaces of equal volume. In each, k-means learns 2^b centres whose
    distances fit the Hamming distances of their indices. The b bits of a sample are the index of its nearest centre.
    The bits of a subspace belong together, so a prefix is not a valid code.

    Parameters
    ----------
    n_bits : int, default=64
        At most the number of axes along which X varies.
    bits_per_subspace : int, 1 to 8, default=4
        b (4 in the paper's experiments; 8 is slower, and slightly better on some data). The last subspace has fewer
        bits if n_bits is not a multiple of it.
    lam : float >= 0, default=10.0
        Weight of the fit to Hamming distances against the quantisation error (10 in the paper).
    n_iter : int, default=50
        Iterations of k-means (50 in the authors' program).

    Attributes
    ----------
    axes_ : (c, d)
        Principal axes, ordered by subspace.
    subspace_ : (c,)
        Subspace of each axis.
    centres_ : (sum of 2^b over subspaces, most axes of a subspace)
        Centres of all subspaces, ordered by subspace and padded with zeros.
    """

    _ARRAYS = frozenset({"mean_", "axes_", "subspace_", "centres_"})
    _VALUES = Coder._VALUES | {"bits_per_subspace_"}

    n_bits: int = param(64, integer(1, MOST_BITS))
    bits_per_subspace: int = param(4, integer(1, 8))
    lam: float = param(10.0, real(0))
    n_iter: int = param(50, integer(0))

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from vectors X (n, d); y is ignored."""
        samples = check_vectors(self, X)
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
        """Return squared distance to the nearest centre without the bit, less that to the nearest one with it."""
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
            self, {"mean_": (d,), "axes_": (c, d), "centres_": (sum(2**b for b in shares), int(sizes.max()))}
        )
        if not sizes.all():
            raise ValueError(f"subspace_: expected axes in each of {len(shares)} subspaces")


def _shares(n_bits: int, b: int) -> list[int]:
    """Return the number of bits of each subspace."""
    return [b] * (n_bits // b) + [n_bits % b] * (n_bits % b > 0)


def deal_axes(variances: Array, shares: list[int]) -> NDArray[np.int64]:
    """Assign axes to subspaces, (c,), so that all have about the same product of variances per bit.

    In order of descending variance, each axis goes to the subspace with the smallest sum of log variances so far that
    is not full (Ge, He, Ke and Sun, CVPR 2013). The size of a subspace is proportional to its bits, and not smaller.
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


def corner_bits(b: int) -> NDArray[np.int64]:
    """Return the bits (2^b, b) in 0/1 of the indices of all corners, highest bit first."""
    return (np.arange(2**b)[:, None] >> np.arange(b - 1, -1, -1)) & 1


def affinity_kmeans(Z: Array, b: int, *, lam: float, n_iter: int) -> tuple[Array, float]:
    """Return centres (2^b, q) and scale for samples Z (n, q), q >= b, with uncorrelated columns of falling variance.

    The initial centres are the corners of the best-fitting cube in the first b columns. Every iteration assigns
    samples to their nearest centre, then moves the centres. Neither step raises E with the shares p held fixed.
    """
    bits = corner_bits(b)
    half = float(np.abs(Z[:, :b]).mean())
    centres = np.zeros((len(bits), Z.shape[1]))
    centres[:, :b] = half * (2 * bits - 1)
    scale = 2 * half
    wanted = scale * np.sqrt(cdist(bits, bits, "cityblock"))
    for _ in range(n_iter):
        nearest = _nearest(Z, centres)
        counts = np.bincount(nearest, minlength=len(centres))
        members = csr_matrix((np.ones(len(Z)), (nearest, np.arange(len(Z)))), shape=(len(centres), len(Z)))
        used = counts > 0  # a centre without samples stays and does not affect the others
        means = (members @ Z)[used] / counts[used, None]
        centres[used] = move_centres(centres[used], means, counts[used] / len(Z), wanted[np.ix_(used, used)], lam=lam)
    return centres, scale


def move_centres(centres: Array, means: Array, p: Array, wanted: Array, *, lam: float) -> Array:
    """Lower sum_i p_i ||c_i - mean_i||^2 + lam sum_ij p_i p_j (||c_i - c_j|| - wanted_ij)^2 over centres (k, q).

    Each step minimises a quadratic upper bound that is tight at the current centres C': Cauchy-Schwarz bounds the
    cross term of the square, as in multidimensional scaling (SMACOF). The minimum solves (P + 2 lam L) C = P means +
    2 lam B C', with P = diag(p) and L, B the Laplacians of the graphs with weights p_i p_j and
    p_i p_j wanted_ij / ||c'_i - c'_j||.
    """
    pairs = np.outer(p, p)
    left = cho_factor(np.diag(p) + 2 * lam * _laplacian(pairs))
    for _ in range(_STEPS):
        distance = cdist(centres, centres)
        pull = np.divide(pairs * wanted, distance, out=np.zeros_like(distance), where=distance > 0)
        centres = cho_solve(left, p[:, None] * means + 2 * lam * _laplacian(pull) @ centres)
    return centres


def _nearest(Z: Array, centres: Array) -> NDArray[np.intp]:
    """Return the index of the nearest centre of each sample; ||z||^2 is the same for all centres and left out."""
    return (np.einsum("ij,ij->i", centres, centres) - 2 * Z @ centres.T).argmin(axis=1)


def _laplacian(weights: Array) -> Array:
    return np.diag(weights.sum(axis=1)) - weights
