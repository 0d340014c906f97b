"""Verification: a second score of the detector's candidates, from codes of the HOG vectors that it has anyway."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, check_X_y

from cbid.checks import check_integer, check_real
from cbid.coders.base import Coder
from cbid.coders.cbid import CBID
from cbid.detection.boxes import Detections
from cbid.detection.scan import Windows
from cbid.detection.svm import fit_svm

__all__ = ["CBIDVerifier"]

Array = NDArray[np.float64]


class CBIDVerifier(BaseEstimator):
    """A linear SVM on learned codes of the windows that a detector proposes.

    Codes are learned from HOG vectors of objects and of mined negatives. They are a fixed, non-linear map, so that a
    linear SVM on them can tell apart what no linear SVM on the vectors can. The vectors are those of the detector: no
    feature is computed anew.

    Parameters
    ----------
    coder : Coder or None
        Any coder of cbid; a copy of it is learned by ``fit``. None is C-BID with its default settings, which compare
        with whole classes; ``CBID(hits="nearest", triplets="all")`` are the paper's 25 triplets of 5 neighbours.
    n_bits : int
        Length of the codes where ``coder`` is None.
    max_windows : int
        Windows that the coder is learned from, at most: half of them objects if there are as many, the others drawn
        at random. The SVM is learned from all.
    C : float > 0
        Weight of the losses in the SVM on codes, whose values are -1/+1 over the root of their number.
    weight : float in [0, 1]
        The score of a window is ``weight`` times that of the codes plus 1 - ``weight`` times that of the detector;
        both are in units of their margin. With 1 the codes decide alone.
    random_state : int, RandomState or None

    Attributes
    ----------
    coder_ : Coder
    coef_, intercept_ : (n_bits_,), float
        Of the SVM: its score is coef_.code + intercept_.
    """

    def __init__(
        self,
        *,
        coder: Coder | None = None,
        n_bits: int = 256,
        max_windows: int = 10_000,
        C: float = 0.03,
        weight: float = 0.5,
        random_state: Any = 0,
    ) -> None:
        self.coder = coder
        self.n_bits = n_bits
        self.max_windows = max_windows
        self.C = C
        self.weight = weight
        self.random_state = random_state

    def check_params(self) -> None:
        """A ValueError names the first setting that is not accepted."""
        if self.coder is not None and not isinstance(self.coder, Coder):
            raise ValueError(f"coder={self.coder!r} is not accepted; give a coder of cbid.coders, or None")
        check_integer("n_bits", self.n_bits, 1)
        check_integer("max_windows", self.max_windows, 4)
        check_real("C", self.C, 0, open_below=True)
        check_real("weight", self.weight, 0, 1.0000001)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from HOG vectors X (n, d) and labels y (n,): 1 for objects, 0 for everything else."""
        self.check_params()
        samples, labels = check_X_y(X, y, dtype=[np.float32, np.float64])
        if set(np.unique(labels).tolist()) != {0, 1}:
            raise ValueError(
                f"y holds {np.unique(labels).tolist()[:5]}; give 1 for objects and 0 for everything else"
            )
        chosen = self.sample(labels)
        coder = self._default() if self.coder is None else clone(self.coder)
        self.coder_ = coder.fit(samples[chosen], labels[chosen])
        return self.fit_svm(samples, labels)

    def sample(self, y: ArrayLike) -> NDArray[np.int64]:
        """The rows that the coder is learned from: at most ``max_windows``, ascending."""
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
        """The second half of ``fit``: the SVM alone, on codes of the coder that was learned."""
        self.check_params()
        check_is_fitted(self, "coder_")
        codes = self._codes(X)
        self.coef_, self.intercept_ = fit_svm(codes, np.asarray(y), C=self.C, random_state=self.random_state)
        return self

    def _default(self) -> CBID:
        return CBID(n_bits=self.n_bits, random_state=self.random_state)

    def _codes(self, X: ArrayLike) -> NDArray[np.float32]:
        """Bits as values of unit mean squared length, whatever their number."""
        bits = self.coder_.transform(X)
        return bits.astype(np.float32) / np.float32(np.sqrt(bits.shape[1]))

    def decision_function(self, X: ArrayLike) -> Array:
        """Scores (n,) of the codes alone."""
        check_is_fitted(self, "coef_")
        if len(np.asarray(X)) == 0:
            return np.empty(0)
        scores: Array = self._codes(X) @ self.coef_ + self.intercept_
        return scores

    def verify(self, windows: Windows) -> Detections:
        """The detector's candidates with their new scores, the best first."""
        scores = self.weight * self.decision_function(windows.features) + (1 - self.weight) * windows.scores
        return windows.detections(scores)
