"""Bits of linear classifiers.

Two baselines take them from class scores: the predicted class as a code, and LSH of the scores. PiCoDes are good
features of one-against-rest classifiers. MC-bit has classifiers of meta-classes, the nodes of a label tree.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from cbid.checks import as_random_state, check_integer
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.mixins import SupervisedMixin, check_arrays
from cbid.coders.rivals.common import Array, CodeLengthError, Seed, check_most_bits
from cbid.learning.scaling import centre
from cbid.params import check_params, estimator, integer, param, positive
from cbid.pooling.meta_class import MetaClass


@estimator
class ArgmaxCode(SupervisedMixin, Coder):
    """The class predicted by a linear classifier, written as a code: a baseline that supervised hashing should beat.

    One-against-rest linear SVMs predict a class. With n_bits >= n_classes its code is one-hot, padded with -1. With
    fewer bits it is the class index in binary, lowest digit first; this needs at least log2(n_classes) bits. Two
    samples share a code exactly if they share the predicted class. Sablayrolles, Douze, Usunier and Jegou (ICASSP
    2017) show that such codes do well if the queries belong to the classes seen in training.

    Parameters
    ----------
    n_bits : int or None, default=None
        None: n_classes.
    C : float > 0, default=1.0
        Weight of the SVM losses, as in LIBLINEAR, with X centred and scaled to unit mean squared length.

    Attributes
    ----------
    coef_, intercept_ : (n_classes, d), (n_classes,)
        The classifier; scores are (x - mean_) . coef_ + intercept_.
    mean_ : (d,)
    codewords_ : (n_classes, n_bits_) int8
    """

    _ARRAYS = frozenset({"coef_", "intercept_", "mean_", "codewords_"})

    n_bits: int | None = param(None, integer(1, MOST_BITS))
    C: float = param(1.0, positive)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,)."""
        check_params(self)
        samples, labels = self._labelled(X, y)
        n_classes = len(self.classes_)
        self.codewords_ = _codewords(n_classes, n_classes if self.n_bits is None else self.n_bits)
        data = centre(samples)
        W, self.intercept_ = fit_linear_scores(data.Z, labels, C=self.C)
        self.coef_, self.mean_ = np.ascontiguousarray(W.T) / data.unit, data.mean
        self.n_bits_ = self.codewords_.shape[1]
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the predicted class of each sample, which its code represents."""
        check_is_fitted(self)
        return self.classes_[np.concatenate([self._predict(part) for part in self._parts(X)])]

    def _predict(self, X: NDArray[np.floating]) -> NDArray[np.int64]:
        scores = (X - self.mean_.astype(X.dtype)) @ self.coef_.T.astype(X.dtype) + self.intercept_.astype(X.dtype)
        return scores.argmax(axis=1)

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        return self.codewords_[self._predict(X)].astype(X.dtype)

    def _width(self) -> int:
        return max(super()._width(), len(self.coef_))

    def _check_state(self) -> None:
        check_integer("n_bits_", self.n_bits_, 1, MOST_BITS)
        k, d = len(self.classes_), self.n_features_in_
        check_arrays(self, {"coef_": (k, d), "intercept_": (k,), "mean_": (d,)})
        if self.codewords_.dtype != np.int8 or not np.array_equal(self.codewords_, _codewords(k, self.n_bits_)):
            raise ValueError(f"codewords_: expected the codes of {k} classes in {self.n_bits_} bits")


@estimator
class ScoreLSH(SupervisedMixin, HyperplaneCoder):
    """Locality-sensitive hashing of class scores: a simple baseline that supervised codes should beat.

    One-against-rest linear SVMs give each sample one score per class. Bits are signs of Gaussian random projections
    of the scores around their mean (Charikar, STOC 2002).

    Parameters
    ----------
    n_bits : int, default=64
    C : float > 0, default=1.0
        Weight of the SVM losses, as in LIBLINEAR, with X centred and scaled to unit mean squared length.
    random_state : int, RandomState or None, default=0
        Seed of the projections.
    """

    n_bits: int = param(64, integer(1, MOST_BITS))
    C: float = param(1.0, positive)
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,)."""
        check_params(self)
        samples, labels = self._labelled(X, y)
        data = centre(samples)
        W, _ = fit_linear_scores(data.Z, labels, C=self.C)
        R = generator(self.random_state).standard_normal((W.shape[1], self.n_bits))
        # Scores around their mean are linear in Z, so the intercepts cancel.
        return self._set_hyperplanes(W @ R / data.unit, 0.0, data.mean)


