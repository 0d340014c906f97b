"""FastHash: targets for each bit by block graph cuts, then boosted decision trees that predict them.

Let d be the Hamming distance of two samples under the bits so far, of m bits in total. A pair of one class has the
loss d^2, a pair of two classes max(0, m/2 - d)^2. For the next bit z in -1/+1 the sum of losses is, up to a constant,
    E(z) = sum over pairs of a_ij z_i z_j,   2 a_ij = loss at d - loss at d + 1.
a_ij is negative within a class. So a block of samples of one class, with all others fixed, is a submodular problem
that a minimum cut solves exactly. Blocks are visited in turn; only the rows of one block are in memory at a time.

A tree of depth D is stored as a complete tree, level by level. Node i has children 2 i + 1 and 2 i + 2; a sample goes
left if x[feature] <= threshold. The 2^D leaves follow from left to right. A node that no split improves sends all
samples left.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from cbid.checks import check_integer, check_real
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS, generator
from cbid.coders.mixins import SupervisedMixin, check_arrays, check_indices
from cbid.coders.rivals.common import Seed
from cbid.learning.scaling import centre
from cbid.params import check_params, estimator, integer, param, real

Bits = NDArray[np.float32]
Labels = NDArray[np.integer]
MOST_DEPTH = 10
_MOST_FLOW = 2**30  # capacities are int32
_N_BINS = 256
_ALWAYS = np.finfo(np.float32).max  # a threshold that every finite float32 passes
_MIN_ERROR = 1e-10


@estimator
class FastHash(SupervisedMixin, Coder):
    """Two-step hashing with boosted decision trees (Lin, Shen, Shi, van den Hengel and Suter, CVPR 2014).

    Bits are learned one at a time. Step 1 infers a target for every training sample by exact graph cuts over blocks
    of one class: pairs of one class should agree in all bits, other pairs differ in half of them (hinge loss). Step 2
    boosts trees that predict these targets. The next bit depends on the trees' predictions.

    Learning visits all pairs of samples for each bit: its time grows with n_bits n^2, its memory with n.

    Parameters
    ----------
    n_bits : int, default=64
    n_trees, depth : int, default=200 and 4
        Trees per bit and their depth, 1 to 10 (200 and 4 in the paper).
    n_features : int or None, default=None
        Random features that a split considers (LazyBoost in the paper). None: the square root of their number.
    trim : float in (0, 1), default=0.9
        A tree learns from the heaviest samples that hold this share of the weight (weight trimming in the paper).
    block_size : int, default=200
        Largest number of samples in a graph cut.
    n_sweeps : int, default=2
        Passes over the blocks.
    random_state : int, RandomState or None, default=0
        Seed of the initial targets and of the trees' features.

    Attributes
    ----------
    features_, thresholds_ : (n_bits_, n_trees, 2^depth - 1) int32 and float32
        The trees, each stored as a complete tree, level by level: left if x[feature] <= threshold.
    leaves_ : (n_bits_, n_trees, 2^depth) int8
        Their outputs, -1 or +1.
    tree_weights_ : (n_bits_, n_trees) float32
    mean_, unit_ : (d,) and float
        Thresholds apply to (x - mean_) / unit_.
    """

    _ARRAYS = frozenset({"features_", "thresholds_", "leaves_", "tree_weights_", "mean_"})
    _VALUES = Coder._VALUES | {"unit_"}

    n_bits: int = param(64, integer(1, MOST_BITS))
    n_trees: int = param(200, integer(1))
    depth: int = param(4, integer(1, MOST_DEPTH))
    n_features: int | None = param(None, integer(1))
    trim: float = param(0.9, real(0, 1, open_below=True))
    block_size: int = param(200, integer(1))
    n_sweeps: int = param(2, integer(1))
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,), or a matrix or lists of several labels each."""
        check_params(self)
        samples, kinds = self._label_kinds(X, y)
        labels = kinds.numbers
        rng = generator(self.random_state)
        data = centre(samples)
        self.mean_, self.unit_ = data.mean, data.unit
        Z = data.Z.astype(np.float32)
        bins = fit_bins(Z)
        n_features = min(self.n_features or max(1, round(Z.shape[1] ** 0.5)), Z.shape[1])
        # Samples of one label are all similar, so each sample goes into a block of its most frequent label.
        blocks = class_blocks(labels if kinds.alike is None else most_frequent_labels(kinds.matrix), self.block_size)
        H = np.empty((len(Z), self.n_bits), dtype=np.float32)
        settings = {"n_trees": self.n_trees, "depth": self.depth, "n_features": n_features, "trim": self.trim}
        bits = []
        for s in range(self.n_bits):
            # Initial targets: +1 for a random half of the classes, -1 for the others.
            start = np.where(rng.permutation(kinds.n_kinds) % 2 == 0, 1, -1).astype(np.float32)[labels]
            z = infer_bit(H[:, :s], labels, blocks, self.n_bits, start, self.n_sweeps, kinds.alike)
            bits.append(boost(Z, bins, z, **settings, rng=rng))
            H[:, s] = np.where(bits[-1](Z) >= 0, 1, -1)
        self.features_, self.thresholds_, self.leaves_, self.tree_weights_ = map(np.stack, zip(*bits))
        self.n_bits_ = self.n_bits
        return self

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        most = np.finfo(np.float32).max
        with np.errstate(over="ignore"):  # values beyond float32 are beyond every threshold
            Z = np.clip((X - self.mean_) / self.unit_, -most, most).astype(np.float32)
        bits = zip(self.features_, self.thresholds_, self.leaves_, self.tree_weights_)
        return np.column_stack([sum_of_trees(Z, *trees) for trees in bits]).astype(X.dtype, copy=False)

    def _check_state(self) -> None:
        check_integer("n_bits_", self.n_bits_, 1, MOST_BITS)
        check_real("unit_", self.unit_, 0, open_below=True)
        if self.leaves_.ndim != 3 or self.leaves_.shape[2] not in [2**depth for depth in range(1, MOST_DEPTH + 1)]:
            raise ValueError(f"leaves_ {self.leaves_.shape}: expected (n_bits, n_trees, 2^depth)")
        t, m, leaves = self.n_bits_, *self.leaves_.shape[1:]
        check_arrays(
            self, {"thresholds_": (t, m, leaves - 1), "tree_weights_": (t, m), "mean_": (self.n_features_in_,)}
        )
        check_indices(self, "features_", (t, m, leaves - 1), self.n_features_in_)
        check_indices(self, "leaves_", (t, m, leaves), 2, least=-1)


