"""Likeness: what the original distances say, as rows and as bits (docs/method.md, section 9).

Class rows ask that a sample lies nearer to its own class. Likeness rows ask that samples which are near each other in
the original space stay nearer than samples which are farther, by a margin that follows the difference of distances.

Bits of likeness are directions of orthogonal rotations of the leading principal axes, as in iterative quantisation:
balanced, decorrelated and aligned with the variance. Labels, where there are any, shape the axes: directions in which
samples of one class differ are shrunk, so these bits carry over to classes without labels. Each bit is the direction
of the present rotation whose dual constraint is violated most.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbid.learning.axes import parts
from cbid.learning.bits import Bit, TakenBits
from cbid.learning.features import Whitening
from cbid.learning.neighbourhoods import of_unit_size
from cbid.learning.rows import Rows, rows_from_triplets
from cbid.learning.sides import PairSides

__all__ = [
    "NU_PER_BIT",
    "LikenessAxes",
    "LikenessSearch",
    "difficulty",
    "fit_likeness_axes",
    "fit_rotation",
    "is_likeness_bit",
    "likeness_rows",
    "n_first_class_bits",
]

Array = NDArray[np.floating]

# The first rotation has one axis for each class within these limits, the next ones twice as many as the one before.
_LEAST_AXES, _MOST_FIRST_AXES, _MOST_AXES = 32, 48, 256
_TURNS = 50

# What an axis counts for in a rotation, for each earlier one that had it. Class bits know the leading axes, so beside
# them new bits say what others do not; alone, all rotations keep the original proportions.
_CODED_BESIDE_CLASS, _CODED_ALONE = 0.5, 1.0

# Rows: anchors, the samples that they are compared with, and steps of the ladder from the nearest to the farthest.
_ANCHORS, _REFERENCES, _STEPS = 2000, 20_000, 8

# Penalty of rows of likeness for each bit of the code, beside nu: even weights order unseen samples best.
NU_PER_BIT = 0.08

# Share of the typical variance that is added to the variance within classes before it is divided out.
_SHRINKAGE = 1.0


def is_likeness_bit(bit: int, likeness: float, n_classes: int, hard: float = 1.0) -> bool:
    """Return whether bit 0, 1, ... of a code is a bit of likeness; it depends on nothing that is learned later.

    ``hard`` is the `difficulty` of the classes.
    """
    return _n_class_bits(bit + 1, likeness, n_classes, hard) == _n_class_bits(bit, likeness, n_classes, hard)


def difficulty(error: float | None) -> float:
    """Return how many class bits classes need, as a share of the most, by the ``error`` of their trial (None: all).

    Few bits part classes that are far from each other; where they overlap, each further bit corrects some errors.
    """
    return 1.0 if error is None else float(np.clip((error / _HARD_ERROR) ** _ERROR_POWER, _LEAST_HARD, 1.0))


def n_first_class_bits(likeness: float) -> int:
    """Return how many bits at the start of a code are class bits, whatever its length; below 1 at least one is."""
    return math.ceil(_FIRST_CLASS_BITS * min(1.0, 2 * (1 - likeness)))


def _n_class_bits(length: int, likeness: float, n_classes: int, hard: float) -> int:
    """Return how many of the first ``length`` bits are class bits.

    To name one of k classes takes log2(k) bits; more of them correct errors, each less than the one before. So their
    number grows with log2(k), with the difficulty of the classes, and more slowly than the code. The very first bits
    are class bits.
    """
    if likeness in (0, 1):
        return length if likeness == 0 else 0
    first = n_first_class_bits(likeness)
    ratio = (1 - likeness) / likeness
    ratio = min(ratio**0.25, ratio**_POWER)
    # Rounded first: a product may lie below a whole number by its last digit.
    later = round(hard * _CLASS_BITS * np.log2(max(n_classes, 2)) * ratio * length**_POWER, 9)
    most = first + (length - first) * (1 - _LEAST_SHARE * likeness)  # many classes leave some bits for likeness, too
    return min(length, int(max(first, min(later, round(most, 9)))))


# Chosen on validation splits with _CLASS_ROW: fewer class bits cost more than .01 of seen mAP, more cost unseen mAP.
# _LEAST_SHARE times likeness is the least share of likeness among the bits after the first.
_FIRST_CLASS_BITS = 16
_CLASS_BITS = 0.7
_POWER = 0.66
_LEAST_SHARE = 0.25
# Fitted to validation splits of Scene-15 (trial error .05) and Fashion-MNIST (.17), benchmarks/likeness_study.py.
_HARD_ERROR, _ERROR_POWER, _LEAST_HARD = 0.17, 0.58, 0.8


@dataclass(frozen=True)
class LikenessAxes:
    """Projections P = (X - mean) @ basis on axes of descending variance, (d, c)."""

    mean: NDArray[np.float64]
    basis: NDArray[np.float64]

    def __call__(self, X: Array) -> NDArray[np.float32]:
        """Return projections (n, c)."""
        return ((X - self.mean.astype(X.dtype)) @ self.basis.astype(X.dtype)).astype(np.float32)


def fit_likeness_axes(X: Array, whitening: Whitening, y: NDArray[np.integer] | None) -> LikenessAxes:
    """Return the principal axes of X after the variance within classes has been shrunk.

    ``whitening`` holds the principal axes of X. ``y`` (n,) has class numbers, -1 without a label. None, or
    a single member of each class, leaves the axes as they are.
    """
    # Undo the whitening: orthogonal axes in the units of X.
    basis = whitening.basis[:, :_MOST_AXES] * whitening.scale[:_MOST_AXES]
    P = ((X - whitening.mean.astype(X.dtype)) @ basis.astype(X.dtype)).astype(np.float64)
    if y is not None:
        within = _within_scatter(P, y)
        if within is not None:
            variance, axes = np.linalg.eigh(within)
            variance = np.maximum(variance, 0)
            typical = float(variance @ variance / variance.sum()) if variance.any() else 1.0
            shrink = (axes / np.sqrt(variance + _SHRINKAGE * typical)) @ axes.T
            basis, P = basis @ shrink, P @ shrink
    variance, axes = np.linalg.eigh(P.T @ P / len(P))
    kept = variance[::-1] > 1e-9 * variance[-1]
    return LikenessAxes(whitening.mean, basis @ axes[:, ::-1][:, kept])


def _within_scatter(P: NDArray[np.float64], y: NDArray[np.integer]) -> NDArray[np.float64] | None:
    """Return the mean scatter of samples around their class means, (c, c); None without two samples of one class."""
    labelled = np.flatnonzero(y >= 0)
    sizes = np.bincount(y[labelled]) if len(labelled) else np.zeros(0, dtype=np.int64)
    if not (sizes > 1).any():
        return None
    sums = np.zeros((len(sizes), P.shape[1]))
    np.add.at(sums, y[labelled], P[labelled])
    R = P[labelled] - (sums / np.maximum(sizes, 1)[:, None])[y[labelled]]
    return R.T @ R / max(len(R) - (sizes > 0).sum(), 1)


def fit_rotation(
    V: NDArray[np.float64], n_bits: int, *, n_iter: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return R (c, n_bits) with orthonormal rows that lowers ||B - V R||^2, B = sign(V R), from a random start.

    V : (n, c) with c <= n_bits. With fewer axes than bits this is the same as adding axes of zeros. Each turn is an
    orthogonal Procrustes problem: with B' V = U S W', the best R is W U'.
    """
    R = np.linalg.qr(rng.standard_normal((n_bits, n_bits)))[0][: V.shape[1]]
    for _ in range(n_iter):
        B = np.where(V @ R >= 0, 1.0, -1.0)
        U, _, Wt = np.linalg.svd(B.T @ V, full_matrices=False)
        R = Wt.T @ U.T
    return R