def fit_linear_scores(Z: Array, labels: NDArray[np.integer], *, C: float) -> tuple[Array, Array]:
    """Fit one-against-rest linear SVMs (squared hinge) and return coef (d, k) and intercept (k,).

    Z : (n, d) centred, of unit mean squared length. ``C`` weighs the sum of losses, as in LIBLINEAR. The primal
    solver needs no random order of samples.
    """
    svm = LinearSVC(C=C, dual=False).fit(Z, labels)
    if len(svm.coef_) == 1:  # two classes share one hyperplane
        return np.hstack([-svm.coef_.T, svm.coef_.T]), np.concatenate([-svm.intercept_, svm.intercept_])
    return svm.coef_.T, svm.intercept_


def _codewords(n_classes: int, n_bits: int) -> NDArray[np.int8]:
    """Return distinct codes (n_classes, n_bits) in -1/+1."""
    least = max(1, (n_classes - 1).bit_length())
    if n_bits < least:
        raise CodeLengthError(
            f"n_bits={n_bits}: expected at least {least} for {n_classes} classes, or {n_classes} for one-hot codes"
        )
    bits = np.full((n_classes, n_bits), -1, dtype=np.int8)
    if n_bits >= n_classes:
        np.fill_diagonal(bits, 1)
    else:
        digits = (np.arange(n_classes)[:, None] >> np.arange(least)) & 1
        bits[:, :least] = 2 * digits - 1
    return bits


@estimator
class PiCoDes(SupervisedMixin, HyperplaneCoder):
    """Picture codes (Bergamo, Torresani and Fitzgibbon, NIPS 2011).

    Minimises over hyperplanes A and one-against-rest classifiers (W, b) of the bits h(x) in 0/1

        1/2 ||W||^2 + 1/2 ||b||^2 + C sum_ik loss(y_ik (w_k . h(x_i) + b_k)),

    where y_ik is +1 for the class k of x_i and -1 otherwise. Two steps alternate. Given the bits, the classifiers are
    linear SVMs. Given all else, one bit is a weighted classification: samples that lose less with the bit set against
    samples that lose less without it; its convex bound is a linear SVM too. A new hyperplane is kept only if it
    lowers the objective, which therefore never rises.

    Two things differ from the paper: the loss is the squared hinge, and each bit starts from an SVM of a random half
    of the classes against the others. Each iteration learns n_bits SVMs in X and n_classes SVMs in the bits. A few
    hundred bits and some thousand samples take minutes; the paper's thousands of bits take too long here.

    Parameters
    ----------
    n_bits : int, default=64
    C : float > 0, default=0.1
        Weight of the classifiers' losses.
    C_bits : float > 0, default=1.0
        Weight of the losses in the search for a hyperplane, with X centred and scaled to unit mean squared length.
    n_iter : int, default=5
        Largest number of iterations; they stop when no bit improves.
    random_state : int, RandomState or None, default=0
        Seed of the random halves of the classes.

    Attributes
    ----------
    objective_ : (iterations + 1,)
        Value after each fit of the classifiers.
    """

    _ARRAYS = HyperplaneCoder._ARRAYS | {"objective_"}

    n_bits: int = param(64, integer(1, MOST_BITS))
    C: float = param(0.1, positive)
    C_bits: float = param(1.0, positive)
    n_iter: int = param(5, integer(0))
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,)."""
        check_params(self)
        samples, labels = self._labelled(X, y)
        data = centre(samples)
        rng = generator(self.random_state)
        planes = [
            fit_plane(data.Z, random_half(len(self.classes_), rng)[labels], np.ones(len(labels)), self.C_bits)
            for _ in range(self.n_bits)
        ]
        A = np.column_stack([direction for direction, _ in planes])
        offsets = np.array([offset for _, offset in planes])
        H = (data.Z @ A + offsets >= 0).astype(np.float64)
        targets = np.where(labels[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)
        trace = []
        for turn in range(self.n_iter + 1):
            W, b = fit_linear_scores(H, labels, C=self.C)
            trace.append(objective(H, W, b, targets, self.C))
            if turn == self.n_iter or not self._improve_bits(data.Z, A, offsets, H, W, b, targets):
                break
        self.objective_ = np.array(trace)
        return self._set_hyperplanes(A / data.unit, offsets, data.mean)

    def _improve_bits(self, Z: Array, A: Array, offsets: Array, H: Array, W: Array, b: Array, targets: Array) -> bool:
        """Improve the hyperplanes in place, one bit at a time; return whether any improved."""
        scores = H @ W + b
        improved = False
        for s in range(self.n_bits):
            gain = gain_of_bit(scores - np.outer(H[:, s], W[s]), W[s], targets)
            if not gain.any() or (gain > 0).all() or (gain < 0).all():
                continue
            weight = np.abs(gain)
            a, offset = fit_plane(Z, np.where(gain > 0, 1, -1), weight / weight.mean(), self.C_bits)
            new = (Z @ a + offset >= 0).astype(np.float64)
            if new @ gain > H[:, s] @ gain + 1e-9 * weight.sum():
                scores += np.outer(new - H[:, s], W[s])
                A[:, s], offsets[s], H[:, s] = a, offset, new
                improved = True
        return improved

    def _check_state(self) -> None:
        super()._check_state()
        check_arrays(self, {"objective_": (max(1, self.objective_.size),)})


def gain_of_bit(without: Array, w: Array, targets: Array) -> Array:
    """Return how much setting the bit lowers each sample's loss, (n,), given the scores (n, k) without it."""
    return np.sum(losses(without, targets) - losses(without + w, targets), axis=1)


