import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.descriptors import GIST
from cbid.descriptors.gist import gabor_filters, whiten
from tests.descriptors import photographs


def transform_matrix(n):
    """Discrete Fourier transform as a matrix, in float64."""
    k = np.arange(n)
    return np.exp(-2j * np.pi * np.outer(k, k) / n)


def frequencies(n):
    """Whole cycles an image of each row of the matrix, from -n/2 to n/2 - 1."""
    return (np.arange(n) + n // 2) % n - n // 2


def from_definition(image, scales=4, orientations=8, cells=4, border=32, fc=4.0):
    """GIST of a square image by transforms as matrices, and filters from their formula, in float64."""
    n = len(image)
    image = (image - image.min()) / (image.max() - image.min()) * 255

    # Whitening, on the image mirrored by 5 pixels.
    x = np.pad(np.log(image + 1), 5, mode="symmetric")
    m = len(x)
    W = transform_matrix(m)
    f = frequencies(m)
    low = np.exp(-(f[:, None] ** 2 + f[None, :] ** 2) / (fc / math.sqrt(math.log(2))) ** 2)

    def smooth(values):
        return (W.conj() @ ((W @ values @ W) * low) @ W.conj()).real / m**2

    y = x - smooth(x)
    y = (y / (0.2 + np.sqrt(np.abs(smooth(y**2)))))[5:-5, 5:-5]

    # Filters.
    y = np.pad(y, border, mode="symmetric")
    m = len(y)
    W = transform_matrix(m)
    f = frequencies(m)
    spectrum = W @ y @ W
    values = []
    for s in range(scales):
        for j in range(orientations):
            G = np.empty((m, m))
            for a in range(m):
                radius = np.hypot(f[a], f) / m / (0.3 / 1.85**s)
                angle = np.angle(np.exp(1j * (np.arctan2(f[a], f) + math.pi * j / orientations)))
                G[a] = np.exp(
                    -10 * 0.35 * (radius - 1) ** 2 - 2 * (16 * orientations**2 / 32**2) * math.pi * angle**2
                )
            answer = np.abs(W.conj() @ (spectrum * G) @ W.conj() / m**2)[border : border + n, border : border + n]
            side = n // cells
            values.append(answer.reshape(cells, side, cells, side).mean(axis=(1, 3)).ravel())
    return np.concatenate(values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_the_definition(dtype):
    image = (photographs.gray()[0][:128, :128] / 255).astype(dtype)
    found = GIST(size=128).describe(image)
    np.testing.assert_allclose(found, from_definition(image), rtol=2e-4, atol=2e-6)


def test_other_settings_equal_the_definition():
    image = photographs.gray()[1][:60, :60] / 255
    found = GIST(size=60, orientations=(6, 6), cells=3, border=10, fc=2.5).describe(image)
    np.testing.assert_allclose(found, from_definition(image, 2, 6, 3, 10, 2.5), rtol=2e-4, atol=2e-6)


def test_odd_sizes():
    assert GIST(size=101, border=7, cells=3).describe(photographs.color()[0]).shape == (32 * 9,)


def test_a_grating_answers_at_its_own_frequency_and_angle():
    """A grating of 0.3 cycles a pixel along x is the centre of scale 0, orientation 0; along y of orientation 4."""
    x = 0.5 + 0.4 * np.cos(2 * np.pi * 0.3 * np.arange(256))
    for image, orientation in ((np.tile(x, (256, 1)), 0), (np.tile(x[:, None], (1, 256)), 4)):
        mean = GIST().describe(image).reshape(4, 8, 16).mean(axis=2)
        assert np.unravel_index(mean.argmax(), mean.shape) == (0, orientation)


@pytest.mark.parametrize("shape", [(1, 1), (1, 10_000), (300, 2), (64, 64, 3)])
def test_flat_image_gives_zeros(shape):
    np.testing.assert_array_equal(GIST().describe(np.full(shape, 0.7)), np.zeros(512))


@settings(max_examples=10, deadline=None)
@given(st.floats(0.1, 1), st.floats(0, 1))
def test_light_and_contrast_do_not_matter(contrast, light):
    image = photographs.gray()[0] / 255
    descriptor = GIST(size=64, border=16)
    changed = image * contrast + light * (1 - contrast)
    np.testing.assert_allclose(descriptor.describe(changed), descriptor.describe(image), rtol=2e-3, atol=1e-4)


def test_whitened_image_has_no_mean_and_equal_contrast():
    bricks = photographs.gray()[2][:128, :128].astype(np.float32)
    bricks[:, :64] /= 4  # one half in the shade
    white = whiten(bricks, 4.0)
    assert abs(white.mean()) < 0.05
    before, after = (part[:, 8:56].std() / part[:, 72:120].std() for part in (bricks, white))
    assert before < 0.4
    assert 0.8 < after < 1.25


def test_mirrored_image_mirrors_cells_and_orientations():
    """Left to right, angle a becomes pi - a: orientation j of 8 becomes (8 - j) mod 8, and columns are reversed.

    Nearly so: the highest frequency of a transform of even length has one sign only.
    """
    image = photographs.gray()[0][:128, :128] / 255
    values, mirrored = (GIST(size=128).describe(part).reshape(4, 8, 4, 4) for part in (image, image[:, ::-1]))
    expected = values[:, -np.arange(8) % 8][..., ::-1]
    np.testing.assert_allclose(mirrored, expected, rtol=2e-2, atol=1e-3)


def test_filters_cover_half_of_the_plane():
    """One filter for a direction and none for its opposite, so that the answer is complex and its length smooth."""
    [filters] = gabor_filters(64, (8,))
    f = frequencies(64)
    opposite = filters[:, np.ix_(-f, -f)[0], np.ix_(-f, -f)[1]]
    assert (np.minimum(filters[:, 1:31, 1:31], opposite[:, 1:31, 1:31]) < 1e-3).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"size": 3}, "size=3"),
        ({"size": (256, 256)}, "size="),
        ({"orientations": 8}, "orientations=8"),
        ({"orientations": (8, 0)}, r"orientations\[1\]=0"),
        ({"cells": 0}, "cells=0"),
        ({"fc": 0}, "fc=0"),
        ({"border": 300}, "border=300"),
        ({"crop": None}, "crop=None"),
    ],
)
def test_settings_that_are_not_accepted(params, message):
    with pytest.raises(ValueError, match=message):
        GIST(**params).fit(None)
