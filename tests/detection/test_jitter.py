import numpy as np
import pytest

from cbid.detection.jitter import jittered_windows
from cbid.detection.layout import WindowLayout
from tests.descriptors.photographs import color


@pytest.mark.parametrize("border", [0, 16])
def test_nothing_moved_is_the_window_itself(border):
    layout = WindowLayout()
    image = color()[0][16 - border : 144 + border, 40 - border : 104 + border]
    found = jittered_windows(layout, image, 1, np.random.default_rng(0), shift=0.0, octaves=0.0)
    np.testing.assert_allclose(found[0], layout.describe(image), atol=1e-5)


def test_a_shift_is_a_shift():
    """Moved by whole pixels, the window is the one beside it."""
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
