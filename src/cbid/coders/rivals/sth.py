"""Self-taught hashing."""

from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.svm import LinearSVC
from sklearn.utils.validation import validate_data

from cbid.checks import check_integer, check_n_jobs, check_real
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder
from cbid.coders.prefix import PrefixMixin
from cbid.coders.rivals.knn import cosine_graph, laplacian_eigenmap
from cbid.learning.variation import check_varies

__all__ = ["SelfTaughtHashing"]


class SelfTaughtHashing(PrefixMixin, HyperplaneCoder):
    """Codes of a Laplacian eigenmap, learned by one linear SVM a bit (Zhang, Wang, Cai and Lu, SIGIR 2010).

    First the training samples get codes: the smoothest functions over their neighbourhood graph, each cut at its
    median. Then a linear SVM learns each bit, and speaks for samples yet unseen. Every prefix is the code of that
    length.

    Parameters
    ----------
    n_bits : int
        At most n - 2 for n training samples.
    n_neighbors : int
        Nearest others by cosine that a sample is joined to, by edges weighted with their cosines: 5, as C-BID's paper
        has it (25 in its own). Fewer where there are fewer samples.
    C : float > 0
        Weight of the SVMs' losses, as in LIBLINEAR, with X centred and scaled to samples of unit mean
        squared length.
    n_jobs : int or None
        SVMs learned at a time, as in scikit-learn.
    """

    def __init__(
        self,
        *,
        n_bits: int = 64,
        n_neighbors: int = 5,
        C: float = 1.0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_neighbors = n_neighbors
        self.C = C
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from vectors X (n, d); y is not used."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        check_integer("n_neighbors", self.n_neighbors, 1)
        check_real("C", self.C, 0, open_below=True)
        check_n_jobs(self.n_jobs)
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=3)
        check_varies(samples)
        n = len(samples)
        if self.n_bits > n - 2:
            raise ValueError(
                f"n_bits={self.n_bits} is not accepted; the graph of n_samples={n} samples gives a bit for each but "
                f"two: give at most {n - 2}"
            )
        embedding = laplacian_eigenmap(cosine_graph(samples, min(self.n_neighbors, n - 1)), self.n_bits)
        bits = embedding >= np.median(embedding, axis=0)
        mean = samples.mean(axis=0, dtype=np.float64)
        Z = samples - mean.astype(samples.dtype)
        unit = float(np.sqrt(np.mean(np.einsum("ij,ij->i", Z, Z, dtype=np.float64)))) or 1.0
        Z = (Z / unit).astype(np.float64)  # as LIBLINEAR takes it
        planes = Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(_plane)(Z, bit, self.C) for bit in bits.T)
        coef, offset = (np.array(part) for part in zip(*planes))
        return self._set_hyperplanes(coef.T / unit, offset, mean)


def _plane(Z: NDArray[np.float64], bit: NDArray[np.bool_], C: float) -> tuple[NDArray[np.float64], float]:
    """Direction (d,) and offset of the SVM that predicts the bit; a bit that is the same for all stays so."""
    if bit.all():
        return np.zeros(Z.shape[1]), 1.0
    # The primal solver: the dual one draws from one generator for the whole process, and threads would change bits.
    svm = LinearSVC(C=C, dual=False, tol=1e-3).fit(Z, bit)
    return svm.coef_[0], float(svm.intercept_[0])
