"""scikit-learn's own checks over every estimator of the package."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cbid import CBID
from cbid.coders import AnchorGraphHashing, MultidimensionalSpectralHashing, PStableLSH
from tests.coders.every import EVERY, make

ESTIMATORS = [
    *(make(cls) for cls in EVERY),
    CBID(n_bits=8),
    CBID(n_bits=4, hits="nearest", penalty="l1", nu=1e-4),
    CBID(n_bits=4, kernel="rbf", n_anchors=20, margin="class"),
    make(AnchorGraphHashing, n_layers=1),
    make(MultidimensionalSpectralHashing, outer=True),
    make(PStableLSH, p=1),
]


# Tiny data: classes smaller than the neighbourhoods asked for, and fewer distinct bits than asked for.
@pytest.mark.filterwarnings("ignore:.*classes have fewer than:UserWarning")
@pytest.mark.filterwarnings("ignore:learning ended at:UserWarning")
@pytest.mark.filterwarnings("ignore:every weight is zero:UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_estimator_checks(estimator, check):
    check(estimator)
