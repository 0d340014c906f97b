"""Signs of coordinates, principal components, singular vectors, discriminant directions and rotated axes (ITQ).

Canonical correlation analysis between X and the indicators of its classes maximises w' B w / w' (C + reg I) w, where
C is the covariance of X and B that of the class means. This is linear discriminant analysis, up to the length of w.
Iterative quantisation rotates the axes, after PCA (ITQ) or CCA (CCA-ITQ), so that taking signs loses least.
"""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular, svd
from scipy.sparse import csr_matrix
from sklearn.utils.validation import validate_data

from cbid.checks import check_integer
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.mixins import PrefixMixin, SupervisedMixin, check_arrays
from cbid.coders.rivals.common import Array, Seed, check_enough_axes, check_most_bits, check_vectors
from cbid.learning.axes import leading_axes, parts, principal_axes
from cbid.learning.likeness import fit_rotation
from cbid.learning.scaling import centre, class_means
from cbid.params import check_params, choice, estimator, integer, param, real


@estimator
class SignEmbedding(Coder):
    """One bit per coordinate: whether it is above the mean of the training samples, or above zero.

    Vector databases call this binary quantisation and usually re-rank the nearest candidates by their float vectors.

    Parameters
    ----------
    n_bits : int or None, default=None
        Use the first ``n_bits`` coordinates. None: all.
    centre : bool, default=True
        Compare with the mean; if False, with zero.
    """

    _ARRAYS = frozenset({"mean_"})

    n_bits: int | None = param(None, integer(1, MOST_BITS))
    centre: bool = True

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Compute the mean of X (n, d); y is ignored."""
        check_params(self)
        samples: NDArray[np.floating] = validate_data(self, X, dtype=[np.float64, np.float32])
        d = samples.shape[1]
        n_bits = d if self.n_bits is None else self.n_bits
        check_most_bits(n_bits, d, f"X has {d} features and each gives one bit")
        self.mean_ = samples.mean(axis=0, dtype=np.float64) if self.centre else np.zeros(d)
        self.n_bits_ = n_bits
        return self

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        return X[:, : self.n_bits_] - self.mean_[: self.n_bits_].astype(X.dtype)

    def _check_state(self) -> None:
        check_integer("n_bits_", self.n_bits_, 1, self.n_features_in_)
        check_arrays(self, {"mean_": (self.n_features_in_,)})


@estimator
class PCASign(PrefixMixin, HyperplaneCoder):
    """Signs of the leading principal components, known as PCA hashing (see Wang, Kumar and Chang, 2010).

    Every prefix is the code of that length.

    Parameters
    ----------
    n_bits : int, default=64
        At most the number of axes along which X varies.
    """

    n_bits: int = param(64, integer(1, MOST_BITS))

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from vectors X (n, d); y is ignored."""
        samples = check_vectors(self, X)
        mean, axes = principal_axes(samples, self.n_bits)
        check_enough_axes(self.n_bits, len(axes.vectors), samples)
        return self._set_hyperplanes(axes.vectors.T, 0.0, mean)


@estimator
class LSI(PrefixMixin, HyperplaneCoder):
    """Latent semantic indexing, binarised: leading singular vectors of X, not centred (Deerwester et al., 1990).

    Every prefix is the code of that length.

    Parameters
    ----------
    n_bits : int, default=64
        At most the rank of X.
    threshold : {"median", "zero"}, default="median"
        "median" splits the training samples in half at every bit, as in comparisons of hashing methods. "zero" takes
        the sign; if X has no negative values, the first bit is then the same for all samples.
    """

    n_bits: int = param(64, integer(1, MOST_BITS))
    threshold: str = param("median", choice("median", "zero"))

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from vectors X (n, d); y is ignored."""
        samples = check_vectors(self, X, varied=True)
        n, d = samples.shape
        V = leading_axes(lambda part: samples[part].astype(np.float64), n, d, self.n_bits).vectors
        check_enough_axes(self.n_bits, len(V), samples)
        mean = samples.mean(axis=0, dtype=np.float64)
        offset = V @ mean
        if self.threshold == "median":
            offset = -np.median(np.concatenate([(samples[part] - mean) @ V.T for part in parts(n)]), axis=0)
        return self._set_hyperplanes(V.T, offset, mean)


@estimator
class LDASign(SupervisedMixin, HyperplaneCoder):
    """Signs of Fisher's linear discriminants around the mean of the samples.

    Parameters
    ----------
    n_bits : int or None, default=None
        At most n_classes - 1, and at most the number of features. None: as many as possible.
    reg : float >= 0, default=1e-4
        Regularisation of the covariance of X, relative to the mean variance of its columns.
    """

    n_bits: int | None = param(None, integer(1))
    reg: float = param(1e-4, real(0))

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,)."""
        check_params(self)
        samples, labels = self._labelled(X, y)
        k, d = len(self.classes_), samples.shape[1]
        most = min(k - 1, d)
        n_bits = most if self.n_bits is None else self.n_bits
        check_most_bits(n_bits, most, f"{k} classes in {d} features have {most} discriminants")
        data = centre(samples)
        W, _ = canonical_directions(data.Z, labels, k, reg=self.reg)
        return self._set_hyperplanes(W[:, :n_bits] / data.unit, 0.0, data.mean)


