import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.feature import hog

from cbid.data import ImageError
from cbid.descriptors import HOG, describe
from cbid.descriptors.gradients import gradients, grid_of_cells, orientation_histograms
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


@pytest.mark.parametrize("voting", ["hard", "trilinear"])
def test_cells_hold_the_mean_votes_of_their_pixels(voting):
    image = photographs.color()[1]
    found = cell_histograms(image, cell=5, margin=3, orientations=6, signed=True, voting=voting)
    grid = grid_of_cells(image.shape, 5, 3)
    sums = orientation_histograms(*gradients(image), grid, 6, signed=True, voting=voting)
    np.testing.assert_allclose(found, sums / 25, rtol=1e-5, atol=1e-9)


def test_many_images_are_described_as_one_by_one():
    gray, color = photographs.gray(), photographs.color()
    alike = [image[:40, :32] for image in (*gray, *gray[::-1])]
    for images in (alike, [*gray, *color], [image / 255 for image in color], alike[:1]):
        for descriptor in (HOG(), HOG(voting="hard", sqrt=True), HOG(size=(32, 24), margin=2)):
            found = descriptor.describe_many(images)
            for value, image in zip(found, images, strict=True):
                np.testing.assert_array_equal(value, descriptor.describe(image))


def test_an_image_among_many_that_cannot_be_described():
    images = [np.zeros((32, 32)), np.zeros((8, 32)), np.full((32, 32), 2.0), *[np.zeros((32, 32))] * 30]
    found = describe(images * 3, HOG(), on_error="skip", n_jobs=2)
    assert [name for name, _ in found.failures] == [f"image {33 * i + j}" for i in range(3) for j in (1, 2)]
    assert found.values.shape == (93, 9 * 36)


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
    with pytest.raises(ImageError, match=r"image 1: the image has 1 x 10000 pixels: expected at least 16 x 16"):
        HOG().transform([np.zeros((16, 16)), np.zeros((1, 10_000))])
    with pytest.raises(ImageError, match="1 x 1 pixels"):
        HOG().transform([np.zeros((1, 1))])
    with pytest.raises(ImageError, match=r"30 x 30 pixels: expected at least 32 x 32"):
        HOG(margin=8).transform([np.zeros((30, 30))])
    with pytest.raises(ValueError, match="gives 324 values, the first image 36"):
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
        ({"size": 64}, r"size=64"),
        ({"size": (128, 15)}, r"size\[1\]=15"),
    ],
)
def test_settings_that_are_not_accepted(params, message):
    with pytest.raises(ValueError, match=message):
        HOG(**params).fit(None)
