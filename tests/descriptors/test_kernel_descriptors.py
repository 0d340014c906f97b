"""Kernel descriptors against the match kernels they stand for, summed over all pairs of pixels."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.descriptors import KernelDescriptors
from cbid.descriptors.kernel_descriptors import all_shapes, shapes

cv2 = pytest.importorskip("cv2")
photographs = pytest.importorskip("skimage.data")

GAMMA = {"gradient": 5.0, "shape": 2.0, "colour": 4.0}
EPSILON = 0.1


@pytest.fixture(scope="module")
def photograph():
    return np.ascontiguousarray(photographs.astronaut()[89:132, 169:261] / 255.0, dtype=np.float32)


def attributes(image, kernel):
    """Strength and attribute of each pixel but the outermost, pixel by pixel from the definitions, in float64."""
    if kernel == "colour":
        return np.ones(image.shape[:2]), image.astype(float)
    gray = image.astype(float) @ [0.299, 0.587, 0.114]
    if kernel == "gradient":
        gray = cv2.GaussianBlur(gray, (0, 0), 0.8)
    h, w = gray.shape
    strength = np.zeros((h, w))
    attribute = np.zeros((h, w, 2 if kernel == "gradient" else 8))
    for y in range(1, h - 1):
        for x in range(1, w - 1):
            if kernel == "gradient":
                dx, dy = gray[y, x + 1] - gray[y, x - 1], gray[y - 1, x] - gray[y + 1, x]
                strength[y, x] = math.hypot(dx, dy)
                attribute[y, x] = math.cos(math.atan2(dy, dx)), math.sin(math.atan2(dy, dx))
            else:
                around = gray[y - 1 : y + 2, x - 1 : x + 2]
                strength[y, x] = around.std()
                attribute[y, x] = np.delete(around > gray[y, x], 4)
    return strength, attribute


def match_kernel(image, frames, kernel):
    """The kernel (m, m) between patches of side 16, by all pairs of their 17 x 17 pixels."""
    assert np.all(frames[:, :2] > 8)  # whole 3 x 3 neighbourhoods
    strength, attribute = attributes(image, kernel)
    places = np.stack(np.meshgrid(np.linspace(0, 1, 17), np.linspace(0, 1, 17)), axis=2).reshape(289, 2)
    near = np.exp(-3 * ((places[:, None] - places) ** 2).sum(2))
    patches = []
    for x, y, _ in frames.astype(int):
        part = np.s_[y - 8 : y + 9, x - 8 : x + 9]
        s = strength[part].ravel()
        patches.append((s / np.sqrt((s**2).sum() + EPSILON), attribute[part].reshape(289, -1)))
    values = np.empty((len(patches), len(patches)))
    for i, (s, a) in enumerate(patches):
        for j, (t, b) in enumerate(patches[: i + 1]):
            squares = (a**2).sum(1)[:, None] - 2 * a @ b.T + (b**2).sum(1)
            values[i, j] = values[j, i] = s @ (near * np.exp(-GAMMA[kernel] * squares)) @ t
    return values


@pytest.mark.parametrize(
    ("kernel", "n_components", "tolerance"),
    [
        ("gradient", 100, 0.03),
        ("gradient", 200, 0.005),
        ("gradient", 625, 0.0005),
        ("colour", 200, 0.03),
        ("colour", 625, 0.005),
        ("shape", 625, 0.2),
    ],
)
def test_inner_products_are_near_the_match_kernel(photograph, kernel, n_components, tolerance):
    """Within a part of the largest value; patterns decay slowly, so that shapes need more components."""
    describer = KernelDescriptors(kernel=kernel, n_components=n_components, sides=(16,), step=20, longest=None)
    values, frames, shape = describer.describe(photograph)
    assert shape == (43, 92)
    assert values.shape == (len(frames), n_components)
    exact = match_kernel(photograph, frames, kernel)
    np.testing.assert_allclose(values @ values.T, exact, atol=tolerance * exact.max())


@pytest.mark.parametrize("kernel", ["gradient", "shape", "colour"])
def test_more_components_are_nearer(photograph, kernel):
    def error(n_components):
        values, frames, _ = KernelDescriptors(
            kernel=kernel, n_components=n_components, sides=(16,), step=20, longest=None
        ).describe(photograph)
        return np.abs(values @ values.T - match_kernel(photograph, frames, kernel)).mean()

    errors = [error(n) for n in (25, 100, 400)]
    assert errors[0] > errors[1] > errors[2]


def test_components_are_those_of_a_longer_description(photograph):
    long = KernelDescriptors(n_components=300).describe(photograph)[0]
    short = KernelDescriptors(n_components=40).describe(photograph)[0]
    np.testing.assert_allclose(short, long[:, :40], atol=1e-4)


@settings(max_examples=15, deadline=None)
@given(offset=st.floats(0, 0.3), seed=st.integers(0, 1000), kernel=st.sampled_from(["gradient", "shape"]))
def test_invariant_to_brightness(offset, seed, kernel):
    """Sixteenths, so that sums are exact and no comparison between pixels turns over by rounding."""
    image = np.random.default_rng(seed).integers(0, 11, (24, 26)) / 16
    describer = KernelDescriptors(kernel=kernel, sides=(16,), step=3, longest=None)
    moved = image + round(offset * 16) / 16
    np.testing.assert_allclose(describer.describe(image)[0], describer.describe(moved)[0], atol=1e-4)


def test_nearly_invariant_to_contrast(photograph):
    """Exactly so when epsilon is nothing beside the strengths."""
    describer = KernelDescriptors(sides=(16,), longest=None, epsilon=1e-9)
    values, half = describer.describe(photograph)[0], describer.describe(photograph / 2)[0]
    np.testing.assert_allclose(values, half, atol=1e-3)


@pytest.mark.parametrize("kernel", ["gradient", "shape", "colour"])
def test_a_mirrored_image_keeps_the_kernel_between_its_patches(kernel):
    """Mirroring both patches mirrors every pair of pixels alike."""
    image = (photographs.astronaut()[90:131, 170:259] / 255.0).astype(np.float32)
    describer = KernelDescriptors(kernel=kernel, n_components=625, sides=(16,), step=9, longest=None)
    values, frames, _ = describer.describe(image)
    mirrored, others, _ = describer.describe(image[:, ::-1].copy())
    where = {(x, y): i for i, (x, y, _) in enumerate(others)}
    order = [where[(88 - x, y)] for x, y, _ in frames]
    gram = values @ values.T
    np.testing.assert_allclose(mirrored[order] @ mirrored[order].T, gram, atol=0.02 * gram.max())


def test_flat_patches_are_zero():
    for kernel in ("gradient", "shape"):
        values, _, _ = KernelDescriptors(kernel=kernel).describe(np.full((40, 50), 100, np.uint8))
        assert len(values)
        np.testing.assert_allclose(values, 0, atol=1e-5)


def test_shapes_of_one_pixel():
    """A pixel of 0.5 whose right neighbour alone is brighter: the fourth of eight comparisons."""
    image = np.full((3, 3), 0.25, np.float32)
    image[1, 1:] = 0.5, 0.75
    strength, bytes_ = shapes(image)
    assert bytes_[1, 1] == 0b00010000
    assert all_shapes()[bytes_[1, 1]].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert strength[1, 1] == pytest.approx(image.std(), rel=1e-6)


def test_bands_join(photograph, monkeypatch):
    """Described in bands of few rows, as large images are, the values are the same."""
    whole = KernelDescriptors(step=3).describe(photograph)
    monkeypatch.setattr("cbid.descriptors.kernel_descriptors._PIXELS", 400)
    parts = KernelDescriptors(step=3).describe(photograph)
    np.testing.assert_allclose(parts[0], whole[0], atol=1e-5)
    np.testing.assert_array_equal(parts[1], whole[1])


def test_frames_of_larger_patches_lie_in_the_image():
    values, frames, shape = KernelDescriptors(sides=(16, 40)).describe(photographs.astronaut())
    assert shape == (300, 300)
    assert values.dtype == np.float32
    x, y, side = frames.T
    assert set(side) == {16, 40}
    for at in (x, y):
        assert np.all(at - side / 2 >= -0.51)
        assert np.all(at + side / 2 <= 299.51)
    large = np.unique(x[side == 40])
    np.testing.assert_allclose(np.diff(large), 8 * 40 / 16, atol=1e-3)


def test_a_larger_patch_in_a_larger_image_is_described_alike(photograph):
    double = cv2.resize(photograph, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC).clip(0, 1)
    small, frames, _ = KernelDescriptors(sides=(16,), longest=None).describe(photograph)
    large, places, _ = KernelDescriptors(sides=(32,), longest=None).describe(double)
    np.testing.assert_allclose(places[:, :2], 2 * frames[:, :2] + 0.5, atol=1e-4)
    alike = np.sum(small * large, axis=1) / np.linalg.norm(small, axis=1) / np.linalg.norm(large, axis=1)
    assert alike.min() > 0.98


@pytest.mark.parametrize("kernel", ["gradient", "shape", "colour"])
def test_types_and_channels_agree(kernel):
    gray = np.random.default_rng(0).integers(0, 256, (30, 40), dtype=np.uint8)
    describer = KernelDescriptors(kernel=kernel, sides=(16,))
    values, _, _ = describer.describe(gray)
    assert values.dtype == np.float32
    for same in (gray / 255.0, (gray / 255.0).astype(np.float32), np.repeat(gray[..., None], 3, axis=2)):
        np.testing.assert_allclose(describer.describe(same)[0], values, atol=2e-3)


@pytest.mark.parametrize("shape", [(1, 1), (1, 10_000), (16, 16), (17, 17)])
def test_tiny_and_thin_images(shape):
    values, frames, _ = KernelDescriptors(longest=None).describe(np.ones(shape, np.uint8))
    assert values.shape == (len(frames), 200)
    assert len(values) == (1 if shape == (17, 17) else 0)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"kernel": "texture"}, "kernel"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": 626}, "n_components"),
        ({"sides": (3,)}, "sides"),
        ({"step": 0.5}, "step"),
        ({"longest": -1}, "longest"),
        ({"epsilon": 0}, "epsilon"),
    ],
)
def test_bad_settings(change, word):
    with pytest.raises(ValueError, match=word):
        KernelDescriptors(**change).fit([])


def test_threads_change_nothing(photograph):
    images = [photograph, photograph[:, ::-1].copy()] * 40
    one = KernelDescriptors(step=16).transform(images)
    two = KernelDescriptors(step=16, n_jobs=2).transform(images)
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.frames, two.frames)
