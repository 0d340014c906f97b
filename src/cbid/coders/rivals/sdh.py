"""Supervised hashing with bits that are binary during learning.

SDH: codes that a linear classifier separates. COSDISH: bits from sampled columns of the label similarity, then hash
functions that predict them.

"""

from typing import Self

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve

from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator, kernel_features
from cbid.coders.mixins import LabelKinds, SupervisedMixin, check_arrays
from cbid.coders.rivals.common import Array, Seed
from cbid.learning.features import Anchors
from cbid.learning.ridge import RidgeMap
from cbid.learning.scaling import centre
from cbid.params import check_params, choice, estimator, integer, param, positive, real


@estimator
class _FeatureCoder(SupervisedMixin, HyperplaneCoder):
    """Hash functions over X, or over similarities to random training samples, learned from labels."""

    n_bits: int = param(64, integer(1, MOST_BITS))
    kernel: str | None = param(None, choice(None, "rbf"))
    n_anchors: int = param(1000, integer(1))
    gamma: float | None = param(None, positive)
    random_state: Seed = 0

    def _prepare(
        self, X: ArrayLike, y: ArrayLike
    ) -> tuple[LabelKinds, np.random.Generator, Anchors | None, NDArray[np.floating]]:
        """Check the parameters, X and y; return the labels, the generator, and the anchors and features of X."""
        check_params(self)
        samples, kinds = self._label_kinds(X, y)
        rng = generator(self.random_state)
        anchors, F = kernel_features(samples, kernel=self.kernel, n_anchors=self.n_anchors, gamma=self.gamma, rng=rng)
        return kinds, rng, anchors, F


def _random_bits(n: int, n_bits: int, rng: np.random.Generator) -> Array:
    return np.where(rng.standard_normal((n, n_bits)) >= 0, 1.0, -1.0)


@estimator
class SDH(_FeatureCoder):
    """Supervised discrete hashing (Shen, Shen, Liu and Shen, CVPR 2015), with the squared loss.

    Minimises ||Y - B W||^2 + lam ||W||^2 + nu (||B - F P||^2 + ridge ||P||^2) over bits B in -1/+1 (n, n_bits),
    classifiers W and hash functions P. Y holds the indicators of the classes and F the features: similarities to
    anchors, or X. W and P are ridge regressions. Each column of B is updated exactly, given the others (discrete
    cyclic coordinate descent). The code of x is the sign of f(x) P.

    Parameters
    ----------
    n_bits : int, default=64
    kernel : {"rbf", None}, default="rbf"
        Similarities to ``n_anchors`` random training samples, as in the paper, or X itself.
    n_anchors : int, default=1000
    gamma : float > 0 or None, default=None
        Parameter of the kernel. None: the inverse of the total variance of X.
    lam, nu : float, default=1.0 and 1e-5
        Weights of the classifiers' ridge and of the fit of the hash functions (as in the authors' program).
    ridge : float, default=1e-2
        Ridge of the hash functions (as in the authors' program), with X centred and scaled to unit mean squared
        length.
    n_iter : int, default=5
        Iterations over W, P and B (5 in the authors' program).
    n_sweeps : int, default=10
        Largest number of passes over the bits in an iteration; they stop when no bit changes.
    random_state : int, RandomState or None, default=0
        Seed of the anchors and the initial bits.

    Attributes
    ----------
    objective_ : (n_iter + 1,)
        Value after fitting W and P to the initial bits, and after each iteration.
    """

    _ARRAYS = HyperplaneCoder._ARRAYS | {"objective_"}

    kernel: str | None = param("rbf", choice(None, "rbf"))
    lam: float = param(1.0, positive)
    nu: float = param(1e-5, real(0))
    ridge: float = param(1e-2, real(0))
    n_iter: int = param(5, integer(1))
    n_sweeps: int = param(10, integer(1))

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,), or a matrix or lists of several labels each."""
        kinds, rng, anchors, F = self._prepare(X, y)
        functions = RidgeMap(F, self.ridge, unit=1.0 if anchors else centre(F).unit)
        Y = kinds.matrix.toarray().astype(np.float64)
        B = _random_bits(len(Y), self.n_bits, rng)
        trace = []
        for turn in range(self.n_iter + 1):
            W = fit_classifiers(B, Y, self.lam)
            P, offset = functions.solve(B)
            FP = functions.apply(P, offset)
            fit = np.sum((B - FP) ** 2) + self.ridge * np.sum(P**2)
            trace.append(np.sum((Y - B @ W) ** 2) + self.lam * np.sum(W**2) + self.nu * fit)
            if turn < self.n_iter:
                B = update_bits(B, W, Y @ W.T + self.nu * FP, self.n_sweeps)
        self.objective_ = np.array(trace)
        return self._set_hyperplanes(P / functions.unit, offset, functions.mean, anchors)

    def _check_state(self) -> None:
        super()._check_state()
        check_arrays(self, {"objective_": (self.n_iter + 1,)})


def fit_classifiers(B: Array, Y: Array, lam: float) -> Array:
    """Return W (t, k), the ridge regression of the indicators on the bits."""
    return solve(B.T @ B + lam * np.eye(B.shape[1]), B.T @ Y, assume_a="pos")


def update_bits(B: Array, W: Array, Q: Array, n_sweeps: int) -> Array:
    """Lower ||B W||^2 - 2 tr(B' Q), Q = Y W' + nu F P, over the bits B, one column at a time.

    With the other columns fixed, the best column s is sign(Q_s - B W w_s' + B_s |w_s|^2); a tie keeps the old bit.
    """
    B = B.copy()
    gram = W @ W.T
    for _ in range(n_sweeps):
        changed = False
        for s in range(B.shape[1]):
            pull = Q[:, s] - B @ gram[s] + B[:, s] * gram[s, s]
            new = np.where(pull == 0, B[:, s], np.sign(pull))
            changed |= not np.array_equal(new, B[:, s])
            B[:, s] = new
        if not changed:
            break
    return B


@estimator
class COSDISH(_FeatureCoder):
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

    n_columns: int | None = param(None, integer(1))
    n_rounds: int = param(10, integer(1))
    n_turns: int = param(3, integer(1))
    ridge: float = param(1.0, real(0))

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,), or a matrix or lists of several labels each."""
        kinds, rng, anchors, F = self._prepare(X, y)
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
        B = _random_bits(n, self.n_bits, rng)
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
        same = self.of_drawn[:, None] == self.of_drawn
        if self.alike is not None:
            same = self.alike[np.ix_(self.of_drawn, self.of_drawn)]
        return np.where(same, 1.0, -self.other)

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
