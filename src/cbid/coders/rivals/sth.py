"""Self-taught hashing, and Laplacian co-hashing of samples and features."""

from typing import Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components
from sklearn.svm import LinearSVC

from cbid.checks import check_integer
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder
from cbid.coders.mixins import PrefixMixin, check_arrays
from cbid.coders.rivals import common
from cbid.coders.rivals.common import Array, check_most_bits, check_vectors
from cbid.learning.axes import leading_axes, parts
from cbid.params import estimator, integer, jobs, param, positive

_BATCH_EDGES = 2**14
_MIN_WEIGHT = 1e-3  # of an edge, also if the cosine is not positive, so that no sample is isolated


@estimator
class SelfTaughtHashing(PrefixMixin, HyperplaneCoder):
    """Codes of a Laplacian eigenmap, each bit predicted by a linear SVM (Zhang, Wang, Cai and Lu, SIGIR 2010).

    The bits of the training samples are the smoothest functions over their neighbourhood graph, each cut at its
    median. A linear SVM learns to predict each bit for new samples. Every prefix is the code of that length.

    Parameters
    ----------
    n_bits : int, default=64
        At most n - 2 for n training samples.
    n_neighbors : int, default=5
        Nearest neighbours of a sample by cosine; edges are weighted by it. 5 in the comparison of the C-BID paper, 25
        in the original paper. Fewer if there are fewer samples.
    C : float > 0, default=1.0
        Weight of the SVM losses, as in LIBLINEAR, with X centred and scaled to unit mean squared length.
    n_jobs : int or None, default=None
        SVMs learned in parallel, as in scikit-learn.
    """

    n_bits: int = param(64, integer(1, MOST_BITS))
    n_neighbors: int = param(5, integer(1))
    C: float = param(1.0, positive)
    n_jobs: int | None = param(None, jobs)

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from vectors X (n, d); y is ignored."""
        samples = check_vectors(self, X, least=3, varied=True)
        n = len(samples)
        check_most_bits(self.n_bits, n - 2, f"the graph of n_samples={n} gives n_samples - 2 bits")
        embedding = laplacian_eigenmap(cosine_graph(samples, min(self.n_neighbors, n - 1)), self.n_bits)
        bits = embedding >= np.median(embedding, axis=0)
        mean = samples.mean(axis=0, dtype=np.float64)
        Z = samples - mean.astype(samples.dtype)
        unit = float(np.sqrt(np.mean(np.einsum("ij,ij->i", Z, Z, dtype=np.float64)))) or 1.0
        Z = (Z / unit).astype(np.float64)  # the type of LIBLINEAR
        planes = Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(_plane)(Z, bit, self.C) for bit in bits.T)
        coef, offset = (np.array(part) for part in zip(*planes))
        return self._set_hyperplanes(coef.T / unit, offset, mean)


def _plane(Z: NDArray[np.float64], bit: NDArray[np.bool_], C: float) -> tuple[NDArray[np.float64], float]:
    """Return direction (d,) and offset of the SVM that predicts the bit; a constant bit stays constant."""
    if bit.all():
        return np.zeros(Z.shape[1]), 1.0
    # The dual solver uses a global random generator, so threads would change bits; the primal one does not.
    svm = LinearSVC(C=C, dual=False, tol=1e-3).fit(Z, bit)
    return svm.coef_[0], float(svm.intercept_[0])


def cosine_graph(X: NDArray[np.floating], k: int) -> csr_matrix:
    """Return the connected graph of samples of which one is among the k nearest of the other, weighted by cosine.

    Disconnected components are joined to their nearest sample outside: otherwise the smoothest functions would only
    separate components and say nothing about the samples within.
    """
    norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    unit = (X / np.where(norms > 0, norms, 1.0)[:, None]).astype(np.float32)
    n = len(X)
    first, second = np.repeat(np.arange(n), k), common.nearest_others(unit, k).ravel()
    while True:
        W = _graph(unit, first, second)
        n_components, component = connected_components(W, directed=False)
        if n_components == 1:
            return W
        by_size = np.argsort(np.bincount(component), kind="stable")
        joins = np.array([_nearest_pair(unit, component == c) for c in by_size[:-1]])
        first, second = np.concatenate([first, joins[:, 0]]), np.concatenate([second, joins[:, 1]])


def _graph(unit: NDArray[np.float32], first: NDArray[np.int64], second: NDArray[np.int64]) -> csr_matrix:
    """Return the symmetric graph with edges between the samples ``first`` (m,) and ``second`` (m,)."""
    cosines = np.empty(len(first))
    for start in range(0, len(first), _BATCH_EDGES):
        part = slice(start, start + _BATCH_EDGES)
        cosines[part] = np.einsum("ij,ij->i", unit[first[part]], unit[second[part]], dtype=np.float64)
    n = len(unit)
    edges = coo_matrix((np.maximum(cosines, _MIN_WEIGHT), (first, second)), shape=(n, n)).tocsr()
    edges.data = np.minimum(edges.data, 1.0)  # duplicate edges were summed
    return edges.maximum(edges.T).tocsr()


def _nearest_pair(unit: NDArray[np.float32], inside: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the nearest pair of a sample inside a component and a sample outside."""
    import faiss

    within, outside = np.flatnonzero(inside), np.flatnonzero(~inside)
    distances, found = faiss.knn(unit[within], unit[outside], 1)
    nearest = int(distances[:, 0].argmin())
    return int(within[nearest]), int(outside[found[nearest, 0]])


