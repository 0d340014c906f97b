"""k-means whose centres lie to each other as the corners of a cube do, so that a centre's number is a code.

With 2^b centres c and the share p_i of samples nearest to each, it lowers

    E = mean squared distance of samples to their centres + lam sum_ij p_i p_j (||c_i - c_j|| - scale sqrt(h_ij))^2,

where h_ij is the Hamming distance of the numbers i and j (He, Wen and Sun, CVPR 2013, eqs. 3, 4 and 8).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist

__all__ = ["affinity_kmeans", "corner_bits", "objective"]

Array = NDArray[np.float64]
_STEPS = 100  # of the centres, for each assignment of the samples


def corner_bits(b: int) -> NDArray[np.int64]:
    """Bits (2^b, b) in 0/1 of the numbers of all corners, the highest bit first."""
    return (np.arange(2**b)[:, None] >> np.arange(b - 1, -1, -1)) & 1


def affinity_kmeans(Z: Array, b: int, *, lam: float, n_iter: int) -> tuple[Array, float]:
    """Centres (2^b, q) and scale for samples Z (n, q), q >= b, with uncorrelated columns of descending variance.

    It starts from the corners of the cube in the first b columns whose signs fit Z best. Every round assigns samples
    to their nearest centre, then moves the centres. Neither raises E, but for the shares p, which a round takes as
    they are.
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
        used = counts > 0  # a centre without samples has no say, and stays
        means = (members @ Z)[used] / counts[used, None]
        centres[used] = move_centres(centres[used], means, counts[used] / len(Z), wanted[np.ix_(used, used)], lam=lam)
    return centres, scale


def move_centres(centres: Array, means: Array, p: Array, wanted: Array, *, lam: float) -> Array:
    """Centres (k, q) that lower sum_i p_i ||c_i - mean_i||^2 + lam sum_ij p_i p_j (||c_i - c_j|| - wanted_ij)^2.

    Each step goes to the minimum of a parabola that touches the sum from above where the centres are, and lies above
    it elsewhere: the cross term of the square is majorised by Cauchy-Schwarz, as in multidimensional scaling. The
    minimum solves (P + 2 lam L) C = P means + 2 lam B C', with P = diag(p), L and B the Laplacians of the graphs with
    weights p_i p_j and p_i p_j wanted_ij / ||c'_i - c'_j||.
    """
    pairs = np.outer(p, p)
    left = cho_factor(np.diag(p) + 2 * lam * _laplacian(pairs))
    for _ in range(_STEPS):
        distance = cdist(centres, centres)
        pull = np.divide(pairs * wanted, distance, out=np.zeros_like(distance), where=distance > 0)
        centres = cho_solve(left, p[:, None] * means + 2 * lam * _laplacian(pull) @ centres)
    return centres


def _nearest(Z: Array, centres: Array) -> NDArray[np.intp]:
    """Number of each sample's nearest centre: ||z||^2 is the same for all and left out."""
    return (np.einsum("ij,ij->i", centres, centres) - 2 * Z @ centres.T).argmin(axis=1)


def _laplacian(weights: Array) -> Array:
    return np.diag(weights.sum(axis=1)) - weights


def objective(Z: Array, centres: Array, scale: float, lam: float) -> float:
    """E at the centres, with samples at their nearest."""
    nearest = _nearest(Z, centres)
    p = np.bincount(nearest, minlength=len(centres)) / len(Z)
    bits = corner_bits(int(np.log2(len(centres))))
    wanted = scale * np.sqrt(cdist(bits, bits, "cityblock"))
    affinity = np.sum(np.outer(p, p) * (cdist(centres, centres) - wanted) ** 2)
    return float(np.mean(np.sum((Z - centres[nearest]) ** 2, axis=1)) + lam * affinity)
