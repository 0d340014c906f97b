"""Signs of principal components against numpy's SVD."""

import numpy as np
import pytest

from cbid.coders import PCASign


def test_bits_are_signs_of_components():
    X = np.random.default_rng(0).standard_normal((80, 6)) * [9, 7, 5, 3, 2, 1] + 100
    _, _, Vt = np.linalg.svd(X - X.mean(axis=0))
    coder = PCASign(n_bits=6).fit(X)
    turned = np.sign(np.sum(coder.coef_ * Vt, axis=1))  # a singular vector's sign is free
    np.testing.assert_allclose(coder.coef_, Vt * turned[:, None], atol=1e-8)
    np.testing.assert_array_equal(
        coder.transform(X), np.where((X - X.mean(axis=0)) @ (Vt * turned[:, None]).T >= 0, 1, -1)
    )


def test_no_more_bits_than_axes_along_which_X_varies():
    """Six columns, but rank 2: a third bit would be rounding."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 6))
    assert PCASign(n_bits=2).fit(X).n_bits_ == 2
    with pytest.raises(ValueError, match=r"n_bits=3 .*n_features=6.* varies along 2 axes.*at most 2"):
        PCASign(n_bits=3).fit(X)
