import numpy as np
import pytest

from cbid.descriptors import RawPixels
from tests.descriptors import photographs


def test_the_pixels_as_they_are():
    gray, color = photographs.gray()[0], photographs.color()[0]
    np.testing.assert_allclose(RawPixels().describe(gray), gray.ravel() / 255, rtol=1e-6)
    np.testing.assert_allclose(RawPixels(color=True).describe(color), color.ravel() / 255, rtol=1e-6)
    np.testing.assert_allclose(RawPixels(color=True).describe(gray), gray.repeat(3) / 255, rtol=1e-6)


def test_gray_of_color():
    """The weights of ITU-R 601."""
    image = np.array([[[1.0, 0, 0], [0, 1, 0], [0, 0, 1]]])
    np.testing.assert_allclose(RawPixels().describe(image), [0.299, 0.587, 0.114], atol=1e-6)


def test_values_are_not_those_of_the_caller():
    image = np.zeros((2, 2), dtype=np.float32)
    RawPixels().describe(image)[:] = 1
    assert not image.any()


def test_norms():
    image = photographs.gray()[0]
    contrast = RawPixels(norm="contrast").describe(image)
    assert abs(contrast.mean()) < 1e-6
    assert contrast.std() == pytest.approx(1, abs=1e-6)
    assert np.linalg.norm(RawPixels(norm="l2").describe(image)) == pytest.approx(1, abs=1e-6)
    # Light and contrast of the picture do not matter to the one, contrast not to the other.
    changed = image / 255 * 0.5 + 0.1
    np.testing.assert_allclose(RawPixels(norm="contrast").describe(changed), contrast, atol=1e-5)


@pytest.mark.parametrize(("norm", "value"), [("contrast", 0.3), ("l2", 0.0)])
def test_nothing_to_normalise(norm, value):
    found = RawPixels(norm=norm).describe(np.full((5, 7), value))
    np.testing.assert_array_equal(found, np.zeros(35))
