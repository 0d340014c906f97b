"""Spline."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.utils.validation import validate_data

from cbid.checks import check_integer, check_real
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.prefix import PrefixMixin
from cbid.coders.rivals.knn import nearest_others
from cbid.learning.variation import check_varies

__all__ = ["SplineRegressionHashing"]

_AT_ONCE = 2**22  # values gathered at a time

Array = NDArray[np.float64]


class SplineRegressionHashing(PrefixMixin, HyperplaneCoder):
    """Values smooth over every neighbourhood and linear over all (Liu, Wu, Yang, Zhuang and Hauptmann, TIP 2012).

    Learns values Y (n, n_bits) of the training samples and hyperplanes at once:

        min tr(Y'MY) + mu (||Y - X W - 1 b'||^2 + gamma ||W||^2),   Y'Y = I, Y'1 = 0,

    where M adds up how far Y is from a thin-plate spline over each sample's neighbourhood. W is a ridge regression of
    Y, which leaves an eigenvalue problem for Y. Bits are the signs of X W + b. Every prefix is the code of that
    length. The form is the paper's; numbers of neighbours and weights are ours.

    Parameters
    ----------
    n_bits : int
        At most n - 2 for n training samples.
    n_neighbors : int
        Nearest others that make up a neighbourhood together with a sample. Fewer where there are fewer samples.
    n_tangent : {2, 1, 3}
        Axes of a neighbourhood's own coordinates.
    ridge : float > 0
        Weight of a spline's bending energy against its fit.
    mu : float > 0
        Weight of the linear regression against the splines.
    gamma : float > 0
        Ridge of the linear regression, as a share of the mean variance of X's columns.
    max_samples : int
        Of more samples than that, a random part is learned from; the hyperplanes hold for all.
    random_state : int, RandomState or None
        Draws that part.
    """

    def __init__(
        self,
        *,
        n_bits: int = 64,
        n_neighbors: int = 10,
        n_tangent: int = 2,
        ridge: float = 0.1,
        mu: float = 1.0,
        gamma: float = 0.01,
        max_samples: int = 5_000,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_neighbors = n_neighbors
        self.n_tangent = n_tangent
        self.ridge = ridge
        self.mu = mu
        self.gamma = gamma
        self.max_samples = max_samples
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from vectors X (n, d); y is not used."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        check_integer("n_neighbors", self.n_neighbors, 1)
        check_integer("n_tangent", self.n_tangent, 1, 3)
        for name in ("ridge", "mu", "gamma"):
            check_real(name, getattr(self, name), 0, open_below=True)
        check_integer("max_samples", self.max_samples, 4)
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=3)
        check_varies(samples)
        rng = generator(self.random_state)
        if len(samples) > self.max_samples:
            samples = samples[np.sort(rng.choice(len(samples), self.max_samples, replace=False))]
        n = len(samples)
        if self.n_bits > n - 2:
            raise ValueError(
                f"n_bits={self.n_bits}: n_samples={n} samples give a bit for each but two: give at most {n - 2}"
            )
        near = nearest_others(samples, min(self.n_neighbors, n - 1))
        M = spline_energy(
            samples,
            np.hstack([np.arange(n)[:, None], near]),
            n_tangent=min(self.n_tangent, samples.shape[1]),
            ridge=self.ridge,
        )
        mean = samples.mean(axis=0, dtype=np.float64)
        Z = samples - mean
        unit = float(np.sqrt(np.mean(np.square(Z))))
        Z /= unit
        W = _learn(M, Z, self.n_bits, mu=self.mu, gamma=self.gamma * n)
        return self._set_hyperplanes(W / unit, 0.0, mean)


def _learn(M: csr_matrix, Z: Array, n_bits: int, *, mu: float, gamma: float) -> Array:
    """W (d, n_bits) of centred samples Z (n, d): regressions of the smallest eigenvectors but the constant."""
    n, d = Z.shape
    factor = cho_factor(Z.T @ Z + gamma * np.eye(d))
    # Beyond all other eigenvalues: those of M are at most the largest sum of a row's sizes, regression adds mu.
    top = float(abs(M).sum(axis=1).max()) + mu

    def times(y: Array) -> Array:
        y = y.ravel()
        centred = y - y.mean()
        unfitted = centred - Z @ cho_solve(factor, Z.T @ centred)
        return top * centred - (M @ y + mu * unfitted)  # from the top, so that the smallest come first

    matrix = LinearOperator((n, n), matvec=times, dtype=np.float64)
    values, Y = eigsh(matrix, k=n_bits, which="LA", v0=np.random.default_rng(0).standard_normal(n), tol=1e-6)
    W = cho_solve(factor, Z.T @ Y[:, np.argsort(-values)])
    largest = np.take_along_axis(W, np.abs(W).argmax(axis=0)[None], axis=0)
    return W * np.where(largest < 0, -1.0, 1.0)


def spline_energy(
    X: NDArray[np.floating], neighbourhoods: NDArray[np.int64], *, n_tangent: int, ridge: float
) -> csr_matrix:
    """M (n, n), symmetric positive semi-definite, of samples X (n, d) and neighbourhoods (m, k).

    n_tangent : p, 1 to 3. Coordinates are in units of their neighbourhood's radius (root mean square).
    """
    m, k = neighbourhoods.shape
    step = max(1, _AT_ONCE // (k * max(X.shape[1], k)))
    blocks = []
    for start in range(0, m, step):
        members = X[neighbourhoods[start : start + step]].astype(np.float64)  # (step, k, d)
        blocks.append(_energies(_tangents(members, n_tangent), ridge))
    rows = np.repeat(neighbourhoods, k, axis=1).ravel()
    columns = np.tile(neighbourhoods, (1, k)).ravel()
    return csr_matrix((np.concatenate(blocks).ravel(), (rows, columns)), shape=(len(X), len(X)))  # adds up what meets


def _tangents(members: Array, p: int) -> Array:
    """Coordinates (m, k, p) on each neighbourhood's leading axes, of unit root mean square length."""
    centred = members - members.mean(axis=1, keepdims=True)
    # The axes of k points come from their k x k inner products, whatever d is.
    values, vectors = np.linalg.eigh(centred @ np.swapaxes(centred, 1, 2))
    values, vectors = np.maximum(values[:, ::-1][:, :p], 0), vectors[:, :, ::-1][:, :, :p]
    T = vectors * np.sqrt(values)[:, None, :]
    size = np.sqrt(np.mean(np.sum(T**2, axis=2), axis=1))
    return T / np.where(size > 0, size, 1.0)[:, None, None]


