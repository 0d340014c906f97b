"""Dense SIFT against OpenCV's SIFT, against its definition written as plain loops, and what it promises."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.data import ImageError
from cbid.descriptors import DenseSIFT

cv2 = pytest.importorskip("cv2")
photographs = pytest.importorskip("skimage.data")


@pytest.fixture(scope="module")
def camera():
    return cv2.resize(photographs.camera()[100:], (150, 112), interpolation=cv2.INTER_AREA)


def opencv(image, frames, magnification):
    """OpenCV's SIFT at our patches: size s means bins of 1.5 s, octave 0 the image blurred to sigma."""
    values = np.empty((len(frames), 128), np.float32)
    for side in np.unique(frames[:, 2]):
        width = float(side) / 4
        rows = np.flatnonzero(frames[:, 2] == side)
        points = [cv2.KeyPoint(float(x), float(y), width / 1.5, 0.0, 0.0, 0) for x, y, _ in frames[rows]]
        kept, found = cv2.SIFT_create(sigma=width / magnification).compute(image, points)
        assert len(kept) == len(points)
        values[rows] = found
    return values


@pytest.mark.parametrize("magnification", [3.0, 6.0])
@pytest.mark.parametrize("border", ["inside", "zero"])
def test_equals_opencv(camera, magnification, border):
    """OpenCV rounds 512 times our values to a byte, and takes arctan to 0.3 degrees."""
    sift = DenseSIFT(step=5, sides=(16, 22, 40), longest=None, border=border, magnification=magnification)
    values, frames, shape = sift.describe(camera)
    assert shape == camera.shape
    assert set(frames[:, 2]) == {16, 22, 40}
    expected = opencv(camera, frames, magnification)
    np.testing.assert_allclose(np.minimum(512 * values, 255), expected, atol=1)


def by_definition(image, x, y, side, window):
    """The 128 values of one patch, pixel by pixel in float64, each gradient into its eight neighbouring bins."""
    image = np.asarray(image, float)
    width = side / 4
    histogram = np.zeros((4, 4, 8))
    for v in range(1, image.shape[0] - 1):
        for u in range(1, image.shape[1] - 1):
            row, column = (v - y) / width + 1.5, (u - x) / width + 1.5
            if not (-1 < row < 4 and -1 < column < 4):
                continue
            dx, dy = image[v, u + 1] - image[v, u - 1], image[v - 1, u] - image[v + 1, u]
            weight = math.hypot(dx, dy)
            if window is not None:
                weight *= math.exp(-(((v - y) / width) ** 2 + ((u - x) / width) ** 2) / (2 * window**2))
            angle = math.atan2(dy, dx) % (2 * math.pi) / (2 * math.pi) * 8
            for i in range(4):
                for j in range(4):
                    shared = max(0, 1 - abs(row - i)) * max(0, 1 - abs(column - j)) * weight
                    histogram[i, j, int(angle) % 8] += shared * (1 - angle % 1)
                    histogram[i, j, (int(angle) + 1) % 8] += shared * (angle % 1)
    values = histogram.ravel()
    values = np.minimum(values / np.linalg.norm(values), 0.2)
    return values / np.linalg.norm(values)


@pytest.mark.parametrize("window", [2.0, None])
def test_equals_its_definition(camera, window):
    part = camera[20:60, 30:78] / 255.0
    sift = DenseSIFT(step=11, sides=(13, 20), longest=None, border="zero", magnification=None, window=window)
    values, frames, _ = sift.describe(part)
    for row, (x, y, side) in zip(values, frames):
        np.testing.assert_allclose(row, by_definition(part, x, y, side, window), atol=2e-6)


def test_root_is_the_square_root_of_the_shares(camera):
    plain, frames, _ = DenseSIFT(step=10, longest=None).describe(camera)
    root, same, _ = DenseSIFT(step=10, longest=None, root=True).describe(camera)
    np.testing.assert_array_equal(frames, same)
    np.testing.assert_allclose(root, np.sqrt(plain / plain.sum(1, keepdims=True)), atol=1e-6)


