import numpy as np
import pytest

from cbid.detection.boxes import Annotation, areas, check_boxes, intersections, overlaps, with_aspect
from tests.detection.brute import inside, iou, random_boxes


def test_overlaps_by_hand():
    """Two squares of side 2 that share a unit square: 1 / (4 + 4 - 1); apart: 0; the same: 1."""
    a = np.array([[0, 0, 2, 2.0]])
    b = np.array([[1, 1, 3, 3.0], [2, 0, 4, 2], [0, 0, 2, 2]])
    np.testing.assert_allclose(overlaps(a, b), [[1 / 7, 0, 1]])
    np.testing.assert_allclose(intersections(a, b), [[1, 0, 4]])


def test_overlaps_are_those_of_plain_arithmetic():
    rng = np.random.default_rng(0)
    a, b = random_boxes(rng, 30), random_boxes(rng, 20)
    np.testing.assert_allclose(overlaps(a, b), [[iou(x, y) for y in b] for x in a])
    np.testing.assert_allclose(intersections(a, b) / areas(a)[:, None], [[inside(x, y) for y in b] for x in a])


def test_aspect_keeps_centre_and_height():
    boxes = np.array([[10, 20, 40, 120.0]])
    np.testing.assert_allclose(with_aspect(boxes, 0.41), [[25 - 20.5, 20, 25 + 20.5, 120]])
    assert with_aspect(boxes, None) is boxes
    with pytest.raises(ValueError, match="aspect=0 is not accepted"):
        with_aspect(boxes, 0)


@pytest.mark.parametrize(
    ("boxes", "told"),
    [
        ([[0, 0, 1]], r"shape \(1, 3\); \(n, 4\) is needed"),
        ([[0, 0, np.nan, 1]], "not finite"),
        ([[5, 5, 5, 9]], r"\[5.0, 5.0, 5.0, 9.0\] has no area"),
        ([[1, 1, 2, 2], [30, 1, 35, 4]], r"\[30.0, 1.0, 35.0, 4.0\] is outside the image of 20 x 10 pixels"),
        ([[1, 10, 2, 12]], "is outside the image"),
        ([[-5, 1, 0, 3]], "is outside the image"),
    ],
)
def test_wrong_boxes(boxes, told):
    with pytest.raises(ValueError, match=told):
        check_boxes(boxes, (10, 20))


def test_boxes_that_reach_out_of_the_image_and_none_at_all():
    assert check_boxes([[-5, -5, 3, 3]], (10, 20)).shape == (1, 4)
    assert check_boxes([]).shape == (0, 4)


def test_an_annotation_needs_one_mark_for_each_box():
    assert Annotation(np.array([[0, 0, 1, 1.0]])).ignore.tolist() == [False]
    with pytest.raises(ValueError, match=r"ignore has shape \(2,\)"):
        Annotation(np.array([[0, 0, 1, 1.0]]), np.array([True, False]))
