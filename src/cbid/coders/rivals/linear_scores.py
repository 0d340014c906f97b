"""Scores of a linear classifier, one for each class."""

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

__all__ = ["fit_linear_scores"]

Array = NDArray[np.float64]


def fit_linear_scores(Z: Array, numbers: NDArray[np.integer], *, C: float) -> tuple[Array, Array]:
    """One-against-rest linear SVMs (squared hinge): coef (d, k), intercept (k,); the largest score wins.

    Z : (n, d) centred, of unit mean squared length. ``C`` weighs the sum of losses, as in LIBLINEAR. In the primal,
    which needs no random order of samples.
    """
    svm = LinearSVC(C=C, dual=False).fit(Z, numbers)
    if len(svm.coef_) == 1:  # two classes: one plane serves both
        return np.hstack([-svm.coef_.T, svm.coef_.T]), np.concatenate([-svm.intercept_, svm.intercept_])
    return svm.coef_.T, svm.intercept_
