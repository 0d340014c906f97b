"""Baselines from the class scores of a linear classifier: the predicted class as a code, and LSH of the scores."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from cbid.checks import check_integer
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.mixins import SupervisedMixin, check_arrays
from cbid.coders.rivals.common import Array, Seed
from cbid.learning.scaling import centre
from cbid.params import check_params, estimator, integer, param, positive


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
        """Return the predicted class of each sample, which its code stands for."""
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
        raise ValueError(
            f"n_bits={n_bits}: expected at least {least} for {n_classes} classes, or {n_classes} for one-hot codes"
        )
    bits = np.full((n_classes, n_bits), -1, dtype=np.int8)
    if n_bits >= n_classes:
        np.fill_diagonal(bits, 1)
    else:
        digits = (np.arange(n_classes)[:, None] >> np.arange(least)) & 1
        bits[:, :least] = 2 * digits - 1
    return bits
