"""Verification: a second score of the detector's candidates, from binary codes of the HOG vectors that it has anyway."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted, check_X_y

from cbid.checks import check_choice, check_real
from cbid.coders.base import Coder
from cbid.coders.cbid import CBID

__all__ = ["CBIDVerifier"]

Array = NDArray[np.float64]


class CBIDVerifier(BaseEstimator):
    """A linear SVM on learned codes of the windows that a detector proposes.

    Codes are learned from HOG vectors of objects and of mined negatives; they are a fixed, non-linear map, so that a
    linear SVM on them tells apart what no linear SVM on the vectors can. The vectors are those of the detector: no
    feature is computed anew.

    Parameters
    ----------
    coder : Coder or None
        Any coder of cbid, learned by ``fit``; None is C-BID with ``n_bits`` bits as in the paper: 5 nearest hits and
        misses, 25 triplets a sample.
    n_bits : int
        Length of the codes where ``coder`` is None.
    C : float > 0
        Weight of the losses in the SVM on codes, whose values are -1/+1 over the root of their number.
    combine : {"sum", "alone"}
        Whether the detector's score is added to that of the codes, or the codes decide alone.
    random_state : int, RandomState or None

    Attributes
    ----------
    coder_ : the learned coder
    coef_, intercept_ : (n_bits_,), float
        Of the SVM: score = coef_.code + intercept_, scaled so that its values on the training windows deviate as
        much as those of the detector do.
    """

    def __init__(
        self,
        *,
        coder: Coder | None = None,
        n_bits: int = 1024,
        C: float = 1.0,
        combine: str = "sum",
        random_state: Any = 0,
    ) -> None:
        self.coder = coder
        self.n_bits = n_bits
        self.C = C
        self.combine = combine
        self.random_state = random_state
