"""Boxes: overlaps, checks, suppression."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbid.detection.boxes import (
    MEASURES,
    Annotation,
    areas,
    check_boxes,
    intersections,
    overlaps,
    suppress,
    with_aspect,
)
from tests.detection.brute import inside, iou, random_boxes, suppressed


def test_overlaps_by_hand():
    """Two squares of side 2 that share a unit square: 1 / (4 + 4 - 1); apart: 0; the same: 1."""
    a = np.array([[0, 0, 2, 2.0]])
    b = np.array([[1, 1, 3, 3.0], [2, 0, 4, 2], [0, 0, 2, 2]])
    np.testing.assert_allclose(overlaps(a, b), [[1 / 7, 0, 1]])
    np.testing.assert_allclose(intersections(a, b), [[1, 0, 4]])


def test_overlaps_equal_plain_arithmetic():
    rng = np.random.default_rng(0)
    a, b = random_boxes(rng, 30), random_boxes(rng, 20)
    np.testing.assert_allclose(overlaps(a, b), [[iou(x, y) for y in b] for x in a])
    np.testing.assert_allclose(intersections(a, b) / areas(a)[:, None], [[inside(x, y) for y in b] for x in a])


def test_aspect_keeps_centre_and_height():
    boxes = np.array([[10, 20, 40, 120.0]])
    np.testing.assert_allclose(with_aspect(boxes, 0.41), [[25 - 20.5, 20, 25 + 20.5, 120]])
    assert with_aspect(boxes, None) is boxes
    with pytest.raises(ValueError, match="aspect=0"):
        with_aspect(boxes, 0)


@pytest.mark.parametrize(
    ("boxes", "message"),
    [
        ([[0, 0, 1]], r"shape \(1, 3\)"),
        ([[0, 0, np.nan, 1]], "NaN"),
        ([[5, 5, 5, 9]], r"\[5.0, 5.0, 5.0, 9.0\] has no area"),
        ([[1, 1, 2, 2], [30, 1, 35, 4]], r"\[30.0, 1.0, 35.0, 4.0\] is outside the image of 20 x 10 pixels"),
        ([[1, 10, 2, 12]], "is outside the image"),
        ([[-5, 1, 0, 3]], "is outside the image"),
    ],
)
def test_wrong_boxes(boxes, message):
    with pytest.raises(ValueError, match=message):
        check_boxes(boxes, (10, 20))


def test_boxes_partly_outside_the_image_and_no_boxes():
    assert check_boxes([[-5, -5, 3, 3]], (10, 20)).shape == (1, 4)
    assert check_boxes([]).shape == (0, 4)


def test_an_annotation_needs_one_flag_for_each_box():
    assert Annotation(np.array([[0, 0, 1, 1.0]])).ignore.tolist() == [False]
    with pytest.raises(ValueError, match=r"ignore has shape \(2,\)"):
        Annotation(np.array([[0, 0, 1, 1.0]]), np.array([True, False]))


@given(
    st.integers(0, 2**32 - 1), st.integers(0, 40), st.sampled_from(MEASURES), st.sampled_from([0.0, 0.3, 0.5, 0.65])
)
def test_suppression_equals_the_slow_implementation(seed, n, measure, overlap):
    rng = np.random.default_rng(seed)
    boxes, scores = random_boxes(rng, n), rng.integers(0, 10, n).astype(float)  # with ties
    assert suppress(boxes, scores, overlap=overlap, measure=measure).tolist() == suppressed(
        boxes, scores, overlap, measure
    )


def test_a_part_inside_the_whole_by_both_measures():
    """The inner box is a quarter of the outer one: 0.25 of the union, all of the smaller."""
    boxes, scores = [[0, 0, 10, 10], [0, 0, 5, 5]], [1.0, 2.0]
    assert suppress(boxes, scores, overlap=0.5, measure="iou").tolist() == [1, 0]
    assert suppress(boxes, scores, overlap=0.5, measure="smaller").tolist() == [1]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"overlap": -0.1}, "overlap=-0.1"), ({"measure": "sum"}, "measure='sum'")],
)
def test_wrong_settings_of_suppression(options, message):
    with pytest.raises(ValueError, match=message):
        suppress([[0, 0, 1, 1]], [1.0], **options)


def test_as_many_scores_as_boxes():
    with pytest.raises(ValueError, match=r"scores has shape \(2,\)"):
        suppress([[0, 0, 1, 1]], [1.0, 2.0])
