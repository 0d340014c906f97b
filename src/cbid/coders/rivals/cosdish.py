"""COSDISH: bits from sampled columns of the label similarity, then hash functions that predict them."""

from typing import Self

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator, kernel_features
from cbid.coders.mixins import LabelKinds, SupervisedMixin
from cbid.coders.rivals.common import Array, Seed
from cbid.learning.ridge import RidgeMap
from cbid.params import check_params, estimator, integer, param, real

__all__ = ["COSDISH"]


@estimator
class COSDISH(SupervisedMixin, HyperplaneCoder):
    """Column-sampling discrete supervised hashing (Kang, Li and Zhou, AAAI 2016), with linear hash functions.

    The bits B (n, n_bits) of all samples should have B B' near n_bits S. S is 1 for a pair of one class (or of at
    least one common label); for other pairs it is a negative value such that the entries sum to zero, as in the
    authors' program. Each round draws some columns of S and alternates two updates: the bits of the drawn samples,
    one bit at a time given the bits before it, and the bits of all other samples, B = sign(S B_drawn). Then ridge
    regressions learn to predict the bits.

    S has one value within a class and one between classes, so no column of it is stored. The binary quadratic problem
    of the drawn samples is solved by greedy flips; the paper uses clustering.

    Parameters
    ----------
    n_bits : int, default=64
    n_columns : int or None, default=None
        Columns drawn in a round. None: n_bits, as the authors choose.
    n_rounds, n_turns : int, default=10 and 3
        Rounds, and alternations in each round (10 and 3 in the authors' program).
    ridge : float >= 0, default=1.0
        Ridge of the hash functions (1 in the authors' program), over columns of unit variance.
    kernel : None or "rbf", default=None
        Hash functions over X, or over similarities to ``n_anchors`` training samples with ``gamma`` (None: the
        inverse of the total variance of X). Similarities are not scaled to unit variance.
    random_state : int, RandomState or None, default=0
        Seed of the initial bits, the columns and the anchors.
    """

    n_bits: int = param(64, integer(1, MOST_BITS))
    n_columns: int | None = param(None, integer(1))
    n_rounds: int = param(10, integer(1))
    n_turns: int = param(3, integer(1))
    ridge: float = param(1.0, real(0))
    kernel: str | None = None
    n_anchors: int = 1000
    gamma: float | None = None
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,), or a matrix or lists of several labels each."""
        check_params(self)
        self._check_kernel(self.kernel, self.n_anchors, self.gamma)
        samples, kinds = self._label_kinds(X, y)
        rng = generator(self.random_state)
        anchors, F = kernel_features(samples, kernel=self.kernel, n_anchors=self.n_anchors, gamma=self.gamma, rng=rng)
        deviation = np.ones(F.shape[1])
        if anchors is None:
            deviation = F.std(axis=0, dtype=np.float64)
            deviation[deviation == 0] = 1.0
        B = self._learn_bits(kinds, rng)
        functions = RidgeMap(F / deviation.astype(F.dtype), self.ridge)
        P, offset = functions.solve(B)
        return self._set_hyperplanes(P / deviation[:, None], offset, functions.mean * deviation, anchors)

    def _learn_bits(self, kinds: LabelKinds, rng: np.random.Generator) -> Array:
        n = len(kinds.numbers)
        B = np.where(rng.standard_normal((n, self.n_bits)) >= 0, 1.0, -1.0)
        for _ in range(self.n_rounds):
            drawn = rng.choice(n, size=min(self.n_columns or self.n_bits, n), replace=False)
            rest = np.setdiff1d(np.arange(n), drawn)
            columns = Columns(kinds.numbers, drawn, rest, kinds.n_kinds, kinds.alike)
            for _ in range(self.n_turns):
                improve_drawn(columns, B, self.n_bits)
                pull = columns.among_rest(B[drawn])
                B[rest] = np.where(pull == 0, B[rest], np.sign(pull))
        return B


class Columns:
    """Some columns of S: 1 for a pair of one class, ``-other`` for other pairs; the entries sum to zero.

    ``alike`` (classes, classes) says which classes count as one; None: each only with itself.
    """

    def __init__(
        self,
        labels: NDArray[np.int64],
        drawn: NDArray[np.int64],
        rest: NDArray[np.int64],
        n_classes: int,
        alike: NDArray[np.bool_] | None = None,
    ) -> None:
        self.alike = alike
        self.drawn, self.rest, self.n_classes = drawn, rest, n_classes
        self.of_drawn, self.of_rest = labels[drawn], labels[rest]
        sizes = np.bincount(labels, minlength=n_classes)
        same = int((sizes if alike is None else alike @ sizes)[self.of_drawn].sum())
        self.other = same / max(len(labels) * len(drawn) - same, 1)

    def among_drawn(self) -> Array:
        """Return S between the drawn samples, (c, c)."""
        if self.alike is None:
            return np.where(self.of_drawn[:, None] == self.of_drawn, 1.0, -self.other)
        return np.where(self.alike[np.ix_(self.of_drawn, self.of_drawn)], 1.0, -self.other)

    def among_rest(self, V: Array) -> Array:
        """Return S between the rest and the drawn samples, times V (c, t): (n - c, t)."""
        return self._times(V, self.of_drawn, self.of_rest)

    def from_rest(self, V: Array) -> Array:
        """Return the transpose of the same block, times V (n - c, t): (c, t)."""
        return self._times(V, self.of_rest, self.of_drawn)

    def _times(self, V: Array, source: NDArray[np.int64], target: NDArray[np.int64]) -> Array:
        sums = np.zeros((self.n_classes, V.shape[1]))
        np.add.at(sums, source, V)
        similar = sums if self.alike is None else self.alike @ sums
        return (1 + self.other) * similar[target] - self.other * sums.sum(axis=0)


def improve_drawn(columns: Columns, B: Array, scale: float) -> None:
    """Update the bits of the drawn samples in place, one bit at a time, to bring B B' nearer to scale S.

    Bit k, given the bits before it, minimises b' Q b + p' b with Q = -2 (scale S - sum of b_m b_m') between drawn
    samples and p = -2 (scale S - sum of B_m b_m')' B_k from the rest, m < k (sections 3.2 and 3.3 of the paper).
    """
    drawn, rest = columns.drawn, columns.rest
    Q = -2 * scale * columns.among_drawn()
    linear = -2 * scale * columns.from_rest(B[rest])  # (c, t)
    gram = B[rest].T @ B[rest]  # (t, t)
    for k in range(B.shape[1]):
        p = linear[:, k] + 2 * B[drawn, :k] @ gram[:k, k]
        starts = [B[drawn, k], np.where(p > 0, -1.0, 1.0)]
        b = min((descend(Q, p, start) for start in starts), key=lambda bits: energy(Q, p, bits))
        B[drawn, k] = b
        Q += 2 * np.outer(b, b)


def energy(Q: Array, p: Array, b: Array) -> float:
    """Return b' Q b + p' b."""
    return float(b @ Q @ b + p @ b)


def descend(Q: Array, p: Array, start: Array) -> Array:
    """Lower b' Q b + p' b over b in -1/+1: from ``start``, make the best flip until no flip helps.

    Q : (n, n) symmetric. Its diagonal only adds a constant and is ignored.
    """
    Q = Q.astype(np.float64)
    np.fill_diagonal(Q, 0)
    b = start.astype(np.float64)
    _descend(Q, p.astype(np.float64), b, 1e-9 * (np.abs(Q).max(initial=0) + np.abs(p).max(initial=0)))
    return b


@numba.njit(nogil=True, cache=True)
def _descend(Q, p, b, least):  # type: ignore[no-untyped-def]
    n = len(b)
    # Flipping bit i changes the energy by -4 b_i (Q b)_i - 2 p_i b_i.
    pull = 4 * (Q @ b) + 2 * p
    while True:
        best, gain = -1, least
        for i in range(n):
            if b[i] * pull[i] > gain:
                best, gain = i, b[i] * pull[i]
        if best < 0:
            return
        b[best] = -b[best]
        for j in range(n):
            pull[j] += 8 * b[best] * Q[j, best]
