import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.feature import local_binary_pattern

from cbid.data import ImageError
from cbid.descriptors import CENTRIST, spatial_pact
from cbid.descriptors.census import census_transform
from tests.descriptors import photographs


def test_pixel_by_pixel():
    gray = np.random.default_rng(0).integers(0, 4, (6, 7))
    found = census_transform(gray)
    for i in range(1, 5):
        for j in range(1, 6):
            around = np.delete(gray[i - 1 : i + 2, j - 1 : j + 2].ravel(), 4)
            bits = "".join(str(int(gray[i, j] >= v)) for v in around)
            assert found[i - 1, j - 1] == int(bits, 2)


def test_same_patterns_as_skimage():
    """Its local binary pattern sets a bit where the neighbour is not darker, around the circle. On the negative that
    is our bit; with four neighbours on a circle of one pixel nothing is interpolated: right, up, left, down."""
    gray = photographs.gray()[0]
    pattern = local_binary_pattern(255 - gray, 4, 1)[1:-1, 1:-1].astype(int)
    found = census_transform(gray).astype(int)
    # Ours, from the highest bit: 7 6 5 / 4 . 3 / 2 1 0.
    ours = sum(((found >> bit) & 1) << place for place, bit in enumerate((3, 6, 4, 1)))
    np.testing.assert_array_equal(ours, pattern)


def plain_blocks(gray, side):
    """Histograms of the blocks of one level, cut out one by one."""
    census = census_transform(gray)
    edges = [[-(-k * length // (2 * side)) for k in range(2 * side + 1)] for length in census.shape]
    starts = [(i, j) for i in range(0, 2 * side, 2) for j in range(0, 2 * side, 2)]
    starts += [(i, j) for i in range(1, 2 * side - 1, 2) for j in range(1, 2 * side - 1, 2)]
    for i, j in starts:
        block = np.s_[edges[0][i] : edges[0][i + 2], edges[1][j] : edges[1][j + 2]]
        counts = np.bincount(census[block].ravel(), minlength=256)
        pixels = gray[1:-1, 1:-1][block] / 255
        yield counts / counts.sum(), pixels.mean(), pixels.std()


def test_blocks_of_the_pyramid():
    """25 blocks of the image itself, 5 of its half and 1 of its quarter; sides are multiples of 4, so that halving by
    means of areas is plain averaging."""
    gray = photographs.gray()[0][:96, :120]
    half, quarter = (
        np.rint(gray.reshape(96 // k, k, 120 // k, k).mean(axis=(1, 3)) + 1e-9).astype(np.uint8) for k in (2, 4)
    )
    expected = [*plain_blocks(quarter, 1), *plain_blocks(half, 2), *plain_blocks(gray, 4)]
    found = CENTRIST(norm=None, moments=True).describe(gray).reshape(31, 256)
    close = [np.abs(row[:254] - histogram[1:-1]).max() for row, (histogram, _, _) in zip(found, expected)]
    assert max(close[6:]) < 1e-6  # the image itself
    assert max(close) < 0.02  # halves of a gray value may be rounded otherwise
    np.testing.assert_allclose(found[:, 254:], [pair[1:] for pair in expected], atol=2e-3)

    roots = CENTRIST(norm="root").describe(gray).reshape(31, 254)
    np.testing.assert_allclose(roots**2, found[:, :254], atol=1e-6)
    normed = CENTRIST().describe(gray).reshape(31, 254)
    np.testing.assert_allclose(normed.mean(axis=1), 0, atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(normed, axis=1), 1, rtol=1e-5)
    centred = found[:, :254] - found[:, :254].mean(axis=1, keepdims=True)
    np.testing.assert_allclose(normed, centred / np.linalg.norm(centred, axis=1, keepdims=True), atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_monotone_changes_of_gray_do_not_matter(seed):
    """100 gray values, mapped to 100 others in the same order."""
    rng = np.random.default_rng(seed)
    gray = rng.integers(0, 100, (40, 50)).astype(np.uint8)
    curve = np.sort(rng.choice(256, 100, replace=False)).astype(np.uint8)
    descriptor = CENTRIST(levels=0)
    np.testing.assert_array_equal(descriptor.describe(curve[gray]), descriptor.describe(gray))


def test_all_levels_bear_added_light():
    gray = photographs.gray()[0] // 2
    np.testing.assert_array_equal(CENTRIST().describe(gray + np.uint8(100)), CENTRIST().describe(gray))


def test_flat_image():
    """All bits are set: only bin 255, which is left out."""
    assert not CENTRIST().describe(np.full((60, 60), 0.5)).any()
    moments = CENTRIST(moments=True).describe(np.full((60, 60), 0.2)).reshape(31, 256)[:, 254:]
    np.testing.assert_allclose(moments, np.tile([0.2, 0], (31, 1)), atol=1e-6)


def test_smallest_image_and_smaller():
    assert np.isfinite(CENTRIST().describe(np.random.default_rng(0).random((16, 16)))).all()
    with pytest.raises(ImageError, match="at least 16 x 16"):
        CENTRIST().transform([np.zeros((1, 10_000))])
    assert CENTRIST(levels=0).describe(np.eye(4)).shape == (254,)


def test_spatial_pact():
    """31 blocks of 40 components, mean and deviation."""
    images = [image[i : i + 60, j : j + 60] for image in photographs.gray() for i in (0, 40, 80) for j in (0, 60)]
    pipeline = spatial_pact()
    values = pipeline.fit_transform(images)
    assert values.shape == (18, 1302)
    blocks = values.reshape(-1, 42)
    np.testing.assert_allclose(blocks[:, :40].mean(axis=0), 0, atol=1e-5)
    raw = CENTRIST(moments=True).transform(images).reshape(-1, 256)
    np.testing.assert_array_equal(blocks[:, 40:], raw[:, 254:])
    # The components are in the order of what they hold.
    spread = blocks[:, :40].var(axis=0)
    assert (np.diff(spread) <= 1e-6).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"levels": -1}, "levels=-1"),
        ({"norm": True}, "norm=True"),
        ({"moments": 1}, "moments=1"),
        ({"size": (15, 20)}, r"size\[0\]=15"),
    ],
)
def test_settings_that_are_not_accepted(params, message):
    with pytest.raises(ValueError, match=message):
        CENTRIST(**params).fit(None)
