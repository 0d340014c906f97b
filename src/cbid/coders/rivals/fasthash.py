"""FastHash."""

from typing import Any, Self

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from cbid.checks import check_integer, check_real
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS, generator
from cbid.coders.rivals.boosted_trees import boost, fit_bins, sum_of_trees
from cbid.coders.shapes import check_arrays, check_indices
from cbid.coders.supervised import SupervisedMixin
from cbid.learning.centring import centre

__all__ = ["FastHash"]

Bits = NDArray[np.float32]
Numbers = NDArray[np.integer]
_MOST_FLOW = 2**30  # capacities are int32

MOST_DEPTH = 10


class FastHash(SupervisedMixin, Coder):
    """Two-step hashing with boosted decision trees (Lin, Shen, Shi, van den Hengel and Suter, CVPR 2014).

    Bits come one at a time. Step 1 infers the side of every training sample: pairs of one class shall agree in all
    bits, others differ in half of them (hinge loss), by exact graph cuts over blocks of one class. Step 2 boosts
    trees that predict these sides; the next bit builds upon what the trees say.

    Learning visits all pairs of samples for each bit, a block of rows at a time: its time grows with n_bits n^2, its
    memory with n.

    Parameters
    ----------
    n_bits : int
    n_trees, depth : int
        Trees of a bit and their depth, 1 to 10 (the paper's 200 and 4).
    n_features : int or None
        Random features that a split looks at, at most all (the paper's LazyBoost). None: the square root of their
        number.
    trim : float in (0, 1)
        Share of the weight whose heaviest holders a tree is learned from (the paper's weight trimming).
    block_size : int
        Most samples of a class whose sides are cut at once.
    n_sweeps : int
        Passes over the blocks.
    random_state : int, RandomState or None
        Draws the sides that classes start from, and the trees' features.

    Attributes
    ----------
    features_, thresholds_ : (n_bits_, n_trees, 2^depth - 1) int32 and float32
        The trees, each stored as a complete one, level by level: left where x[feature] <= threshold.
    leaves_ : (n_bits_, n_trees, 2^depth) int8
        Their answers, -1 or +1.
    tree_weights_ : (n_bits_, n_trees) float32
    mean_, unit_ : (d,) and float
        Thresholds apply to (x - mean_) / unit_.
    """

    _ARRAYS = frozenset({"features_", "thresholds_", "leaves_", "tree_weights_", "mean_"})
    _VALUES = Coder._VALUES | {"unit_"}

    def __init__(
        self,
        *,
        n_bits: int = 64,
        n_trees: int = 200,
        depth: int = 4,
        n_features: int | None = None,
        trim: float = 0.9,
        block_size: int = 200,
        n_sweeps: int = 2,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_trees = n_trees
        self.depth = depth
        self.n_features = n_features
        self.trim = trim
        self.block_size = block_size
        self.n_sweeps = n_sweeps
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,)."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        check_integer("n_trees", self.n_trees, 1)
        check_integer("depth", self.depth, 1, MOST_DEPTH)
        if self.n_features is not None:
            check_integer("n_features", self.n_features, 1)
        check_real("trim", self.trim, 0, 1, open_below=True)
        check_integer("block_size", self.block_size, 1)
        check_integer("n_sweeps", self.n_sweeps, 1)
        samples, numbers = self._labelled(X, y)
        rng = generator(self.random_state)
        data = centre(samples)
        self.mean_, self.unit_ = data.mean, data.unit
        Z = data.Z.astype(np.float32)
        bins = fit_bins(Z)
        n_features = min(self.n_features or max(1, round(Z.shape[1] ** 0.5)), Z.shape[1])
        blocks = class_blocks(numbers, self.block_size)
        H = np.empty((len(Z), self.n_bits), dtype=np.float32)
        bits = []
        for s in range(self.n_bits):
            start = _random_sides(numbers, len(self.classes_), rng)
            z = infer_bit(H[:, :s], numbers, blocks, self.n_bits, start, self.n_sweeps)
            trees = boost(
                Z,
                bins,
                z,
                n_trees=self.n_trees,
                depth=self.depth,
                n_features=n_features,
                trim=self.trim,
                rng=rng,
            )
            H[:, s] = np.where(trees(Z) >= 0, 1, -1)
            bits.append(trees)
        self.features_ = np.stack([trees.features for trees in bits])
        self.thresholds_ = np.stack([trees.thresholds for trees in bits])
        self.leaves_ = np.stack([trees.leaves for trees in bits])
        self.tree_weights_ = np.stack([trees.weights for trees in bits])
        self.n_bits_ = self.n_bits
        return self

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        most = np.finfo(np.float32).max
        with np.errstate(over="ignore"):  # what is beyond float32 is beyond every threshold
            Z = np.clip((X - self.mean_) / self.unit_, -most, most).astype(np.float32)
        bits = zip(self.features_, self.thresholds_, self.leaves_, self.tree_weights_)
        return np.column_stack([sum_of_trees(Z, *trees) for trees in bits]).astype(X.dtype, copy=False)

    def _check_state(self) -> None:
        check_integer("n_bits_", self.n_bits_, 1, MOST_BITS)
        check_real("unit_", self.unit_, 0, open_below=True)
        if self.leaves_.ndim != 3 or self.leaves_.shape[2] not in [2**depth for depth in range(1, MOST_DEPTH + 1)]:
            raise ValueError(f"leaves_ is {self.leaves_.shape}; it must be (n_bits, n_trees, 2^depth)")
        t, m, leaves = self.n_bits_, *self.leaves_.shape[1:]
        check_arrays(
            self, {"thresholds_": (t, m, leaves - 1), "tree_weights_": (t, m), "mean_": (self.n_features_in_,)}
        )
        check_indices(self, "features_", (t, m, leaves - 1), self.n_features_in_)
        check_indices(self, "leaves_", (t, m, leaves), 2, least=-1)