def likeness_rows(X: Array, rng: np.random.Generator) -> tuple[Rows, NDArray[np.float64]]:
    """Return rows (near before farther), and by how much farther in units of the mean distance.

    For each anchor the other samples are sorted by distance and cut into steps that grow geometrically. One row
    compares a random sample of a step with one of the next: fine near the anchor, coarse far from it. At most
    ``_ANCHORS`` anchors are compared with ``_REFERENCES`` samples, so time and memory are bounded.
    """
    n = len(X)
    if n < 3:
        raise ValueError(f"X has {n} samples: expected at least 3 to compare a near one with a farther one")
    anchors = np.sort(rng.choice(n, size=min(n, _ANCHORS), replace=False))
    others = np.sort(rng.choice(n, size=min(n, _REFERENCES), replace=False))
    unit = of_unit_size(X)
    edges = np.unique(np.concatenate([[0], np.round(np.geomspace(1, len(others) - 1, _STEPS + 1))])).astype(np.int64)
    cuts = np.concatenate([[0], edges[1:-1] + 1])  # inside a step the order does not matter
    triplets, far = [], []
    total, count = 0.0, 0
    for part in parts(len(anchors), 256):
        i = anchors[part]
        D = _distances(unit[i], unit[others])
        D[i[:, None] == others] = -1.0  # the sample itself comes first, and is skipped
        order = np.argpartition(D, cuts, axis=1)[:, 1:]
        total, count = total + float(D.clip(0).sum()), count + D.size
        row = np.arange(len(i))
        for start, middle, end in zip(edges, edges[1:], edges[2:]):
            j = order[row, rng.integers(start, middle, len(i))]
            k = order[row, rng.integers(middle, end, len(i))]
            triplets.append(np.stack([i, others[j], others[k]]))
            far.append(D[row, k] - D[row, j])
    rows = rows_from_triplets(n, *np.concatenate(triplets, axis=1))
    return rows, np.concatenate(far).astype(np.float64) / (total / count or 1.0)


