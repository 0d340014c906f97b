"""Codes of a linear classifier's prediction, and of its scores."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from cbid.coders import ArgmaxCode, ScoreLSH
from cbid.codes import hamming, pack
from cbid.learning.scaling import centre
from tests.coders.blobs import blobs

X, Y = blobs(n=150, d=6, k=5, apart=1.5)


def theirs(C=1.0):
    data = centre(X)
    return LinearSVC(C=C, dual=False).fit(data.Z, Y), data


@pytest.mark.parametrize("n_bits", [None, 5, 9, 4, 3])
def test_codes_decode_to_the_classifiers_answers(n_bits):
    svm, data = theirs()
    coder = ArgmaxCode(n_bits=n_bits).fit(X, Y)
    answers = svm.predict(data.Z)
    np.testing.assert_array_equal(coder.predict(X), answers)
    words = coder.codewords_.astype(int)
    np.testing.assert_array_equal(np.argmax(coder.transform(X) @ words.T, axis=1), answers)
    assert len(np.unique(words, axis=0)) == 5


def test_one_hot_codes_are_all_equally_far():
    words = pack(ArgmaxCode(n_bits=8).fit(X, Y).codewords_)
    np.testing.assert_array_equal(hamming(words, words), 2 - 2 * np.eye(5))


def test_fewer_bits_hold_the_number_of_the_class():
    words = ArgmaxCode(n_bits=4).fit(X, Y).codewords_
    np.testing.assert_array_equal((words[:, :3] > 0) @ [1, 2, 4], range(5))
    with pytest.raises(ValueError, match=r"n_bits=2\b.*\b3\b"):
        ArgmaxCode(n_bits=2).fit(X, Y)


def test_two_classes():
    coder = ArgmaxCode(n_bits=1).fit(X, Y % 2)
    np.testing.assert_array_equal(coder.transform(X).ravel(), 2 * coder.predict(X) - 1)


def test_scores_meet_at_the_angle_between_them():
    """A random hyperplane parts two vectors with probability angle / pi (Charikar): here, centred scores."""
    svm, data = theirs()
    scores = data.Z[:6] @ svm.coef_.T
    unit = scores / np.linalg.norm(scores, axis=1, keepdims=True)
    angles = np.arccos(np.clip(unit @ unit.T, -1, 1)) / np.pi
    n_bits = 20_000
    bits = ScoreLSH(n_bits=n_bits).fit(X, Y).transform(X[:6]).astype(float)
    np.testing.assert_allclose((1 - bits @ bits.T / n_bits) / 2, angles, atol=5 * 0.5 / n_bits**0.5)


def test_scores_depend_on_C():
    assert (ScoreLSH(C=1e-3).fit(X, Y).encode(X) != ScoreLSH(C=10.0).fit(X, Y).encode(X)).any()