def most_frequent_labels(matrix: csr_matrix) -> NDArray[np.int64]:
    """Return for each sample the one of its labels, (n, k) of 0 and 1, that most samples have."""
    counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
    cuts = zip(matrix.indptr, matrix.indptr[1:])
    return np.array([max(matrix.indices[a:b], key=lambda r: (counts[r], -r)) for a, b in cuts], dtype=np.int64)


def class_blocks(labels: Labels, block_size: int) -> list[NDArray[np.intp]]:
    """Return row indices of evenly sized blocks of at most ``block_size`` samples of one class."""
    blocks = []
    for r in range(int(labels.max()) + 1):
        members = np.flatnonzero(labels == r)
        if len(members):
            blocks += np.array_split(members, -(-len(members) // block_size))
    return blocks


def affinities(n_before: int, n_bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the integers 8 a_ij for distances 0..n_before: of pairs of one class, and of two classes."""
    d = np.arange(n_before + 1)
    apart = np.maximum(n_bits - 2 * d, 0) ** 2 - np.maximum(n_bits - 2 * d - 2, 0) ** 2
    return -4 * (2 * d + 1), apart


def infer_bit(
    H: Bits,
    labels: Labels,
    blocks: list[NDArray[np.intp]],
    n_bits: int,
    z: Bits,
    n_sweeps: int,
    alike: NDArray[np.bool_] | None = None,
) -> Bits:
    """Lower E block by block from targets z (n,) in -1/+1; stop early if no block changes.

    H : (n, r) the bits so far, in -1/+1; ``n_bits`` is their final number.
    alike : (classes, classes) which classes are similar, among them all of a block; None: each only to itself.
    """
    z = z.copy()
    similar = np.eye(int(labels.max()) + 1, dtype=bool) if alike is None else alike
    same, apart = affinities(H.shape[1], n_bits)
    for _ in range(n_sweeps):
        changed = False
        for block in blocks:
            products = H[block] @ H.T  # r - 2 d
            within = same[((H.shape[1] - products[:, block]) / 2).astype(np.int64)]
            linear = _linear_terms(products, H.shape[1], labels, labels[block], similar, z, same, apart)
            linear -= within @ z[block].astype(np.int64)
            new = cut_block(within, linear, z[block])
            changed |= not np.array_equal(new, z[block])
            z[block] = new
        if not changed:
            break
    return z


@numba.njit(nogil=True, cache=True)
def _linear_terms(products, n_before, labels, of_block, similar, z, same, apart):  # type: ignore[no-untyped-def]
    """Return sum_j 8 a_ij z_j over all samples j, for every sample i of a block with classes ``of_block``."""
    linear = np.zeros(len(products), dtype=np.int64)
    for i in range(len(products)):
        for j in range(len(z)):
            d = int(n_before - products[i, j]) >> 1
            a = same[d] if similar[of_block[i], labels[j]] else apart[d]
            linear[i] += a if z[j] > 0 else -a
    return linear


def cut_block(within: NDArray[np.int64], linear: NDArray[np.int64], z: Bits) -> Bits:
    """Minimise sum_(i<j) within_ij z_i z_j + linear . z exactly, for within <= 0 off the diagonal.

    +1 and -1 are the source and the sink of a cut: separating two samples costs |within|, and a sample on the side
    that its linear term disfavours costs |linear|. Return ``z`` (b,) if it is as good.
    """
    b = len(linear)
    capacity = np.zeros((b + 2, b + 2), dtype=np.int64)
    capacity[:b, :b] = -within
    np.fill_diagonal(capacity, 0)
    capacity[b, :b] = np.maximum(-linear, 0)
    capacity[:b, b + 1] = np.maximum(linear, 0)
    # Round large capacities: the int32 flow would overflow.
    capacity //= max(1, -(-int(np.abs(linear).sum()) // _MOST_FLOW))
    graph = csr_matrix(capacity.astype(np.int32))
    residual = graph - maximum_flow(graph, b, b + 1).flow
    residual.eliminate_zeros()
    reached = breadth_first_order(residual, b, return_predecessors=False)
    found = np.full(b, -1, dtype=np.float32)
    found[reached[reached < b]] = 1
    return found if _energy(within, linear, found) < _energy(within, linear, z) else z


def _energy(within: NDArray[np.int64], linear: NDArray[np.int64], z: Bits) -> int:
    z = z.astype(np.int64)
    return int(z @ within @ z - np.trace(within)) // 2 + int(linear @ z)


@dataclass(frozen=True)
class Bins:
    """Bin indices (n, d) uint8 and edges (d, 255): a value is in bin b or lower exactly if it is <= edge b."""

    indices: NDArray[np.uint8]
    edges: NDArray[np.float32]


class Trees(NamedTuple):
    """Boosted trees: features and thresholds (m, 2^D - 1), leaves (m, 2^D) in -1/+1, weights (m,)."""

    features: NDArray[np.int32]
    thresholds: NDArray[np.float32]
    leaves: NDArray[np.int8]
    weights: NDArray[np.float32]

    def __call__(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the weighted sum of the trees' outputs, (n,)."""
        return sum_of_trees(X, *self)


def fit_bins(X: NDArray[np.float32]) -> Bins:
    """Cut each feature into at most 256 bins: one per distinct value, or quantiles if there are more values."""
    indices = np.empty(X.shape, dtype=np.uint8)
    edges = np.full((X.shape[1], _N_BINS - 1), _ALWAYS, dtype=np.float32)
    for j, column in enumerate(X.T):
        values = np.unique(column).astype(np.float64)
        if len(values) > _N_BINS:
            values = np.unique(np.quantile(column, np.linspace(0, 1, _N_BINS), method="nearest")).astype(np.float64)
        between = _round_down((values[:-1] + values[1:]) / 2)
        edges[j, : len(between)] = between
        indices[:, j] = np.searchsorted(between, column, side="left")
    return Bins(indices, edges)


def _round_down(value: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the largest float32 not above the value, so that an edge stays below the next value."""
    rounded = value.astype(np.float32)
    return np.where(rounded > value, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def boost(
    X: NDArray[np.float32],
    bins: Bins,
    z: NDArray[np.floating],
    *,
    n_trees: int,
    depth: int,
    n_features: int,
    trim: float,
    rng: np.random.Generator,
) -> Trees:
    """Run discrete AdaBoost for targets z (n,) in -1/+1, which the sign of the trees' weighted sum predicts.

    Each split considers ``n_features`` random features (LazyBoost). Each tree learns from the heaviest samples that
    hold a share ``trim`` of the weight (weight trimming). Boosting stops when a tree makes no error or is no better
    than chance; the remaining trees have weight 0.
    """
    targets = np.asarray(z, dtype=np.int8)
    nodes = 2**depth - 1
    features = np.zeros((n_trees, nodes), dtype=np.int32)
    thresholds = np.full((n_trees, nodes), _ALWAYS, dtype=np.float32)
    leaves = np.ones((n_trees, nodes + 1), dtype=np.int8)
    weights = np.zeros(n_trees, dtype=np.float32)
    w = np.full(len(targets), 1 / len(targets))
    for m in range(n_trees):
        candidates = rng.random((nodes, X.shape[1])).argpartition(n_features - 1, axis=1)[:, :n_features]
        features[m], cuts, leaves[m] = grow(bins.indices, targets, w, _heaviest(w, trim), candidates, depth)
        thresholds[m] = np.where(cuts < _N_BINS - 1, bins.edges[features[m], np.minimum(cuts, _N_BINS - 2)], _ALWAYS)
        one = slice(m, m + 1)
        h = sum_of_trees(X, features[one], thresholds[one], leaves[one], np.ones(1, np.float32))
        error = float(w[h != targets].sum())
        if error >= 0.5 - _MIN_ERROR:
            if m == 0:  # no split separates the targets: predict the majority
                leaves[0], weights[0] = (1 if targets.sum() >= 0 else -1), 1.0
            break
        weights[m] = 0.5 * np.log((1 - error) / max(error, _MIN_ERROR))
        if error <= _MIN_ERROR:
            break
        w *= np.exp(-weights[m] * h * targets)
        w /= w.sum()
    return Trees(features, thresholds, leaves, weights)


def _heaviest(w: NDArray[np.float64], trim: float) -> NDArray[np.intp]:
    """Return the ascending indices of the heaviest samples that hold a share ``trim`` of the weight."""
    order = np.argsort(-w, kind="stable")
    needed = int(np.searchsorted(np.cumsum(w[order]), trim * w.sum())) + 1
    return np.sort(order[:needed])


@numba.njit(nogil=True, cache=True)
def grow(indices, z, w, rows, candidates, depth):  # type: ignore[no-untyped-def]
    """Grow one tree: return features, the last bin that goes left (255: all samples), and leaves in -1/+1.

    rows : the samples to learn from; candidates : (nodes, f) the features that each node may test. Each split lowers
    the weighted Gini impurity of z most.
    """
    nodes, f = candidates.shape
    feature = np.zeros(nodes, dtype=np.int32)
    cut = np.full(nodes, _N_BINS - 1, dtype=np.int64)
    at = np.zeros(len(rows), dtype=np.int64)  # the current node of each sample
    for level in range(depth):
        first, width = 2**level - 1, 2**level
        weight = np.zeros((width, f, _N_BINS, 2))
        for i in range(len(rows)):
            row, node = rows[i], at[i]
            side = 1 if z[row] > 0 else 0
            for j in range(f):
                weight[node - first, j, indices[row, candidates[node, j]], side] += w[row]
        for k in range(width):
            total_minus, total_plus = weight[k, 0, :, 0].sum(), weight[k, 0, :, 1].sum()
            total = total_minus + total_plus
            if total_minus <= 0 or total_plus <= 0:
                continue
            best = (total_minus**2 + total_plus**2) / total * (1 + 1e-12)
            for j in range(f):
                minus, plus = 0.0, 0.0
                for b in range(_N_BINS - 1):
                    if weight[k, j, b, 0] == 0 and weight[k, j, b, 1] == 0:
                        continue  # an empty bin: the same split as one bin lower
                    minus += weight[k, j, b, 0]
                    plus += weight[k, j, b, 1]
                    left, right = minus + plus, total - minus - plus
                    if right <= 1e-12 * total:
                        break
                    purity = (minus**2 + plus**2) / left
                    purity += ((total_minus - minus) ** 2 + (total_plus - plus) ** 2) / right
                    if purity > best:
                        best = purity
                        feature[first + k] = candidates[first + k, j]
                        cut[first + k] = b
        for i in range(len(rows)):
            node = at[i]
            at[i] = 2 * node + (1 if indices[rows[i], feature[node]] <= cut[node] else 2)
    votes = np.zeros(nodes + 1)
    for i in range(len(rows)):
        votes[at[i] - nodes] += w[rows[i]] * z[rows[i]]
    leaves = np.ones(nodes + 1, dtype=np.int8)
    for k in range(nodes + 1):
        if votes[k] < 0:
            leaves[k] = -1
    return feature, cut, leaves


@numba.njit(nogil=True, cache=True)
def sum_of_trees(X, features, thresholds, leaves, weights):  # type: ignore[no-untyped-def]
    """Return the weighted sum of the trees' outputs, (n,) float32."""
    n, m, nodes = len(X), len(features), features.shape[1]
    total = np.zeros(n, dtype=np.float32)
    for i in range(n):
        for tree in range(m):
            if weights[tree] == 0:
                continue
            node = 0
            while node < nodes:
                node = 2 * node + (1 if X[i, features[tree, node]] <= thresholds[tree, node] else 2)
            total[i] += weights[tree] * leaves[tree, node - nodes]
    return total
