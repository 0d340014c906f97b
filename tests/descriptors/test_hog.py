import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.feature import hog

from cbid.data.images import ImageError
from cbid.descriptors import HOG
from cbid.descriptors.hog import NORMS, cell_histograms, normalised_blocks
from tests.descriptors import photographs

SKIMAGE = {"l2-hys": "L2-Hys", "l2": "L2", "l1": "L1", "l1-sqrt": "L1-sqrt"}


def reference(image, *, cell=8, block=2, orientations=9, norm="l2-hys", sqrt=False):
    return hog(
        image,
        orientations=orientations,
        pixels_per_cell=(cell, cell),
        cells_per_block=(block, block),
        block_norm=SKIMAGE[norm],
        transform_sqrt=sqrt,
        channel_axis=None if image.ndim == 2 else -1,
    )


def test_window_of_dalal_and_triggs():
    assert HOG().describe(np.zeros((128, 64))).shape == (105 * 36,) == (3780,)
    assert HOG(size=(128, 64)).describe(photographs.color()[0]).shape == (3780,)


@pytest.mark.parametrize(
    "params",
    [
        {},
        *({"norm": norm} for norm in NORMS[1:]),
        {"cell": 5, "block": 3, "orientations": 6},
        {"sqrt": True},
        {"cell": 7, "block": 1},
    ],
)
def test_hard_votes_equal_skimage(params):
    for image in photographs.gray():
        for dtype in (np.float32, np.float64):
            values = (image / 255).astype(dtype)
            found = HOG(voting="hard", **params).describe(values)
            np.testing.assert_allclose(found, reference(values, **params), atol=2e-6)
        found = HOG(voting="hard", **params).describe(image)
        np.testing.assert_allclose(found, reference(image / 255, **params), atol=1e-5)


def test_hard_votes_equal_skimage_in_color():
    # Over 256, not 255: then floats are exact, and so are channels with gradients of one length.
    for image in photographs.color():
        for dtype in (np.float32, np.float64):
            values = (image / 256).astype(dtype)
            np.testing.assert_allclose(HOG(voting="hard").describe(values), reference(values), atol=2e-6)


def test_blocks_of_a_ramp():
    """A ramp along x has one gradient, of angle 0. Hard: bin 0 alone, so four equal values a block, each 1/2 after
    the norm, clipped at 0.2, and 1/2 again. Trilinear: half of each vote goes to the last bin; cells inside have all
    votes, so each of eight values is 1 / sqrt(8), clipped and brought back."""
    ramp = np.tile(np.linspace(0, 1, 80), (48, 1))
    hard = normalised_blocks(cell_histograms(ramp, voting="hard"))
    inside = hard[:, 1:-1]
    np.testing.assert_allclose(inside[..., 0], 0.5, rtol=1e-5)
    np.testing.assert_allclose(inside[..., 1:], 0, atol=1e-7)
    soft = normalised_blocks(cell_histograms(ramp))[1:-1, 1:-1]
    np.testing.assert_allclose(soft[..., [0, 8]], 8**-0.5, rtol=1e-5)
    np.testing.assert_allclose(soft[..., 1:8], 0, atol=1e-6)


@pytest.mark.parametrize(("voting", "margin"), [("hard", 1), ("trilinear", 5)])
def test_a_window_is_a_slice_of_the_whole(voting, margin):
    image = photographs.color()[0]
    rows, columns = 6, 4
    blocks = normalised_blocks(cell_histograms(image, voting=voting))
    descriptor = HOG(voting=voting, margin=margin)
    for r, c in ((1, 1), (3, 7), (11, 5)):
        top, left = 8 * r - margin, 8 * c - margin
        window = image[top : top + 8 * rows + 2 * margin, left : left + 8 * columns + 2 * margin]
        expected = blocks[r : r + rows - 1, c : c + columns - 1].ravel()
        np.testing.assert_allclose(descriptor.describe(window), expected, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 60), st.sampled_from(["hard", "trilinear"]))
def test_added_light_changes_nothing(light, voting):
    image = photographs.gray()[0] // 2
    found, expected = (HOG(voting=voting).describe(part) for part in (image + np.uint8(light), image))
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 1))
def test_contrast_changes_next_to_nothing(contrast):
    # Only blocks that are nearly flat feel the small number in the norm.
    image = photographs.gray()[2] / 255
    np.testing.assert_allclose(HOG().describe(image * contrast), HOG().describe(image), atol=1e-3)


def test_blocks_have_unit_norm():
    blocks = normalised_blocks(cell_histograms(photographs.gray()[0]), norm="l2")
    np.testing.assert_allclose((blocks**2).sum(axis=(2, 3, 4)), 1, rtol=1e-3)


def test_too_small():
    with pytest.raises(ImageError, match=r"image 1: the image has 1 x 10000 pixels; at least 16 x 16"):
        HOG().transform([np.zeros((16, 16)), np.zeros((1, 10_000))])
    with pytest.raises(ImageError, match="1 x 1 pixels"):
        HOG().transform([np.zeros((1, 1))])
    with pytest.raises(ImageError, match=r"30 x 30 pixels; at least 32 x 32"):
        HOG(margin=8).transform([np.zeros((30, 30))])
    with pytest.raises(ValueError, match=r"different sizes gave \[36, 324\] values; set a size"):
        HOG().transform([np.zeros((16, 16)), np.zeros((32, 32))])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"cell": 0}, "cell=0"),
        ({"block": 1.5}, "block=1.5"),
        ({"orientations": 9, "signed": True}, "even number"),
        ({"voting": "soft"}, "voting='soft'"),
        ({"norm": "max"}, "norm='max'"),
        ({"sqrt": 1}, "sqrt=1"),
        ({"margin": -1}, "margin=-1"),
        ({"size": 64}, r"size=64 is not accepted; give a pair \(height, width\)"),
        ({"size": (128, 15)}, r"size\[1\]=15"),
    ],
)
def test_settings_that_are_not_accepted(params, message):
    with pytest.raises(ValueError, match=message):
        HOG(**params).fit(None)
