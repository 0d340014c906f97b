"""Spline-regression hashing.

A neighbourhood of k samples has coordinates t (k, p) on its own p leading principal axes. The thin-plate spline of
order 2 through values y (k,) minimises

    ||y - s(t)||^2 + ridge (bending energy of s),   s(t) = sum_j a_j phi(||t - t_j||) + linear function of t.

The minimum is ridge y' B y, where B is the upper left block of the inverse of [[A + ridge I, P], [P', 0]], with
A_ij = phi(||t_i - t_j||) and P = [1, t] (Wahba, 1990; Xiang et al., 2009, build embeddings on it). It is 0 for linear
y and at most ||y||^2. The sum over all neighbourhoods is y' M y with M sparse.
"""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix

from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.mixins import PrefixMixin
from cbid.coders.rivals import common
from cbid.coders.rivals.common import Array, Seed, check_most_bits, check_vectors
from cbid.params import estimator, integer, param, positive

_BATCH_VALUES = 2**22


@estimator
class SplineRegressionHashing(PrefixMixin, HyperplaneCoder):
    """Bits that are smooth over neighbourhoods and linear in X (Liu, Wu, Yang, Zhuang and Hauptmann, TIP 2012).

    Learns values Y (n, n_bits) of the training samples and hyperplanes together:

        min tr(Y'MY) + mu (||Y - X W - 1 b'||^2 + gamma ||W||^2),   Y'Y = I, Y'1 = 0,

    where Y'MY sums how far Y is from a thin-plate spline over the neighbourhood of each sample. W is a ridge
    regression of Y, which leaves an eigenvalue problem for Y. Bits are the signs of X W + b. Every prefix is the code
    of that length. The objective is the paper's; the default number of neighbours and the weights are ours.

    Parameters
    ----------
    n_bits : int, default=64
        At most n - 2 for n training samples.
    n_neighbors : int, default=10
        Nearest neighbours of a sample that form its neighbourhood. Fewer if there are fewer samples.
    n_tangent : {2, 1, 3}, default=2
        Number of principal axes of a neighbourhood.
    ridge : float > 0, default=0.1
        Weight of a spline's bending energy against its fit.
    mu : float > 0, default=1.0
        Weight of the linear regression against the splines.
    gamma : float > 0, default=0.01
        Ridge of the linear regression, relative to the mean variance of the columns of X.
    max_samples : int, default=5_000
        Learn from a random subset if there are more samples.
    random_state : int, RandomState or None, default=0
        Seed of the subset.
    """

    n_bits: int = param(64, integer(1, MOST_BITS))
    n_neighbors: int = param(10, integer(1))
    n_tangent: int = param(2, integer(1, 3))
    ridge: float = param(0.1, positive)
    mu: float = param(1.0, positive)
    gamma: float = param(0.01, positive)
    max_samples: int = param(5_000, integer(4))
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from vectors X (n, d); y is ignored."""
        samples = check_vectors(self, X, least=3, varied=True)
        samples = common.subsample(samples, self.max_samples, generator(self.random_state))
        n = len(samples)
        check_most_bits(self.n_bits, n - 2, f"n_samples={n} give n_samples - 2 bits")
        near = common.nearest_others(samples, min(self.n_neighbors, n - 1))
        neighbourhoods = np.hstack([np.arange(n)[:, None], near])
        n_tangent = min(self.n_tangent, samples.shape[1])
        M = spline_energy(samples, neighbourhoods, n_tangent=n_tangent, ridge=self.ridge)
        mean = samples.mean(axis=0, dtype=np.float64)
        Z = samples - mean
        unit = float(np.sqrt(np.mean(np.square(Z))))
        Z /= unit
        W = _learn(M, Z, self.n_bits, mu=self.mu, gamma=self.gamma * n)
        return self._set_hyperplanes(W / unit, 0.0, mean)


def _learn(M: csr_matrix, Z: Array, n_bits: int, *, mu: float, gamma: float) -> Array:
    """Return W (d, n_bits) for centred samples Z (n, d): regressions of the smallest non-constant eigenvectors."""
    n, d = Z.shape
    factor = cho_factor(Z.T @ Z + gamma * np.eye(d))
    # A bound on all eigenvalues: the largest absolute row sum of M, plus mu for the regression.
    top = float(abs(M).sum(axis=1).max()) + mu

    def times(y: Array) -> Array:
        centred = y - y.mean()
        residual = centred - Z @ cho_solve(factor, Z.T @ centred)
        return top * centred - (M @ y + mu * residual)  # subtracted from the bound: the smallest become leading

    return common.fix_signs(cho_solve(factor, Z.T @ common.leading_eigenvectors(times, n, n_bits)), axis=0)


def spline_energy(
    X: NDArray[np.floating], neighbourhoods: NDArray[np.int64], *, n_tangent: int, ridge: float
) -> csr_matrix:
    """Return M (n, n), symmetric positive semi-definite, for samples X (n, d) and neighbourhoods (m, k).

    n_tangent : p, 1 to 3. Coordinates are in units of the root mean square radius of their neighbourhood.
    """
    m, k = neighbourhoods.shape
    step = max(1, _BATCH_VALUES // (k * max(X.shape[1], k)))
    blocks = []
    for start in range(0, m, step):
        members = X[neighbourhoods[start : start + step]].astype(np.float64)  # (step, k, d)
        blocks.append(_energies(_tangents(members, n_tangent), ridge))
    rows = np.repeat(neighbourhoods, k, axis=1).ravel()
    columns = np.tile(neighbourhoods, (1, k)).ravel()
    return csr_matrix((np.concatenate(blocks).ravel(), (rows, columns)), shape=(len(X), len(X)))  # sums duplicates


def _tangents(members: Array, p: int) -> Array:
    """Return coordinates (m, k, p) on the leading axes of each neighbourhood, of unit root mean square length."""
    centred = members - members.mean(axis=1, keepdims=True)
    # The axes of k points follow from their k x k inner products.
    values, vectors = np.linalg.eigh(centred @ np.swapaxes(centred, 1, 2))
    values, vectors = np.maximum(values[:, ::-1][:, :p], 0), vectors[:, :, ::-1][:, :, :p]
    T = vectors * np.sqrt(values)[:, None, :]
    size = np.sqrt(np.mean(np.sum(T**2, axis=2), axis=1))
    return T / np.where(size > 0, size, 1.0)[:, None, None]


def _energies(T: Array, ridge: float) -> Array:
    """Return ridge B, (m, k, k), with eigenvalues in [0, 1]."""
    m, k, p = T.shape
    distance = np.sqrt(np.maximum(np.sum((T[:, :, None] - T[:, None]) ** 2, axis=3), 0))
    A = _phi(distance, p) + ridge * np.eye(k)
    # With Q an orthonormal basis of the complement of P, B = Q (Q'A Q)^-1 Q'.
    P = np.concatenate([np.ones((m, k, 1)), T], axis=2)
    U, sizes, _ = np.linalg.svd(P)  # U (m, k, k)
    rank = (sizes > 1e-9 * sizes[:, :1]).sum(axis=1)
    energies = np.empty((m, k, k))
    for r in np.unique(rank):  # constant coordinates lower the rank of P
        these = rank == r
        Q = U[these][:, :, r:]
        inner = np.swapaxes(Q, 1, 2) @ A[these] @ Q
        energies[these] = ridge * (Q @ np.linalg.solve(inner, np.swapaxes(Q, 1, 2)))
    return (energies + np.swapaxes(energies, 1, 2)) / 2


def _phi(r: Array, p: int) -> Array:
    """Return the radial function of the order-2 spline in p dimensions, positive definite on the complement of P."""
    if p == 1:
        return r**3
    if p == 2:
        return r**2 * np.log(np.where(r > 0, r, 1.0))
    return -r
