"""How far values on samples are from smooth functions of each neighbourhood (local spline regression).

A neighbourhood of k samples gets coordinates t (k, p) on its own p leading principal axes. The thin-plate spline of
order 2 through values y (k,) minimises

    ||y - s(t)||^2 + ridge (bending energy of s),   s(t) = sum_j a_j phi(||t - t_j||) + linear function of t.

Its least value is ridge y' B y, where B is the upper left block of the inverse of [[A + ridge I, P], [P', 0]], with
A_ij = phi(||t_i - t_j||) and P = [1, t] (Wahba, 1990; Xiang et al., 2009, build embeddings on it). It is 0 for linear
y and at most ||y||^2. Added up over all neighbourhoods it is y' M y with M sparse.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

__all__ = ["spline_energy"]

Array = NDArray[np.float64]
_AT_ONCE = 2**22  # values gathered at a time


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