def test_vertical_edge():
    """Left half dark, right half bright: every gradient points right, orientation 0."""
    image = np.zeros((32, 32), np.uint8)
    image[:, 16:] = 200
    values, _, _ = DenseSIFT(sides=(24,), step=1, longest=None, magnification=None).describe(image)
    histograms = values.reshape(len(values), 16, 8)
    assert np.all(histograms[:, :, 1:] < 1e-6)
    np.testing.assert_allclose(np.linalg.norm(values, axis=1), 1, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(gain=st.floats(0.2, 1.0), offset=st.floats(0.0, 0.2), seed=st.integers(0, 1000))
def test_invariant_to_brightness_and_contrast(gain, offset, seed):
    image = np.random.default_rng(seed).random((40, 44)) * 0.7
    sift = DenseSIFT(step=6, sides=(16, 24), longest=None)
    np.testing.assert_allclose(sift.describe(image)[0], sift.describe(gain * image + offset)[0], atol=2e-4)


def test_a_quarter_turn_turns_bins_and_orientations(camera):
    """Turning the image by 90 degrees against the clock moves bin (i, j) to (3 - j, i) and o to o + 2."""
    square = camera[:101, :101]
    sift = DenseSIFT(step=4, sides=(20,), longest=None)
    values, frames, _ = sift.describe(square)
    turned, turned_frames, _ = sift.describe(np.rot90(square).copy())
    where = {(x, y): k for k, (x, y, _) in enumerate(turned_frames)}
    order = [where[(y, 100 - x)] for x, y, _ in frames]
    moved = np.roll(np.rot90(values.reshape(-1, 4, 4, 8), axes=(1, 2)), 2, axis=3)
    np.testing.assert_allclose(turned[order], moved.reshape(-1, 128), atol=1e-4)


def test_scales_follow_the_patch(camera):
    """A patch of twice the side in an image of twice the size has nearly the same values, blur and all."""
    double = cv2.resize(camera, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC)
    sift = DenseSIFT(step=6, sides=(32,), longest=None, magnification=3)
    small, frames, _ = sift.describe(camera)
    large, large_frames, _ = DenseSIFT(step=1, sides=(64,), longest=None, magnification=3).describe(double)
    where = {(x, y): k for k, (x, y, _) in enumerate(large_frames)}
    order = [where[(2 * x, 2 * y)] for x, y, _ in frames]
    assert np.median(np.sum(small * large[order], axis=1)) > 0.99


def test_grid():
    """21 pixels hold patches of 15 at centres 7 to 13, and 16 pixels at 7 and 8: at 7 when the step is 3."""
    image = np.random.default_rng(0).random((16, 21))
    _, frames, shape = DenseSIFT(step=3, sides=(16,), longest=None).describe(image)
    assert shape == (16, 21)
    np.testing.assert_array_equal(frames, np.empty((0, 3)))  # centres are whole pixels
    _, frames, _ = DenseSIFT(step=3, sides=(15,), longest=None).describe(image)
    np.testing.assert_array_equal(frames, [[7, 7, 15], [10, 7, 15], [13, 7, 15]])
    _, frames, _ = DenseSIFT(step=10, sides=(15,), longest=None, border="mirror").describe(image)
    assert sorted({x for x, _, _ in frames}) == [0, 10, 20]
    assert sorted({y for _, y, _ in frames}) == [2, 12]


def test_mirror_equals_the_inside_of_a_mirrored_image(camera):
    sift = DenseSIFT(step=7, sides=(16,), longest=None, border="mirror", magnification=None)
    values, frames, _ = sift.describe(camera)
    around = np.pad(camera, 30, mode="reflect")
    inside, where, _ = DenseSIFT(step=1, sides=(16,), longest=None, magnification=None).describe(around)
    index = {(x - 30, y - 30): k for k, (x, y, _) in enumerate(where)}
    np.testing.assert_allclose(values, inside[[index[(x, y)] for x, y, _ in frames]], atol=1e-6)


def test_low_contrast():
    """A flat left half: kept rows are zero there, dropped ones gone."""
    rng = np.random.default_rng(0)
    image = np.full((60, 120), 0.5)
    image[:, 60:] = rng.random((60, 60))
    image[:, :60] += 1e-4 * rng.random((60, 60))
    kept, frames, _ = DenseSIFT(sides=(16,), longest=None).describe(image)
    zeroed, _, _ = DenseSIFT(sides=(16,), longest=None, low_contrast="zero").describe(image)
    dropped, left, _ = DenseSIFT(sides=(16,), longest=None, low_contrast="drop").describe(image)
    flat, rich = frames[:, 0] < 45, frames[:, 0] > 65
    np.testing.assert_allclose(np.linalg.norm(kept, axis=1), 1, atol=1e-5)
    assert not zeroed[flat].any()
    np.testing.assert_array_equal(zeroed[rich], kept[rich])
    np.testing.assert_array_equal(dropped, zeroed[zeroed.any(axis=1)])
    np.testing.assert_array_equal(left, frames[zeroed.any(axis=1)])


def test_black_image_is_zero_not_nan():
    values, _, _ = DenseSIFT(root=True).describe(np.zeros((100, 150), np.uint8))
    assert values.shape[0] > 0
    assert not values.any()


def test_types_and_channels_agree(camera):
    sift = DenseSIFT(step=9, longest=None)
    values, _, _ = sift.describe(camera)
    assert values.dtype == np.float32
    for same in (camera / 255.0, (camera / 255.0).astype(np.float32), np.repeat(camera[..., None], 3, axis=2)):
        np.testing.assert_allclose(sift.describe(same)[0], values, atol=2e-5)


def test_about_ten_thousand_descriptors_of_a_photograph_by_default():
    """A photograph of 4 : 3 brought to 150 x 112: four scales at every second pixel."""
    values, frames, shape = DenseSIFT().describe(photographs.camera()[:384])
    assert shape == (112, 150)
    assert 9_000 < len(values) < 13_000
    assert frames.shape == (len(values), 3)


def test_threads_change_nothing(camera):
    images = [camera] * 70 + [camera[:, ::-1]] * 70
    one = DenseSIFT(step=12).fit(images).transform(images)
    two = DenseSIFT(step=12, n_jobs=2).transform(images)
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.offsets, two.offsets)
    np.testing.assert_array_equal(one.shapes, np.full((140, 2), [112, 150]))


