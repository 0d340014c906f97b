import numpy as np
import pytest

from cbid.learning.bits import SIGMOIDS


@pytest.mark.parametrize("name", SIGMOIDS)
def test_derivative_by_finite_differences(name):
    z, step = np.linspace(-8, 8, 41), 1e-6
    slope = (SIGMOIDS[name](z + step)[0] - SIGMOIDS[name](z - step)[0]) / (2 * step)
    np.testing.assert_allclose(SIGMOIDS[name](z)[1], slope, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", SIGMOIDS)
def test_runs_from_minus_one_to_one_through_zero(name):
    h, _ = SIGMOIDS[name](np.array([-1e9, 0.0, 1e9]))
    np.testing.assert_allclose(h, [-1, 0, 1], atol=1e-6)
