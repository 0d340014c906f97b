"""Images as arrays: what is accepted, conversions, shrinking."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage.color import rgb2gray

from cbid.data.decode import ImageError
from cbid.data.images import as_gray, as_rgb, check_image, resize_longest, to_float, to_uint8
from tests.data.pictures import picture


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros(5, np.uint8), r"shape \(5,\)"),
        (np.zeros((4, 5, 4), np.uint8), r"shape \(4, 5, 4\)"),
        (np.zeros((4, 5, 1), np.uint8), r"shape \(4, 5, 1\)"),
        (np.zeros((0, 5), np.uint8), "at least one pixel"),
        (np.zeros((4, 5), np.int64), "type int64"),
        (np.zeros((4, 5), bool), "type bool"),
        (np.zeros((4, 5), np.float16), "type float16"),
        (np.array([["a"]]), "type <U1"),
        (np.full((4, 5), 1.5), "from 1.5 to 1.5"),
        (np.full((4, 5), -0.1, np.float32), "from -0.1 to -0.1"),
        (np.array([[0, np.nan]]), "NaN"),
        (np.array([[0, np.inf]]), "from 0 to inf"),
        (3, r"shape \(\)"),
    ],
)
def test_files_that_are_not_images_are_reported(image, message):
    for function in (check_image, to_uint8, to_float):
        with pytest.raises(ImageError, match=message):
            function(image)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (4, 5), (4, 5, 3)])
def test_what_is_an_image_is_not_copied(dtype, shape):
    image = np.ones(shape, dtype)
    assert check_image(image) is image
    assert to_uint8(image).dtype == np.uint8
    assert to_float(image).dtype == np.float32


def test_uint8_and_floats_lead_back():
    every = np.arange(256, dtype=np.uint8).reshape(16, 16)
    np.testing.assert_array_equal(to_uint8(to_float(every)), every)
    np.testing.assert_array_equal(to_uint8(every / 255), every)
    np.testing.assert_allclose(to_float(every), every / 255, rtol=1e-6)
    assert to_float(every).max() == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_gray_and_rgb(dtype):
    """ITU-R 601 weights, .299, .587, .114; scikit-image's are those of ITU-R 709, so only gray pixels compare."""
    image = picture().astype(dtype) if dtype == np.uint8 else (picture() / 255).astype(dtype)
    gray = as_gray(image)
    assert gray.dtype == dtype
    expected = image.astype(float) @ [0.299, 0.587, 0.114]
    assert np.abs(gray - expected).max() <= (0.501 if dtype == np.uint8 else 1e-6)
    again = as_gray(as_rgb(gray))
    np.testing.assert_allclose(again, gray, atol=1e-6)
    np.testing.assert_allclose(rgb2gray(to_float(as_rgb(gray))), to_float(gray), atol=1e-6)
    assert as_gray(gray) is gray
    assert as_rgb(image) is image


def test_views_that_run_backwards_are_taken():
    image = picture()
    np.testing.assert_array_equal(as_gray(image[::-1, ::-1]), as_gray(image)[::-1, ::-1])
    np.testing.assert_array_equal(resize_longest(image[:, ::-1], 30), resize_longest(image[:, ::-1].copy(), 30))


def test_shrinking_is_the_mean_over_areas():
    image = np.random.default_rng(0).random((8, 12))
    small = resize_longest(image, 4)  # by 3 along both: 8 / 3 is not whole, so compare a case that is
    assert small.shape == (3, 4)
    halved = resize_longest(image, 6)
    np.testing.assert_allclose(halved, image.reshape(4, 2, 6, 2).mean(axis=(1, 3)))
    assert resize_longest(np.zeros((10_000, 1), np.uint8), 100).shape == (100, 1)


@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 60), st.sampled_from([np.uint8, np.float32, np.float64])
)
def test_the_longest_side_is_as_requested(height, width, longest, dtype):
    image = np.ones((height, width, 3), dtype)
    shrunk, brought = resize_longest(image, longest), resize_longest(image, longest, enlarge=True)
    assert max(shrunk.shape[:2]) == min(longest, max(height, width))
    assert max(brought.shape[:2]) == longest
    assert min(brought.shape[:2]) == max(1, round(min(height, width) * longest / max(height, width)))
    for result in (shrunk, brought):
        assert result.dtype == dtype
        np.testing.assert_allclose(result, 1, rtol=1e-6)


def test_a_small_image_stays_as_it_is():
    image = picture()
    assert resize_longest(image, 60) is image
    assert resize_longest(image, 100) is image
    with pytest.raises(ValueError, match="longest=0"):
        resize_longest(image, 0)


@pytest.mark.parametrize("work", [as_gray, lambda image: resize_longest(image, 5)], ids=["gray", "resized"])
def test_without_opencv_the_extra_is_named(work, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ImportError, match="pip install 'pillow"):
        work(np.zeros((10, 10, 3), np.uint8))
