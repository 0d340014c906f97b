"""MC-bit: which classes each bit tells apart, and the classifiers it is made of."""

import numpy as np
import pytest

from cbid.coders import MCBit
from cbid.learning.scaling import centre
from cbid.pooling import MetaClass
from tests.coders.blobs import blobs


def pairs():
    """Four classes on a line, two near ones left and two near ones right."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 4
    return np.array([-5.0, -4.0, 4.0, 5.0])[y][:, None] + 0.5 * rng.standard_normal((200, 1)), y


def test_the_first_bits_part_the_classes_that_are_not_mistaken():
    X, y = pairs()
    coder = MCBit(n_bits=2).fit(X, y)
    np.testing.assert_array_equal(coder.groups_, [[True, True, False, False], [False, False, True, True]])
    np.testing.assert_array_equal(coder.transform(X)[:, 0], np.where(y < 2, 1, -1))


def test_bits_are_signs_of_the_meta_classes():
    X, y = blobs(n=150, d=6, k=5, apart=1.5)
    coder = MCBit().fit(X, y)
    assert coder.n_bits_ == 8
    expected = MetaClass(output="bit").fit(centre(X).Z, y).transform(centre(X).Z)
    np.testing.assert_array_equal(coder.transform(X), expected)


def test_numbers_of_bits_and_of_samples():
    X, y = blobs(n=60, d=4, k=3)
    with pytest.raises(ValueError, match=r"n_bits=5\b.*\b4\b"):
        MCBit(n_bits=5).fit(X, y)
    with pytest.raises(ValueError, match="class 2"):
        MCBit().fit(X[:5], [0, 0, 1, 1, 2])
