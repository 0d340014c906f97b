import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.checks import check_pair
from cbid.data.images import crop_to_fill, resize


def test_shrinking_takes_means_of_areas():
    image = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_allclose(resize(image, (2, 2)), image.reshape(2, 2, 2, 3).mean(axis=(1, 3)), rtol=1e-6)


def test_each_side_in_its_own_way():
    """Columns shrink to means of two; then rows grow, and equal rows stay equal."""
    image = np.tile(np.array([0, 1, 0, 1], dtype=np.float32), (2, 1))
    np.testing.assert_allclose(resize(image, (5, 2)), np.full((5, 2), 0.5))


@settings(max_examples=40, deadline=None)
@given(*[st.integers(1, 50)] * 4, st.sampled_from([(), (3,)]), st.sampled_from([np.uint8, np.float32, np.float64]))
def test_sizes_and_types(height, width, new_height, new_width, channels, dtype):
    image = np.ones((height, width, *channels), dtype=dtype)
    for change in (resize, crop_to_fill):
        changed = change(image, (new_height, new_width))
        assert changed.shape == (new_height, new_width, *channels)
        assert changed.dtype == dtype
        np.testing.assert_allclose(changed, 1, rtol=1e-6)


def test_crop_about_the_middle():
    """Of 4 x 8 the middle 4 x 4 is taken, whose columns are 2 to 5."""
    image = np.tile(np.arange(8, dtype=np.float32), (4, 1))
    np.testing.assert_array_equal(crop_to_fill(image, (4, 4)), image[:, 2:6])
    np.testing.assert_array_equal(crop_to_fill(image.T, (4, 4)), image.T[2:6])


def test_views_are_taken_as_they_are():
    image = np.random.default_rng(0).random((20, 30)).astype(np.float32)[::2, ::-1]
    np.testing.assert_array_equal(resize(image, (5, 7)), resize(image.copy(), (5, 7)))


@pytest.mark.parametrize("size", [3, (3,), (1, 2, 3), "ab", (0, 2), (2.5, 2), None])
def test_no_size(size):
    with pytest.raises(ValueError, match="size"):
        check_pair("size", size)
