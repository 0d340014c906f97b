"""scikit-learn's own checks of the estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cbid import CBID
from cbid.coders import KSH, AnchorGraphHashing, FastHash, MultidimensionalSpectralHashing, PStableLSH, SignEmbedding
from tests.coders.every import EVERY, make

# One of each kind: C-BID, hyperplanes with and without a kernel, trees, graphs, a base class of its own.
SHORT = [
    CBID(n_bits=8, kernel="linear"),
    make(KSH),
    make(FastHash, n_trees=3),
    make(AnchorGraphHashing, n_layers=1),
    make(PStableLSH, p=1),
    make(SignEmbedding),
]
LONG = [
    CBID(n_bits=8),
    *(make(cls) for cls in EVERY if cls.__name__ not in {"KSH", "FastHash", "SignEmbedding"}),
    CBID(n_bits=4, hits="nearest", penalty="l1", nu=1e-4),
    CBID(n_bits=4, kernel="rbf", n_anchors=20, margin="class"),
    make(MultidimensionalSpectralHashing, outer=True),
]
# Tiny data: classes smaller than the neighbourhoods, and fewer distinct bits than requested.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*classes have fewer than:UserWarning"),
    pytest.mark.filterwarnings("ignore:learning ended at:UserWarning"),
    pytest.mark.filterwarnings("ignore:every weight is zero:UserWarning"),
]


@parametrize_with_checks(SHORT)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(LONG)
def test_estimator_checks_of_the_others(estimator, check):
    check(estimator)
