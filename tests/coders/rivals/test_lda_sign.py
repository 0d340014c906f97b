"""LDA-sign against scikit-learn's discriminants."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from cbid.coders import LDASign
from tests.coders.blobs import blobs


def test_bits_are_signs_of_the_discriminants():
    """scikit-learn's transform is around the mean of the class means, which with equal classes is that of samples."""
    X, y = blobs(n=200, d=6, k=4)
    theirs = LinearDiscriminantAnalysis().fit(X, y).transform(X)
    bits = LDASign(reg=0).fit(X, y).transform(X)
    assert bits.shape == (200, 3)
    agreement = np.mean(bits == np.where(theirs >= 0, 1, -1), axis=0)
    np.testing.assert_array_equal(np.maximum(agreement, 1 - agreement), 1)


def test_two_classes_are_parted_half_way():
    """Classes at -1 and +1 on a line: one bit, whose threshold is the mean."""
    X = np.array([[-1.2], [-0.8], [0.8], [1.2]])
    bits = LDASign().fit(X, [0, 0, 1, 1]).transform(X).ravel()
    assert abs(bits @ [-1, -1, 1, 1]) == 4


def test_how_many_bits_there_can_be():
    X, y = blobs(n=60, d=2, k=5)
    assert LDASign().fit(X, y).n_bits_ == 2
    assert LDASign(n_bits=1).fit(X, y).n_bits_ == 1
    with pytest.raises(ValueError, match=r"n_bits=3 .* 5 classes in 2 features have 2 .* 1 to 2, or None"):
        LDASign(n_bits=3).fit(X, y)