@pytest.mark.parametrize("shape", [(1, 1), (1, 10_000), (3, 3), (16, 16)])
@pytest.mark.parametrize("border", ["inside", "zero", "mirror"])
def test_tiny_and_thin_images(shape, border):
    values, frames, _ = DenseSIFT(longest=None, step=50, border=border).describe(np.ones(shape, np.uint8))
    assert values.shape == (len(frames), 128)
    assert np.isfinite(values).all()
    assert (len(values) > 0) == (border != "inside")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"step": 0}, "step"),
        ({"sides": ()}, "sides"),
        ({"sides": "16"}, "sides"),
        ({"sides": (16, 2)}, "sides"),
        ({"longest": 0}, "longest"),
        ({"border": "wrap"}, "border"),
        ({"magnification": 0}, "magnification"),
        ({"window": -1}, "window"),
        ({"root": 2}, "root"),
        ({"low_contrast": "hide"}, "low_contrast"),
        ({"contrast": float("nan")}, "contrast"),
    ],
)
def test_bad_settings(change, word):
    with pytest.raises(ValueError, match=word):
        DenseSIFT(**change).transform([np.zeros((20, 20), np.uint8)])


def test_settings_tell_values_apart():
    assert DenseSIFT(sides=(16,)).fingerprint() == DenseSIFT(sides=[16.0], n_jobs=2, verbose=1).fingerprint()
    assert DenseSIFT(sides=(16,)).fingerprint() != DenseSIFT(sides=(17,)).fingerprint()
    assert DenseSIFT().fingerprint() != DenseSIFT(root=True).fingerprint()


def test_what_is_no_image_is_reported():
    with pytest.raises(ImageError, match="shape"):
        DenseSIFT().transform([np.zeros((20, 20), np.uint8), np.zeros((2, 3, 4, 5), np.uint8)])