def losses(scores: Array, targets: Array) -> Array:
    """Return the squared hinge losses, (n, k)."""
    return np.maximum(0, 1 - targets * scores) ** 2


def objective(H: Array, W: Array, b: Array, targets: Array, C: float) -> float:
    """Return 1/2 ||W||^2 + 1/2 ||b||^2 + C times the sum of losses."""
    return float(0.5 * np.sum(W**2) + 0.5 * np.sum(b**2) + C * losses(H @ W + b, targets).sum())


def fit_plane(Z: Array, targets: NDArray[np.integer], weight: Array, C: float) -> tuple[Array, float]:
    """Fit a weighted linear SVM and return its direction (d,) and offset."""
    svm = LinearSVC(C=C, dual=False).fit(Z, targets, sample_weight=weight)
    return svm.coef_[0], float(svm.intercept_[0])


def random_half(n_classes: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return +1 for a random half of the classes and -1 for the others."""
    return np.where(rng.permutation(n_classes) < (n_classes + 1) // 2, 1, -1)


@estimator
class MCBit(SupervisedMixin, HyperplaneCoder):
    """Meta-class bits (Bergamo and Torresani, CVPR 2012), with the training set as its own base set.

    A label tree over the classes splits classes last that a classifier confuses most. Every node except the root is a
    meta-class with a linear SVM against all other classes; its sign is a bit (``cbid.pooling.MetaClass``). Bits are
    ordered from the root down: first groups of classes, last single classes.

    Parameters
    ----------
    n_bits : int or None, default=None
        Use the first ``n_bits`` of the 2 n_classes - 2 nodes. None: all.
    C : float > 0, default=1.0
        Weight of the SVM losses, as in LIBLINEAR, with X centred and scaled to unit mean squared length.
    n_folds : int, default=3
        Folds of the cross-validation that measures which classes are confused.
    random_state : int, RandomState or None, default=0
        Seed of the folds.

    Attributes
    ----------
    groups_ : (n_bits_, n_classes) bool
        The classes of each node.
    """

    _ARRAYS = HyperplaneCoder._ARRAYS | {"groups_"}

    n_bits: int | None = param(None, integer(1))
    C: float = param(1.0, positive)
    n_folds: int = param(3, integer(2))
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,); every class needs two samples."""
        check_params(self)
        as_random_state(self.random_state)
        samples, labels = self._labelled(X, y)
        k = len(self.classes_)
        most = 2 * k - 2
        n_bits = most if self.n_bits is None else self.n_bits
        check_most_bits(n_bits, most, f"a label tree of {k} classes has {most} nodes below its root")
        counts = np.bincount(labels)
        if counts.min() < 2:
            alone = self.classes_.tolist()[counts.argmin()]
            raise ValueError(f"y has one sample of class {alone!r}: expected at least two of each class")
        data = centre(samples)
        meta = MetaClass(C=self.C, n_folds=self.n_folds, random_state=self.random_state).fit(data.Z, labels)
        self.groups_ = meta.groups_[:n_bits]
        return self._set_hyperplanes(meta.coef_[:n_bits].T / data.unit, meta.intercept_[:n_bits], data.mean)

    def _check_state(self) -> None:
        super()._check_state()
        if self.groups_.dtype != bool or self.groups_.shape != (self.n_bits_, len(self.classes_)):
            raise ValueError(f"groups_ {self.groups_.dtype} {self.groups_.shape}: expected bool, one row per bit")