def laplacian_eigenmap(W: csr_matrix, n_axes: int) -> NDArray[np.float64]:
    """Return the n_axes smoothest non-constant functions over a graph, (n, n_axes): L v = lambda D v.

    They are v = D^-1/2 u for the leading eigenvectors u of D^-1/2 W D^-1/2. The constant corresponds to D^1/2 1 and
    is removed first.
    """
    degree = np.asarray(W.sum(axis=1)).ravel()
    root = 1 / np.sqrt(degree)
    constant = np.sqrt(degree / degree.sum())

    def times(u: Array) -> Array:
        # Adding the identity moves all eigenvalues to [0, 2], with the constant at 0.
        return root * (W @ (root * u)) + u - 2 * constant * (constant @ u)

    return common.fix_signs(root[:, None] * common.leading_eigenvectors(times, len(root), n_axes), axis=0)


@estimator
class LaplacianCoHashing(PrefixMixin, Coder):
    """Samples and features hashed together as a bipartite graph (Zhang, Wang, Cai and Lu, ECIR 2010).

    An edge joins a sample to each of its features; its weight is the value of the feature. The smoothest functions
    over this graph are the singular vectors of D^-1/2 A E^-1/2, where A holds the edges and D and E the sums of its
    rows and columns. The first, constant one is dropped; each of the next is cut at its median over the training
    samples. The value of a sample, training or new, is the mean of its features' values, weighted by its edges. Every
    prefix is the code of that length.

    Edges cannot be negative. If X has negative values, each feature becomes two, one per sign. If no training sample
    has any, negative values of later samples count as zero.

    Parameters
    ----------
    n_bits : int, default=64
        Less than the rank of A.

    Attributes
    ----------
    terms_ : (n_bits_, d) or (n_bits_, 2 d)
        The features' values at each bit, first of the positive, then of the negative signs.
    threshold_ : (n_bits_,)
    """

    _ARRAYS = frozenset({"terms_", "threshold_"})
    _BY_BIT = ("terms_", "threshold_")

    n_bits: int = param(64, integer(1, MOST_BITS))

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from vectors X (n, d); y is ignored."""
        samples = check_vectors(self, X, varied=True)
        n = len(samples)
        signed = bool((samples < 0).any())
        slices = parts(n)
        columns = np.sum([_edges(samples[part], signed).sum(axis=0) for part in slices], axis=0)
        total = columns.sum()
        root = np.where(columns > 0, 1 / np.sqrt(np.maximum(columns, np.finfo(float).tiny)), 0.0)
        constant = np.sqrt(columns / total) if total > 0 else columns

        def rows(part: slice) -> Array:
            A = _edges(samples[part], signed)
            degree = A.sum(axis=1)
            scaled = A * root / np.sqrt(np.where(degree > 0, degree, 1.0))[:, None]
            return scaled - np.outer(scaled @ constant, constant)  # remove the constant function

        axes = leading_axes(rows, n, len(columns), self.n_bits)
        found = len(axes.lengths)
        reason = f"the graph of n_samples={n} and n_features={samples.shape[1]} has {found} functions not constant"
        check_most_bits(self.n_bits, found, reason)
        terms = axes.vectors * root / axes.lengths[:, None]
        values = np.concatenate([_shares(samples[part], signed) @ terms.T for part in slices])
        self.terms_, self.threshold_, self.n_bits_ = terms, np.median(values, axis=0), self.n_bits
        return self

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        signed = self.terms_.shape[1] > self.n_features_in_
        return (_shares(X, signed) @ self.terms_.T - self.threshold_).astype(X.dtype)

    def _width(self) -> int:
        return max(super()._width(), 2 * self.terms_.shape[1])

    def _check_state(self) -> None:
        check_integer("n_bits_", self.n_bits_, 1, MOST_BITS)
        d = self.n_features_in_
        width = 2 * d if self.terms_.shape[-1] == 2 * d else d
        check_arrays(self, {"terms_": (self.n_bits_, width), "threshold_": (self.n_bits_,)})


def _edges(X: NDArray[np.floating], signed: bool) -> Array:
    """Return A, (n, d), or (n, 2 d) with the magnitudes of negative values in the second half."""
    positive = np.maximum(X, 0).astype(np.float64)
    return np.hstack([positive, np.maximum(-X, 0)]) if signed else positive


def _shares(X: NDArray[np.floating], signed: bool) -> Array:
    """Return the edges of each sample divided by their sum; zeros for a sample without edges."""
    A = _edges(X, signed)
    degree = A.sum(axis=1, keepdims=True)
    return A / np.where(degree > 0, degree, 1.0)
