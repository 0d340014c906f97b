"""Spherical hashing."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import euclidean_distances

from cbid import codes
from cbid.checks import check_integer
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS, generator
from cbid.coders.mixins import check_arrays
from cbid.coders.rivals.common import Array, Seed, check_vectors, subsample
from cbid.params import estimator, integer, param, real

_START = 5  # samples whose mean is the initial centre of a sphere
_LONGEST = 1.0  # longest step of a centre, relative to the radius of the data


@estimator
class SphericalHashing(Coder):
    """Inside or outside of spheres (Heo, Lee, He, Chang and Yoon, CVPR 2012).

    Bit k is +1 if ||x - p_k|| <= r_k. Radii are medians, so every sphere holds half of the samples. Centres move
    until every two spheres share a quarter of the samples: pairs that share more are pushed apart along the line of
    their centres, pairs that share less are pulled together, by half of the relative excess. It stops when the mean
    of |shared - n/4| is below ``tol_mean`` n/4 and the deviation of shared is below ``tol_deviation`` n/4. Any number
    of bits is possible. All spheres depend on each other, so a prefix is not a valid code.

    The paper divides the number of differing bits by the number of shared spheres; ``spherical_hamming`` computes
    this distance. An index uses the plain Hamming distance.

    Parameters
    ----------
    n_bits : int, default=64
    max_iter : int, default=100
        Largest number of iterations.
    tol_mean, tol_deviation : float, default=0.1 and 0.15
        As in the paper.
    max_samples : int, default=100_000
        Learn from a random subset if there are more samples.
    random_state : int, RandomState or None, default=0
        Seed of the initial centres and the subset.

    Attributes
    ----------
    pivots_ : (n_bits_, d)
    radii_ : (n_bits_,)
    n_iter_ : int
        Iterations run.
    """

    _ARRAYS = frozenset({"pivots_", "radii_"})
    _VALUES = Coder._VALUES | {"n_iter_"}

    n_bits: int = param(64, integer(1, MOST_BITS))
    max_iter: int = param(100, integer(1))
    tol_mean: float = param(0.1, real(0))
    tol_deviation: float = param(0.15, real(0))
    max_samples: int = param(100_000, integer(2))
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from vectors X (n, d); y is ignored."""
        samples = check_vectors(self, X, varied=True)
        rng = generator(self.random_state)
        samples = subsample(samples, self.max_samples, rng)
        mean = samples.mean(axis=0, dtype=np.float64)
        Z = samples - mean.astype(samples.dtype)
        pivots = Z[rng.integers(len(Z), size=(self.n_bits, _START))].mean(axis=1, dtype=np.float64)
        radius = float(np.sqrt(np.mean(np.einsum("ij,ij->i", Z, Z, dtype=np.float64))))
        radii, shared = _spheres(Z, pivots)
        n_iter, balanced = 0, False
        while n_iter < self.max_iter and not balanced:
            n_iter += 1
            pivots += _forces(pivots, shared, len(Z), radius)
            radii, shared = _spheres(Z, pivots)
            balanced = _is_balanced(shared, len(Z), self.tol_mean, self.tol_deviation)
        self.pivots_, self.radii_ = pivots + mean, radii
        self.n_bits_, self.n_iter_ = self.n_bits, n_iter
        return self

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the depth inside each sphere, negative outside."""
        centre = self.pivots_.mean(axis=0)
        D = euclidean_distances((X - centre).astype(X.dtype), (self.pivots_ - centre).astype(X.dtype))
        return self.radii_.astype(X.dtype) - D

    def _check_state(self) -> None:
        check_integer("n_bits_", self.n_bits_, 1, MOST_BITS)
        check_integer("n_iter_", self.n_iter_, 1)
        check_arrays(self, {"pivots_": (self.n_bits_, self.n_features_in_), "radii_": (self.n_bits_,)})


def spherical_hamming(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> Array:
    """Return differing bits divided by common +1 bits, for every code of ``a`` and of ``b``, (n_a, n_b).

    Codes without a common sphere are infinitely far apart, unless they are equal.
    """
    a, b = codes.check_codes(a, name="a"), codes.check_codes(b, name="b")
    differing = np.asarray(codes.hamming(a, b), dtype=np.float64)
    both = np.unpackbits(a, axis=1).astype(np.float64) @ np.unpackbits(b, axis=1).T.astype(np.float64)
    return np.divide(differing, both, out=np.where(differing > 0, np.inf, 0.0), where=both > 0)


def _spheres(Z: NDArray[np.floating], pivots: Array) -> tuple[Array, Array]:
    """Return radii (t,) that hold half of the samples, and the number of samples shared by two spheres, (t, t)."""
    D = euclidean_distances(Z, pivots.astype(Z.dtype))
    radii = np.median(D, axis=0)
    inside = (radii >= D).astype(np.float32)
    return radii.astype(np.float64), (inside.T @ inside).astype(np.float64)


def _is_balanced(shared: Array, n: int, tol_mean: float, tol_deviation: float) -> bool:
    pairs = shared[np.triu_indices(len(shared), 1)]
    if len(pairs) == 0:
        return True
    quarter = n / 4
    return bool(np.abs(pairs - quarter).mean() <= tol_mean * quarter and pairs.std() <= tol_deviation * quarter)


def _forces(pivots: Array, shared: Array, n: int, radius: float) -> Array:
    """Return the step of each centre: the mean over all others j of (shared_ij - n/4) / (n/4) (p_i - p_j) / 2."""
    strength = (shared - n / 4) / (n / 4) / 2
    np.fill_diagonal(strength, 0)
    forces = (strength.sum(axis=1)[:, None] * pivots - strength @ pivots) / len(pivots)
    length = np.linalg.norm(forces, axis=1, keepdims=True)
    longest = _LONGEST * radius
    return np.where(length > longest, forces * (longest / np.maximum(length, longest)), forces)
