"""Signs of coordinates."""

import numpy as np
import pytest

from cbid.coders import SignEmbedding, load

X = np.array([[1.0, 5.0, -1.0], [3.0, 5.5, -2.0]])


def test_bits_are_signs_around_the_mean_or_zero(tmp_path):
    np.testing.assert_array_equal(SignEmbedding().fit(X).transform(X), [[-1, -1, 1], [1, 1, -1]])
    np.testing.assert_array_equal(SignEmbedding(centre=False).fit(X).transform(X), [[1, 1, -1], [1, 1, -1]])
    first = SignEmbedding(n_bits=2).fit(X)
    np.testing.assert_array_equal(first.transform(X), [[-1, -1], [1, 1]])
    first.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").encode(X), first.encode(X))


def test_no_more_bits_than_features():
    with pytest.raises(ValueError, match=r"n_bits=4 .* X has 3 features.* 1 to 3, or None"):
        SignEmbedding(n_bits=4).fit(X)
