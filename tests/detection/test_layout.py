import numpy as np
import pytest

from cbid.detection.layout import WindowLayout, with_border
from tests.descriptors.photographs import color


def test_the_window_of_pedestrians():
    layout = WindowLayout()
    layout.check()
    assert (layout.n_features, layout.blocks, layout.block_values, layout.margin) == (3780, (15, 7), 36, 5)


def test_context_around_a_training_window_is_used():
    """A picture with 16 pixels more on every side is described as the window in a larger photograph would be."""
    layout, image = WindowLayout(), color()[0][20:180, 40:136]
    values = layout.describe(image)
    np.testing.assert_array_equal(values, layout.descriptor().describe(image[11:-11, 11:-11]))
    assert np.abs(values - layout.describe(image[16:-16, 16:-16])).max() > 1e-3


def test_a_border_is_continued_where_there_is_none():
    layout, image = WindowLayout(), color()[0][20:148, 40:104]
    np.testing.assert_array_equal(layout.describe(image), layout.descriptor().describe(with_border(image, 5)))
    # With some context, the rest is continued.
    more = color()[0][18:150, 38:106]
    np.testing.assert_array_equal(layout.describe(more), layout.descriptor().describe(with_border(more, 3)))


def test_pictures_of_other_sizes_are_brought_to_the_window():
    assert WindowLayout().describe(color()[0][:100, :50]).shape == (3780,)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"window": (128, 60)}, r"window=\(128, 60\) is not accepted; give multiples of cell=8"),
        ({"window": (8, 64)}, r"window\[0\]=8 is not accepted; give an integer of at least 16"),
        ({"window": 64}, r"window=64 is not accepted; give a pair"),
        ({"cell": 0}, "cell=0"),
        ({"voting": "soft"}, "voting='soft'"),
        ({"norm": "l3"}, "norm='l3'"),
        ({"orientations": 9, "signed": True}, "even number"),
    ],
)
def test_wrong_settings(settings, told):
    with pytest.raises(ValueError, match=told):
        WindowLayout(**settings).check()