def _random_sides(numbers: NDArray[np.int64], n_classes: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Half of the classes, drawn at random, on either side."""
    sides = np.where(rng.permutation(n_classes) % 2 == 0, 1, -1).astype(np.float32)
    return sides[numbers]


def class_blocks(numbers: Numbers, block_size: int) -> list[NDArray[np.intp]]:
    """Row numbers of blocks of at most ``block_size`` samples of one class, evenly sized."""
    blocks = []
    for r in range(int(numbers.max()) + 1):
        members = np.flatnonzero(numbers == r)
        if len(members):
            blocks += np.array_split(members, -(-len(members) // block_size))
    return blocks


def affinities(n_before: int, n_bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """8 a_ij by the distance 0..n_before of a pair, (n_before + 1,): of one class, and of two. Whole numbers."""
    d = np.arange(n_before + 1)
    apart = np.maximum(n_bits - 2 * d, 0) ** 2 - np.maximum(n_bits - 2 * d - 2, 0) ** 2
    return -4 * (2 * d + 1), apart


def infer_bit(H: Bits, numbers: Numbers, blocks: list[NDArray[np.intp]], n_bits: int, z: Bits, n_sweeps: int) -> Bits:
    """Sides z (n,) in -1/+1 that lower E from those given, block by block; ends early when no block changes.

    H : (n, r) the bits so far, in -1/+1, of the ``n_bits`` there will be.
    """
    z = z.copy()
    same, apart = affinities(H.shape[1], n_bits)
    for _ in range(n_sweeps):
        changed = False
        for block in blocks:
            products = H[block] @ H.T  # r - 2 d
            within = same[((H.shape[1] - products[:, block]) / 2).astype(np.int64)]
            pull = _pulls(products, H.shape[1], numbers, numbers[block[0]], z, same, apart)
            pull -= within @ z[block].astype(np.int64)
            new = cut_block(within, pull, z[block])
            changed |= not np.array_equal(new, z[block])
            z[block] = new
        if not changed:
            break
    return z


@numba.njit(nogil=True, cache=True)
def _pulls(products, n_before, numbers, of_block, z, same, apart):  # type: ignore[no-untyped-def]
    """sum_j 8 a_ij z_j over all samples j, for every sample i of a block of class ``of_block``."""
    pull = np.zeros(len(products), dtype=np.int64)
    for i in range(len(products)):
        for j in range(len(z)):
            d = int(n_before - products[i, j]) >> 1
            a = same[d] if numbers[j] == of_block else apart[d]
            pull[i] += a if z[j] > 0 else -a
    return pull


def cut_block(within: NDArray[np.int64], pull: NDArray[np.int64], z: Bits) -> Bits:
    """z (b,) that minimises sum_(i<j) within_ij z_i z_j + pull . z, exactly, for within <= 0 off the diagonal.

    As a cut, sides +1 and -1 stand for source and sink: joined samples cost |within| when parted, and a sample costs
    |pull| on the side it is pulled from. ``z`` is returned where it is as good.
    """
    b = len(pull)
    capacity = np.zeros((b + 2, b + 2), dtype=np.int64)
    capacity[:b, :b] = -within
    np.fill_diagonal(capacity, 0)
    capacity[b, :b] = np.maximum(-pull, 0)
    capacity[:b, b + 1] = np.maximum(pull, 0)
    # Flow past an int32 would wrap around: beyond, capacities are rounded.
    capacity //= max(1, -(-int(np.abs(pull).sum()) // _MOST_FLOW))
    graph = csr_matrix(capacity.astype(np.int32))
    left = graph - maximum_flow(graph, b, b + 1).flow
    left.eliminate_zeros()
    reached = breadth_first_order(left, b, return_predecessors=False)
    found = np.full(b, -1, dtype=np.float32)
    found[reached[reached < b]] = 1
    return found if _energy(within, pull, found) < _energy(within, pull, z) else z


def _energy(within: NDArray[np.int64], pull: NDArray[np.int64], z: Bits) -> int:
    sides = z.astype(np.int64)
    pairs = sides @ within @ sides - int(np.trace(within))
    return int(pairs) // 2 + int(pull @ sides)