def _energies(T: Array, ridge: float) -> Array:
    """ridge B, (m, k, k), eigenvalues in [0, 1]."""
    m, k, p = T.shape
    distance = np.sqrt(np.maximum(np.sum((T[:, :, None] - T[:, None]) ** 2, axis=3), 0))
    A = _phi(distance, p) + ridge * np.eye(k)
    # B is the inverse of A on what is orthogonal to P: with Q an orthonormal basis of it, B = Q (Q'A Q)^-1 Q'.
    P = np.concatenate([np.ones((m, k, 1)), T], axis=2)
    U, sizes, _ = np.linalg.svd(P)  # U (m, k, k)
    rank = (sizes > 1e-9 * sizes[:, :1]).sum(axis=1)
    energies = np.empty((m, k, k))
    for r in np.unique(rank):  # coordinates that do not vary leave more than k - p - 1 directions
        these = rank == r
        Q = U[these][:, :, r:]
        inner = np.swapaxes(Q, 1, 2) @ A[these] @ Q
        energies[these] = ridge * (Q @ np.linalg.solve(inner, np.swapaxes(Q, 1, 2)))
    return (energies + np.swapaxes(energies, 1, 2)) / 2


def _phi(r: Array, p: int) -> Array:
    """The order-2 spline's radial function in p dimensions, positive definite on what is orthogonal to P."""
    if p == 1:
        return r**3
    if p == 2:
        return r**2 * np.log(np.where(r > 0, r, 1.0))
    return -r
