"""The window of a detector, and its training windows."""

import numpy as np
import pytest

from cbid.detection.layout import WindowLayout, jittered_windows, with_border
from tests.descriptors.photographs import color


def test_the_window_of_pedestrians():
    layout = WindowLayout()
    layout.check()
    assert (layout.n_features, layout.blocks, layout.block_values, layout.margin) == (3780, (15, 7), 36, 5)


def test_context_around_a_training_window_is_used():
    """A picture with a border of 16 pixels is described like a window in a larger photograph."""
    layout, image = WindowLayout(), color()[0][20:180, 40:136]
    values = layout.describe(image)
    np.testing.assert_array_equal(values, layout.descriptor().describe(image[11:-11, 11:-11]))
    assert np.abs(values - layout.describe(image[16:-16, 16:-16])).max() > 1e-3


def test_a_missing_border_repeats_the_edge():
    layout, image = WindowLayout(), color()[0][20:148, 40:104]
    np.testing.assert_array_equal(layout.describe(image), layout.descriptor().describe(with_border(image, 5)))
    # A partial border is completed.
    more = color()[0][18:150, 38:106]
    np.testing.assert_array_equal(layout.describe(more), layout.descriptor().describe(with_border(more, 3)))


def test_pictures_of_other_sizes_are_resized():
    assert WindowLayout().describe(color()[0][:100, :50]).shape == (3780,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": (128, 60)}, r"window=\(128, 60\)"),
        ({"window": (8, 64)}, r"window\[0\]=8"),
        ({"window": 64}, r"window=64"),
        ({"cell": 0}, "cell=0"),
        ({"voting": "soft"}, "voting='soft'"),
        ({"norm": "l3"}, "norm='l3'"),
        ({"orientations": 9, "signed": True}, "orientations=9"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        WindowLayout(**settings).check()


@pytest.mark.parametrize("border", [0, 16])
def test_without_jitter_the_vector_is_that_of_the_window(border):
    layout = WindowLayout()
    image = color()[0][16 - border : 144 + border, 40 - border : 104 + border]
    found = jittered_windows(layout, image, 1, np.random.default_rng(0), shift=0.0, octaves=0.0)
    np.testing.assert_allclose(found[0], layout.describe(image), atol=1e-5)


def test_a_shift_by_whole_pixels():
    """The result is the window at the shifted position."""
    layout, photograph = WindowLayout(), color()[0]

    class Always:
        def uniform(self, low, high, size=None):
            return 0.0 if size is None else np.array([3.0, -2.0])

    found = jittered_windows(layout, photograph[10:170, 20:116], 1, Always(), shift=4, octaves=0.0)
    np.testing.assert_allclose(found[0], layout.describe(photograph[13:173, 18:114]), atol=1e-5)


def test_copies_differ_and_follow_the_seed():
    layout, image = WindowLayout(), color()[0][16:144, 40:104]
    first, again = (
        jittered_windows(layout, image, 3, np.random.default_rng(1), shift=4, octaves=0.1) for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first[0] - first[1]).max() > 1e-3
    assert jittered_windows(layout, image[:100, :50], 1, np.random.default_rng(1), shift=4, octaves=0.1).shape == (
        1,
        3780,
    )
