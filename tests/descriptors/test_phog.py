import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.data import ImageError
from cbid.descriptors import PyramidHOG
from tests.descriptors import photographs


def from_definition(image, grids, orientations):
    """Hard votes over grids, by numpy's own histogram in (row, column, angle); L1 norm of the whole."""
    rows, columns = np.gradient(image)[0] * 2, np.gradient(image)[1] * 2
    rows[[0, -1]] = columns[:, [0, -1]] = 0
    height, width = image.shape
    y, x = np.indices(image.shape) + 0.5
    angle = np.arctan2(rows, columns) % np.pi
    sample = np.stack([y.ravel() / height, x.ravel() / width, angle.ravel() / np.pi], axis=1)
    levels = [
        np.histogramdd(sample, [a, b, orientations], [(0, 1)] * 3, weights=np.hypot(rows, columns).ravel())[0].ravel()
        for a, b in grids
    ]
    values = np.concatenate(levels)
    return values / values.sum()


@pytest.mark.parametrize(
    ("params", "grids"),
    [
        ({"levels": 3}, [(1, 1), (2, 2), (4, 4), (8, 8)]),
        ({"levels": 0}, [(1, 1)]),
        ({"cells": (60, 20)}, [(1, 1), (4, 4)]),
    ],
)
def test_hard_votes_equal_numpy(params, grids):
    image = np.random.default_rng(0).random((80, 96))
    descriptor = PyramidHOG(orientations=9, voting="hard", sqrt=False, norm="l1", **params)
    np.testing.assert_allclose(descriptor.describe(image), from_definition(image, grids, 9), atol=1e-7)


def test_sizes():
    """85 regions of 20 orientations; 2 + 8 + 72 cells of 8 for a pedestrian of 36 x 18."""
    assert PyramidHOG().describe(photographs.color()[0]).shape == (85 * 20,)
    assert PyramidHOG(cells=(18, 9, 3), orientations=8).describe(np.zeros((36, 18))).shape == (82 * 8,)


@pytest.mark.parametrize("edges", [False, True])
def test_norms(edges):
    for image in (photographs.gray()[0], photographs.color()[0]):
        plain = PyramidHOG(norm="l1", edges=edges).describe(image)
        assert plain.sum() == pytest.approx(1, abs=1e-5)
        # Each level holds a quarter of all.
        np.testing.assert_allclose([plain[a:b].sum() for a, b in ((0, 20), (20, 100), (100, 420))], 0.25, rtol=1e-4)
        np.testing.assert_allclose(PyramidHOG(edges=edges).describe(image), np.sqrt(plain), atol=1e-6)
        length = np.linalg.norm(plain)
        np.testing.assert_allclose(PyramidHOG(norm="l2", edges=edges).describe(image), plain / length, atol=1e-6)


def test_edges_only():
    """Beside a sharp edge there are ramps; with ``edges`` they do not vote. The edge runs along y: angle 0."""
    image = np.tile(np.linspace(0, 0.3, 64)[:, None], (1, 64))  # a ramp along y, angle 90
    image[:, 32:] += 0.6
    params = {"levels": 0, "orientations": 4, "voting": "hard", "norm": "l1", "sqrt": False}
    across = PyramidHOG(**params).describe(image)
    edges = PyramidHOG(edges=True, **params).describe(image)
    assert edges[0] > across[0] > 0.5
    assert edges[2] < across[2]


@settings(max_examples=20, deadline=None)
@given(st.floats(0.01, 1), st.sampled_from(["l1", "l1-sqrt", "l2"]), st.booleans())
def test_contrast_does_not_matter(contrast, norm, sqrt):
    image = photographs.gray()[1] / 255
    descriptor = PyramidHOG(norm=norm, sqrt=sqrt)
    np.testing.assert_allclose(descriptor.describe(image * contrast), descriptor.describe(image), atol=1e-5)


def test_mirrored_image_mirrors_grid_and_angles():
    image = np.random.default_rng(0).random((40, 48))
    values, mirrored = (
        PyramidHOG(levels=2, orientations=6).describe(part)[5 * 6 :].reshape(4, 4, 6)
        for part in (image, image[:, ::-1])
    )
    np.testing.assert_allclose(mirrored, values[:, ::-1, ::-1], atol=1e-6)


def test_flat_image_gives_zeros():
    for edges in (False, True):
        assert not PyramidHOG(edges=edges).describe(np.full((30, 30), 0.5)).any()


def test_too_small():
    with pytest.raises(ImageError, match="at least 8 x 8"):
        PyramidHOG().transform([np.zeros((1, 10_000))])
    with pytest.raises(ImageError, match="at least 18 x 18"):
        PyramidHOG(cells=(18, 9)).transform([np.zeros((17, 40))])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"levels": 9}, "levels=9"),
        ({"cells": ()}, r"cells=\(\)"),
        ({"cells": 3}, "cells=3"),
        ({"cells": (9, 0)}, r"cells\[1\]=0"),
        ({"norm": "l2-hys"}, "norm='l2-hys'"),
        ({"voting": None}, "voting=None"),
        ({"edges": 2}, "edges=2"),
        ({"sqrt": "no"}, "sqrt='no'"),
        ({"size": (4, 40)}, r"size\[0\]=4"),
    ],
)
def test_settings_that_are_not_accepted(params, message):
    with pytest.raises(ValueError, match=message):
        PyramidHOG(**params).fit(None)
