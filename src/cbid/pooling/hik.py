"""A support vector machine with the histogram intersection kernel, k(x, y) = sum_j min(x_j, y_j)."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numba
import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cbid.params import check_params, estimator, param, positive
from cbid.storage.models import Saved

__all__ = ["HIKClassifier", "histogram_intersection"]

Array = NDArray[np.floating]

_TILE = 32  # rows of Y and
_STRIP = 256  # columns that fit in the cache
_CHUNK_ROWS = 256  # rows of X per task


def histogram_intersection(X: Array, Y: Array, *, n_threads: int = 1) -> Array:
    """Return the kernel (n, m) of the rows of X (n, d) and Y (m, d), both float32 or both float64."""
    X, Y = np.ascontiguousarray(X), np.ascontiguousarray(Y)
    K = np.zeros((len(X), len(Y)), X.dtype)
    starts = range(0, len(X), _CHUNK_ROWS)
    with ThreadPoolExecutor(n_threads) as threads:
        list(threads.map(lambda a: _add_minima(X[a : a + _CHUNK_ROWS], Y, K[a : a + _CHUNK_ROWS]), starts))
    return K


# Sums in any order and without NaN handling can be vectorised.
@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "nsz", "nnan"})
def _add_minima(X: Any, Y: Any, K: Any) -> None:
    """Add sum_j min(x_j, y_j) to K, strip by strip and tile by tile."""
    for first in range(0, X.shape[1], _STRIP):
        last = min(first + _STRIP, X.shape[1])
        for tile in range(0, len(Y), _TILE):
            for i in range(len(X)):
                x = X[i, first:last]  # a view, because a loop that starts at ``first`` is not vectorised
                for j in range(tile, min(tile + _TILE, len(Y))):
                    y = Y[j, first:last]
                    total = X.dtype.type(0)
                    for k in range(len(x)):
                        total += min(x[k], y[k])
                    K[i, j] += total


@estimator
class HIKClassifier(Saved, ClassifierMixin, BaseEstimator):
    """One-against-rest SVMs with the histogram intersection kernel, for non-negative vectors such as histograms.

    Parameters
    ----------
    C : float > 0, default=10.0
        Weight of the training errors. The kernel is scaled to a mean diagonal of 1, so C does not depend on the scale
        of the histograms.
    n_jobs : int or None, default=None
        Number of threads, as in scikit-learn.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_vectors_ : (n_support, d)
        Training samples with a coefficient in some SVM.
    dual_coef_ : (n_svms, n_support)
        One SVM per class; with two classes a single SVM for the second.
    intercept_ : (n_svms,)

    Examples
    --------
    >>> model = HIKClassifier().fit([[4, 0, 1], [3, 1, 1], [0, 5, 0]], ["a", "a", "b"])
    >>> model.predict([[1, 4, 0]])
    array(['b'], dtype='<U1')
    """

    _ARRAYS = frozenset({"support_vectors_", "dual_coef_", "intercept_"})

    C: float = param(10.0, positive)
    n_jobs: int | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from non-negative vectors X (n, d) and labels y (n,)."""
        check_params(self)
        checked, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        histograms = self._non_negative(checked)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}: expected at least two")
        n_threads = effective_n_jobs(self.n_jobs)
        K = histogram_intersection(histograms, histograms, n_threads=n_threads).astype(np.float64, copy=False)
        size = K.diagonal().mean() or 1.0

        def fit_svm(label: int) -> tuple[NDArray[np.float64], float]:
            svm = SVC(kernel="precomputed", C=self.C / size).fit(K, labels == label)
            coefs = np.zeros(len(K))
            coefs[svm.support_] = svm.dual_coef_[0]
            return coefs, float(svm.intercept_[0])

        with ThreadPoolExecutor(n_threads) as threads:
            learned = range(1, 2) if len(self.classes_) == 2 else range(len(self.classes_))
            coefs, intercepts = zip(*threads.map(fit_svm, learned))
        dual = np.stack(coefs)
        used = dual.any(axis=0)
        self.support_vectors_ = histograms[used]
        self.dual_coef_ = np.ascontiguousarray(dual[:, used])
        self.intercept_ = np.array(intercepts)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return decision values (n, n_classes); with two classes (n,), positive for the second."""
        check_is_fitted(self)
        histograms = self._non_negative(validate_data(self, X, reset=False, dtype=self.support_vectors_.dtype))
        n_threads = effective_n_jobs(self.n_jobs)
        values = np.empty((len(histograms), len(self.dual_coef_)))
        for start in range(0, len(values), 1024 * n_threads):  # in parts, to limit the memory of the kernel
            part = slice(start, start + 1024 * n_threads)
            K = histogram_intersection(histograms[part], self.support_vectors_, n_threads=n_threads)
            values[part] = K @ self.dual_coef_.T + self.intercept_
        return values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class with the largest decision value for each row of X."""
        values = self.decision_function(X)
        return self.classes_[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]

    def _non_negative(self, X: Array) -> Array:
        if X.min() < 0:
            raise ValueError(f"Negative values in data passed to {type(self).__name__}: expected X >= 0")
        return X

    def _check_state(self) -> None:
        n_svms = 1 if len(self.classes_) == 2 else len(self.classes_)
        n_support = len(self.support_vectors_)
        for name, shape in (
            ("support_vectors_", (n_support, self.n_features_in_)),
            ("dual_coef_", (n_svms, n_support)),
            ("intercept_", (n_svms,)),
        ):
            array = getattr(self, name)
            if array.shape != shape or array.dtype.kind != "f":
                raise ValueError(f"{name} {array.dtype} {array.shape}: expected floats {shape}")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
