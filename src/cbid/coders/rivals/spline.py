"""Spline-regression hashing."""

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
from cbid.coders.rivals.local_splines import spline_energy
from cbid.learning.variation import check_varies

__all__ = ["SplineRegressionHashing"]

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
                f"n_bits={self.n_bits} is not accepted; n_samples={n} samples give a bit for each but two: give at "
                f"most {n - 2}"
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
