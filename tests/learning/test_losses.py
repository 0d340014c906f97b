"""Derivatives by finite differences, conjugates by Fenchel-Young, safety far out."""

import numpy as np
import pytest

from cbid.learning.losses import LOSSES, SmoothedHinge, make_loss

SMOOTH = [make_loss(name) for name in LOSSES if name != "hinge"] + [SmoothedHinge(0.3)]
ALL = [*SMOOTH, make_loss("hinge")]
RHO = np.array([-5.0, -1.3, -0.2, 0.0, 0.4, 0.95, 1.05, 2.0, 6.0])


@pytest.mark.parametrize("loss", SMOOTH, ids=lambda loss: type(loss).__name__)
def test_derivative_is_the_slope(loss):
    step = 1e-6
    slope = (loss.value(RHO + step) - loss.value(RHO - step)) / (2 * step)
    np.testing.assert_allclose(loss.derivative(RHO), slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["logistic", "exponential", "squared_hinge"])
def test_curvature_is_the_slope_of_the_derivative(name):
    loss, step = make_loss(name), 1e-6
    slope = (loss.derivative(RHO + step) - loss.derivative(RHO - step)) / (2 * step)
    np.testing.assert_allclose(loss.curvature(-loss.derivative(RHO)), slope, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("loss", ALL, ids=lambda loss: type(loss).__name__)
def test_conjugate_is_the_supremum(loss):
    """L*(-u) = max_rho { -u rho - L(rho) }, here over a fine grid; equality holds at u = -L'(rho)."""
    grid = np.linspace(-60, 60, 240_001)
    for u in (0.0, 0.1, 0.5, 0.9, 1.0):
        supremum = np.max(-u * grid - loss.value(grid))
        assert loss.conjugate(np.array(u)) == pytest.approx(supremum, abs=1e-3)
    u = -loss.derivative(RHO)
    np.testing.assert_allclose(loss.conjugate(u), -u * RHO - loss.value(RHO), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", ALL, ids=lambda loss: type(loss).__name__)
def test_outside_its_domain_the_conjugate_is_infinite(loss):
    assert loss.conjugate(np.array([-0.1]))[0] == np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", ALL, ids=lambda loss: type(loss).__name__)
def test_margins_of_a_thousand_are_safe(loss, dtype):
    rho = np.array([-1000, -100, 0, 100, 1000], dtype=dtype)
    for values in (loss.value(rho), loss.derivative(rho), loss.conjugate(-loss.derivative(rho))):
        assert not np.isnan(values).any()
    assert np.isfinite(loss.value(rho)).all()
    assert np.isfinite(loss.derivative(rho)).all()
    assert (np.diff(loss.value(rho)) <= 0).all()


def test_unknown_loss_is_named():
    with pytest.raises(ValueError, match=r"loss='huber'.*'logistic'"):
        make_loss("huber")


def test_an_object_without_a_conjugate_is_refused():
    class Half:
        def value(self, rho):
            return rho

        def derivative(self, rho):
            return rho

    with pytest.raises(ValueError, match="conjugate"):
        make_loss(Half())