def _distances(A: NDArray[np.float32], B: NDArray[np.float32]) -> NDArray[np.float32]:
    squares = np.einsum("ij,ij->i", A, A)[:, None] + np.einsum("ij,ij->i", B, B) - 2 * (A @ B.T)
    return np.sqrt(np.maximum(squares, 0))


class LikenessSearch:
    """Gives bits of likeness: the most violated direction of a rotation, rotation after rotation.

    Parameters
    ----------
    P : (n, c) float32
        Projections on the likeness axes.
    basis : (d, c)
        The axes.
    rows : Rows
        Rows of likeness; each side is one pair.
    seed : int
        Each rotation draws from its own generator, so a bit depends on its number alone.
    n_classes : int
        Many classes need more axes; 0 if there are no labels.
    beside_class : bool
        Whether the code has class bits too.
    """

    def __init__(
        self,
        P: NDArray[np.float32],
        basis: NDArray[np.float64],
        rows: Rows,
        seed: int,
        n_classes: int = 0,
        *,
        beside_class: bool = False,
    ) -> None:
        self.P, self.basis, self.rows, self.seed = P, basis, rows, seed
        self._coded = _CODED_BESIDE_CLASS if beside_class else _CODED_ALONE
        self._n_axes = int(np.clip(n_classes, _LEAST_AXES, _MOST_FIRST_AXES))
        self._scale = np.ones(P.shape[1])
        self._rotation = -1
        self._free: list[int] = []
        self._next_rotation()

    def _next_rotation(self) -> None:
        self._rotation += 1
        c = min(self._n_axes * 2**self._rotation, _MOST_AXES, self.P.shape[1])
        rng = np.random.default_rng([self.seed, 2**20 + self._rotation])
        # A sample of the rows turns the axes as well as all of them.
        sample = rng.choice(len(self.P), min(len(self.P), 50 * c), replace=False)
        V = self.P[sample, :c] * self._scale[:c]
        V /= np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-300)  # only directions matter to signs
        # Columns of R are directions over the axes, (c, c).
        self._R = self._scale[:c, None] * fit_rotation(V, c, n_iter=_TURNS, rng=rng)
        self._H = np.where(self.P[:, :c] @ self._R.astype(np.float32) >= 0, np.float32(1), np.float32(-1))
        self._scale[:c] *= self._coded
        self._free = list(range(c))
        # Whether the two samples of each side agree under each direction, +1 or -1: misses, then hits.
        sides = [side.pairs() for side in (self.rows.misses, self.rows.hits) if isinstance(side, PairSides)]
        self._agree = [self._H[i] * self._H[j] for i, j, *_ in sides]

    def skip(self, h: NDArray[np.float32]) -> None:
        """Mark the direction of a bit learned before as used."""
        agreement = np.abs(h @ self._H)
        used = max(self._free, key=lambda c: agreement[c])
        self._remove(used)

    def _remove(self, column: int) -> None:
        self._free.remove(column)
        if not self._free:
            self._next_rotation()

    def best(
        self, side_weights: list[NDArray[np.float64]], taken: TakenBits, subset: Callable[[Array], Array]
    ) -> Bit:
        """Return the free direction of the present rotation that the rows ask for most."""
        worth = sum(
            weight.sum() - weight.astype(np.float32) @ agree for weight, agree in zip(side_weights, self._agree)
        )
        worth = np.asarray(worth, dtype=np.float64)
        ordered = sorted(self._free, key=lambda c: -worth[c])
        column = next((c for c in ordered if not taken.holds(subset(self._H[:, c]))), ordered[0])
        bit = Bit(
            self.basis[:, : len(self._R)] @ self._R[:, column],
            0.0,
            self._H[:, column],
            float(worth[column]),
            whitened=False,
            likeness=True,
        )
        self._remove(column)
        return bit
