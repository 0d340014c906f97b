"""Verification: rescore the detector's candidates by codes of their HOG vectors."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, check_X_y

from cbid.checks import check_share
from cbid.coders.base import Coder
from cbid.coders.cbid import CBID
from cbid.detection.boxes import Detections
from cbid.detection.scan import Windows
from cbid.params import check_params, estimator, integer, param, positive

Array = NDArray[np.float64]


@estimator
class CBIDVerifier(BaseEstimator):
    """A linear SVM on learned codes of the windows that a detector proposes.

    Codes are learned from HOG vectors of objects and of mined negatives. They are a non-linear map: a linear SVM on
    codes can separate classes that no linear SVM on the vectors can. The vectors are those of the detector;
    no feature is recomputed.

    Parameters
    ----------
    coder : Coder or None
        Any coder of cbid; ``fit`` fits a copy. None: C-BID with its default settings, which compare with whole
        classes; ``CBID(hits="nearest", triplets="all")`` uses the paper's 25 triplets of 5 neighbours.
    n_bits : int
        Length of the codes if ``coder`` is None.
    max_windows : int
        Most windows for fitting the coder: half of them objects if there are enough, drawn at random. The SVM is
        fitted on all.
    C : float > 0
        Weight of the losses in the SVM on codes. Codes are -1/+1 divided by the root of their length.
    weight : float in [0, 1]
        The score of a window is ``weight`` times the score of the codes plus 1 - ``weight`` times the score of the
        detector, both in units of their margin. 1 uses the codes alone.
    random_state : int, RandomState or None

    Attributes
    ----------
    coder_ : Coder
    coef_, intercept_ : (n_bits_,), float
        The SVM; its score is coef_.code + intercept_.
    """

    coder: Coder | None = None
    n_bits: int = param(256, integer(1))
    max_windows: int = param(10_000, integer(4))
    C: float = param(0.03, positive)
    weight: float = param(0.5, check_share)
    random_state: Any = 0

    def check_params(self) -> None:
        """Raise a ValueError for the first invalid setting."""
        check_params(self)
        if self.coder is not None and not isinstance(self.coder, Coder):
            raise ValueError(f"coder={self.coder!r}: expected a coder of cbid.coders, or None")

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit on HOG vectors X (n, d) and labels y (n,): 1 for objects, 0 for everything else."""
        self.check_params()
        samples, labels = check_X_y(X, y, dtype=[np.float32, np.float64])
        if set(np.unique(labels).tolist()) != {0, 1}:
            raise ValueError(
                f"y holds {np.unique(labels).tolist()[:5]}; expected 1 for objects and 0 for everything else"
            )
        chosen = self.sample(labels)
        default = CBID(likeness=0, kernel="linear", n_bits=self.n_bits, random_state=self.random_state)
        coder = default if self.coder is None else clone(self.coder)
        self.coder_ = coder.fit(samples[chosen], labels[chosen])
        return self.fit_svm(samples, labels)

    def sample(self, y: ArrayLike) -> NDArray[np.int64]:
        """Return the rows for fitting the coder, at most ``max_windows``, ascending."""
        labels = np.asarray(y)
        objects, others = np.flatnonzero(labels == 1), np.flatnonzero(labels != 1)
        n_others = max(self.max_windows - len(objects), self.max_windows // 2)
        n_objects = max(self.max_windows - len(others), self.max_windows // 2)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        parts = [
            rng.choice(rows, size=most, replace=False) if len(rows) > most else rows
            for rows, most in ((objects, n_objects), (others, n_others))
        ]
        return np.sort(np.concatenate(parts))

    def fit_svm(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit only the SVM, on codes of the fitted coder: the second half of ``fit``."""
        self.check_params()
        check_is_fitted(self, "coder_")
        self.coef_, self.intercept_ = fit_svm(self.codes(X), np.asarray(y), C=self.C, random_state=self.random_state)
        return self

    def codes(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the codes (n, n_bits_) of HOG vectors, scaled to length one, as the SVM sees them."""
        bits = self.coder_.transform(X)
        return bits.astype(np.float32) / np.float32(np.sqrt(bits.shape[1]))

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the scores (n,) of the codes alone."""
        check_is_fitted(self, "coef_")
        if len(np.asarray(X)) == 0:
            return np.empty(0)
        scores: Array = self.codes(X) @ self.coef_ + self.intercept_
        return scores

    def verify(self, windows: Windows) -> Detections:
        """Return the detector's candidates with their new scores, best first."""
        scores = self.weight * self.decision_function(windows.features) + (1 - self.weight) * windows.scores
        return windows.detections(scores)


def fit_svm(
    X: NDArray[np.floating], y: NDArray[Any], *, C: float, random_state: Any
) -> tuple[NDArray[np.float64], float]:
    """Return coef (d,) and intercept of min |w|^2 / 2 + C sum of hinge losses, in the dual (LIBLINEAR).

    X is not scaled: values of HOG blocks and of codes have a common scale.
    """
    svm = LinearSVC(C=C, loss="hinge", dual=True, max_iter=2000, random_state=random_state)
    with warnings.catch_warnings():
        # The last digits of the dual take thousands of passes and do not change the ranking.
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.fit(X, y)
    return svm.coef_[0], float(svm.intercept_[0])
