"""Ridge regression against scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from cbid.learning import ridge
from cbid.learning.ridge import RidgeMap


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_scikit_learns(dtype, monkeypatch):
    monkeypatch.setattr(ridge, "_ROWS", 7)  # several parts
    rng = np.random.default_rng(0)
    F = (rng.standard_normal((40, 5)) + 10).astype(dtype)
    B = np.sign(rng.standard_normal((40, 3)))
    fitted = RidgeMap(F, 2.0)
    P, offset = fitted.solve(B)
    theirs = Ridge(alpha=2.0).fit(F.astype(np.float64), B)
    np.testing.assert_allclose(P, theirs.coef_.T, atol=1e-7)
    np.testing.assert_allclose(fitted.apply(P, offset), theirs.predict(F.astype(np.float64)), atol=1e-7)


def test_the_unit_divides_the_features():
    rng = np.random.default_rng(1)
    F, B = rng.standard_normal((30, 4)), rng.standard_normal((30, 2))
    P, _ = RidgeMap(100 * F, 0.5, unit=100.0).solve(B)
    np.testing.assert_allclose(P, RidgeMap(F, 0.5).solve(B)[0])


def test_repeated_columns_without_a_ridge():
    F = np.repeat(np.arange(6.0)[:, None], 3, axis=1)
    P, offset = RidgeMap(F, 0.0).solve(F[:, :1])
    np.testing.assert_allclose(P, 1 / 3, rtol=1e-3)
    np.testing.assert_allclose(offset, 2.5)
