"""FastHash: ideal bits by graph cuts, then boosted decision trees that predict them."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_integer, check_real
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS, generator
from cbid.coders.rivals.block_cut import class_blocks, infer_bit
from cbid.coders.rivals.boosted_trees import boost, fit_bins, sum_of_trees
from cbid.coders.shapes import check_arrays, check_indices
from cbid.coders.supervised import SupervisedMixin
from cbid.learning.centring import centre

__all__ = ["FastHash"]

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
