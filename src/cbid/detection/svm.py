"""The linear SVM of the detector and of the verifier."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

__all__ = ["fit_svm"]


def fit_svm(
    X: NDArray[np.floating], y: NDArray[Any], *, C: float, random_state: Any
) -> tuple[NDArray[np.float64], float]:
    """coef (d,) and intercept of min |w|^2 / 2 + C sum of hinge losses, in the dual (LIBLINEAR).

    Values of HOG blocks and of codes are of one size already, so that X is taken as it is.
    """
    svm = LinearSVC(C=C, loss="hinge", dual=True, max_iter=2000, random_state=random_state)
    with warnings.catch_warnings():
        # The last digits of the dual take thousands of passes and change no ranking.
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.fit(X, y)
    return svm.coef_[0], float(svm.intercept_[0])