def canonical_directions(Z: Array, labels: NDArray[np.integer], n_classes: int, *, reg: float) -> tuple[Array, Array]:
    """Return directions W (d, c) and their correlations (c,), descending, c <= min(n_classes - 1, d).

    Z : (n, d) centred. ``reg`` is relative to the mean variance of its columns. Directions have w' (C + reg I) w = 1.
    """
    # B = M M' with one column per class.
    share = np.bincount(labels, minlength=n_classes) / len(Z)
    M = class_means(Z, labels, n_classes).T * np.sqrt(share)
    return _leading_directions(Z, M, reg, most=n_classes - 1)


def canonical_directions_of_sets(Z: Array, labels: csr_matrix, *, reg: float) -> tuple[Array, Array]:
    """Return the same for samples with several labels, (n, k) of 0 and 1, as in canonical correlation analysis."""
    Y = labels.toarray() - np.asarray(labels.mean(axis=0))
    values, vectors = np.linalg.eigh(Y.T @ Y / len(Y))
    kept = values > 1e-9 * values[-1]
    M = Z.T @ (Y @ (vectors[:, kept] / np.sqrt(values[kept]))) / len(Y)
    return _leading_directions(Z, M, reg)


def _leading_directions(Z: Array, M: Array, reg: float, most: int | None = None) -> tuple[Array, Array]:
    """Return at most ``most`` directions W with w' (C + reg I) w = 1 that maximise w' M M' w, and their roots."""
    n, d = Z.shape
    C = Z.T @ Z / n
    C[np.diag_indices(d)] += max(reg, 1e-10) * (np.trace(C) / d or 1.0)
    L = cholesky(C, lower=True)
    # With C + reg I = L L', they are left singular vectors of L^-1 M.
    U, correlations, _ = svd(solve_triangular(L, M, lower=True), full_matrices=False)
    return solve_triangular(L, U[:, :most], lower=True, trans="T"), correlations[:most]


@estimator
class ITQ(HyperplaneCoder):
    """Iterative quantisation of the leading principal axes (Gong and Lazebnik, CVPR 2011).

    Minimises ||B - V R||^2 over codes B and rotations R, where V are the projections on ``n_bits`` axes. The rotation
    mixes all axes, so a prefix is not a valid code.

    Parameters
    ----------
    n_bits : int, default=64
        At most the number of axes along which X varies.
    n_iter : int, default=50
        Iterations over codes and rotation (50 in the paper).
    random_state : int, RandomState or None, default=0
        Seed of the initial rotation.
    """

    n_bits: int = param(64, integer(1, MOST_BITS))
    n_iter: int = param(50, integer(0))
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from vectors X (n, d); y is ignored."""
        samples = check_vectors(self, X)
        mean, axes = principal_axes(samples, self.n_bits)
        check_enough_axes(self.n_bits, len(axes.vectors), samples)
        W = axes.vectors.T  # (d, n_bits)
        V = np.concatenate([(samples[part] - mean) @ W for part in parts(len(samples))])
        R = fit_rotation(V, self.n_bits, n_iter=self.n_iter, rng=generator(self.random_state))
        return self._set_hyperplanes(W @ R, 0.0, mean)


@estimator
class CCAITQ(SupervisedMixin, HyperplaneCoder):
    """Iterative quantisation of canonical directions (Gong and Lazebnik, CVPR 2011 and PAMI 2013).

    Each canonical direction of samples and labels is weighted by its correlation, as in the paper. There are at most
    n_classes - 1 of them; with more bits, the rotation distributes them over all bits.

    Parameters
    ----------
    n_bits : int, default=64
    reg : float >= 0, default=1e-4
        Regularisation of the covariance of X, relative to the mean variance of its columns.
    n_iter : int, default=50
        Iterations over codes and rotation (50 in the paper).
    random_state : int, RandomState or None, default=0
        Seed of the initial rotation.
    """

    n_bits: int = param(64, integer(1, MOST_BITS))
    reg: float = param(1e-4, real(0))
    n_iter: int = param(50, integer(0))
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,), or a matrix or lists of several labels each."""
        check_params(self)
        samples, kinds = self._label_kinds(X, y)
        data = centre(samples)
        if kinds.alike is None:
            W, correlations = canonical_directions(data.Z, kinds.numbers, len(self.classes_), reg=self.reg)
        else:
            W, correlations = canonical_directions_of_sets(data.Z, kinds.matrix, reg=self.reg)
        W = (W * correlations)[:, : self.n_bits]
        R = fit_rotation(data.Z @ W, self.n_bits, n_iter=self.n_iter, rng=generator(self.random_state))
        return self._set_hyperplanes(W @ R / data.unit, 0.0, data.mean)
