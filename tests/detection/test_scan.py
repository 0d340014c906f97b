"""The dense scan gives each window the vector and the score of the window described alone."""

import math

import numpy as np
import pytest

from cbid.detection.layout import WindowLayout
from cbid.detection.scan import Scanner
from tests.descriptors.photographs import color, gray

LAYOUTS = {
    "pedestrians": WindowLayout(),
    "hard votes": WindowLayout((64, 32), voting="hard", norm="l2", sqrt=True),
    "other cells": WindowLayout((60, 48), cell=6, block=3, orientations=8, signed=True),
}


def one_by_one(scanner, image):
    """Boxes and vectors of all windows, each cut out of the scaled photograph and described alone."""
    layout, margin = scanner.layout, scanner.layout.margin
    height, width = layout.window
    boxes, values = [], []
    for size in scanner.shapes(image.shape):
        scaled = scanner.scaled(image, size)
        for y in range(0, size[0] + 2 * scanner.border - height + 1, scanner.step):
            for x in range(0, size[1] + 2 * scanner.border - width + 1, scanner.step):
                cut = scaled[y : y + height + 2 * margin, x : x + width + 2 * margin]
                values.append(layout.descriptor().describe(cut))
                corner = np.array([x, y, x + width, y + height]) - scanner.border
                boxes.append(corner * np.tile([image.shape[1] / size[1], image.shape[0] / size[0]], 2))
    return np.array(boxes), np.array(values)


@pytest.mark.parametrize("step", [4, 12, 5])
@pytest.mark.parametrize("name", LAYOUTS)
def test_all_windows_equal_windows_described_alone(name, step):
    height, width = LAYOUTS[name].window
    image = (color() + gray())[step % 4][: height + 12, : width + 46]
    scanner = Scanner(LAYOUTS[name], step=step, scales_per_octave=3, border=7)
    boxes, values = one_by_one(scanner, image)
    weights = np.random.default_rng(0).standard_normal(values.shape[1]) / 10
    found = scanner.scan(image, weights, 0.5, -np.inf)
    assert len(found) == len(values) == scanner.n_windows(image.shape)
    # Sorted by position, which is unique.
    ours, theirs = (np.lexsort(np.round(b, 6).T) for b in (found.boxes, boxes))
    np.testing.assert_allclose(found.boxes[ours], boxes[theirs], atol=1e-9)
    np.testing.assert_allclose(found.features[ours], values[theirs], atol=1e-5)
    np.testing.assert_allclose(found.scores[ours], values[theirs] @ weights + 0.5, atol=1e-4)
    assert np.all(np.diff(found.scores) <= 0)


def test_the_best_windows_alone():
    image = color()[0]
    scanner = Scanner(LAYOUTS["hard votes"], scales_per_octave=4)
    weights = np.random.default_rng(1).standard_normal(scanner.layout.n_features)
    everything = scanner.scan(image, weights, 0.0, -np.inf)
    best = scanner.scan(image, weights, 0.0, -np.inf, 25)
    np.testing.assert_array_equal(best.scores, everything.scores[:25])
    threshold = float(everything.scores[10])
    assert len(scanner.scan(image, weights, 0.0, threshold)) == 11


def test_sizes_are_equal_ratios_apart():
    scanner = Scanner(WindowLayout(), scales_per_octave=10, upsample=2.0, border=0)
    sizes = scanner.shapes((480, 640))
    assert (sizes[0], sizes[10], sizes[20]) == ((960, 1280), (480, 640), (240, 320))
    assert len(sizes) == 1 + math.floor(10 * math.log2(960 / 128))
    assert sizes[-1][0] >= 128


def test_a_photograph_smaller_than_the_window():
    scanner = Scanner(WindowLayout(), border=16)
    with pytest.raises(ValueError, match=r"95 x 200 pixels.*96 x 32"):
        scanner.scan(np.zeros((95, 200), np.uint8), np.zeros(3780), 0.0, 0.0)
    assert scanner.n_windows((96, 32)) == 1
    assert Scanner(WindowLayout(), border=16, upsample=2.0).n_windows((48, 16)) == 1
