"""Self-taught hashing."""

from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.svm import LinearSVC
from sklearn.utils.validation import validate_data

from cbid.checks import check_integer, check_n_jobs, check_real
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder
from cbid.coders.prefix import PrefixMixin
from cbid.coders.rivals.knn import nearest_others
from cbid.learning.variation import check_varies

__all__ = ["SelfTaughtHashing"]

_EDGES = 2**14  # whose samples are gathered at a time
_LEAST = 1e-3  # weight of an edge between neighbours whose cosine is not positive, so that no sample falls out


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
                f"n_bits={self.n_bits}: the graph of n_samples={n} samples gives a bit for each but "
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


def cosine_graph(X: NDArray[np.floating], k: int) -> csr_matrix:
    """Edges between samples of which one is among the k nearest of the other by cosine, weighted by it.

    Where that leaves parts without an edge between them, each is joined to its nearest sample outside, until all is
    one: a function over parts alone would say nothing about the samples in them.
    """
    norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    unit = (X / np.where(norms > 0, norms, 1.0)[:, None]).astype(np.float32)
    n = len(X)
    first, second = np.repeat(np.arange(n), k), nearest_others(unit, k).ravel()
    while True:
        W = _graph(unit, first, second)
        n_parts, part = connected_components(W, directed=False)
        if n_parts == 1:
            return W
        joins = np.array([_join(unit, part == p) for p in np.argsort(np.bincount(part), kind="stable")[:-1]])
        first, second = np.concatenate([first, joins[:, 0]]), np.concatenate([second, joins[:, 1]])


def _graph(unit: NDArray[np.float32], first: NDArray[np.int64], second: NDArray[np.int64]) -> csr_matrix:
    """The graph with edges between the samples ``first`` (m,) and ``second`` (m,), in both directions."""
    cosines = np.empty(len(first))
    for start in range(0, len(first), _EDGES):
        part = slice(start, start + _EDGES)
        cosines[part] = np.einsum("ij,ij->i", unit[first[part]], unit[second[part]], dtype=np.float64)
    n = len(unit)
    edges = coo_matrix((np.maximum(cosines, _LEAST), (first, second)), shape=(n, n)).tocsr()
    edges.data = np.minimum(edges.data, 1.0)  # an edge named twice
    return edges.maximum(edges.T).tocsr()


def _join(unit: NDArray[np.float32], inside: NDArray[np.bool_]) -> tuple[int, int]:
    """The nearest pair of samples of which one is inside a part of the graph."""
    import faiss

    within, without = np.flatnonzero(inside), np.flatnonzero(~inside)
    distances, found = faiss.knn(unit[within], unit[without], 1)
    nearest = int(distances[:, 0].argmin())
    return int(within[nearest]), int(without[found[nearest, 0]])


def laplacian_eigenmap(W: csr_matrix, n_axes: int) -> NDArray[np.float64]:
    """The n_axes smoothest functions over a graph, (n, n_axes), without the constant: L v = lambda D v.

    They are the leading eigenvectors u of D^-1/2 W D^-1/2, brought back by v = D^-1/2 u; the constant belongs to
    D^1/2 1 and is taken out beforehand.
    """
    degree = np.asarray(W.sum(axis=1)).ravel()
    root = 1 / np.sqrt(degree)
    constant = np.sqrt(degree / degree.sum())

    def times(u: NDArray[np.float64]) -> NDArray[np.float64]:
        u = u.ravel()
        return root * (W @ (root * u)) + u - 2 * constant * (constant @ u)

    # Plus the identity, which moves all eigenvalues to [0, 2] and the constant to the bottom.
    matrix = LinearOperator(W.shape, matvec=times, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(W.shape[0])
    values, vectors = eigsh(matrix, k=n_axes, which="LA", v0=start, tol=1e-6)
    found = root[:, None] * vectors[:, np.argsort(-values)]
    largest = np.take_along_axis(found, np.abs(found).argmax(axis=0)[None], axis=0)
    return found * np.where(largest < 0, -1.0, 1.0)
