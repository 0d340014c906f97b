import numpy as np
import pytest

from cbid.data import read_image
from cbid.detection import Annotation, Detections, evaluate
from cbid.detection.drawing import (
    FALSE_COLOR,
    HIT_COLOR,
    IGNORED_COLOR,
    MISSED_COLOR,
    crop,
    draw_boxes,
    draw_curves,
    draw_detections,
    false_positive_sheet,
    write_picture,
)
from cbid.detection.evaluate import FalsePositive

BLACK = np.zeros((60, 80), np.uint8)


def test_a_box_is_drawn_along_its_edge():
    drawn = draw_boxes(BLACK, np.array([[10, 20, 30, 50.0]]), (1, 2, 3), thickness=1)
    assert drawn.shape == (60, 80, 3)
    inked = np.argwhere(drawn[:, :, 0] == 1)
    assert (inked.min(axis=0).tolist(), inked.max(axis=0).tolist()) == ([20, 10], [49, 29])
    assert len(inked) == 2 * 20 + 2 * 30 - 4
    assert not BLACK.any()


def test_what_was_found_missed_and_wrong_by_colour():
    truth = Annotation(np.array([[5, 5, 15, 15], [60, 5, 75, 15], [5, 40, 75, 58.0]]), np.array([0, 0, 1], bool))
    found = Detections(np.array([[5, 5, 15, 15], [30, 5, 40, 15], [20, 45, 25, 50.0]]), np.array([3, 2, 1.0]))
    drawn = draw_detections(BLACK, found, truth)
    assert tuple(drawn[5, 10]) == HIT_COLOR
    assert tuple(drawn[5, 35]) == FALSE_COLOR
    assert tuple(drawn[5, 65]) == MISSED_COLOR
    assert tuple(drawn[40, 40]) == tuple(drawn[45, 22]) == IGNORED_COLOR
    assert tuple(draw_detections(BLACK, found)[5, 35]) == HIT_COLOR


def test_the_worst_false_positives_side_by_side():
    image = np.zeros((20, 20, 3), np.uint8)
    image[:10, :10] = 200
    worst = [
        FalsePositive(0, np.array(box, float), 1.0) for box in ([0, 0, 10, 10], [10, 10, 20, 20], [-9, -9, 1, 1])
    ]
    sheet = false_positive_sheet([image], worst, columns=2, size=(8, 4))
    assert sheet.shape == (16, 8, 3)
    assert (sheet[:8, :4] == 200).all()
    assert (sheet[:8, 4:] == 0).all()
    assert (sheet[8:, :4] == 200).all()  # outside the image its last pixels repeat
    assert (sheet[8:, 4:] == 255).all()
    with pytest.raises(ValueError, match="worst is empty"):
        false_positive_sheet([image], [])


def test_a_crop_inside_is_the_part():
    image = np.arange(12, dtype=np.uint8).reshape(3, 4)
    np.testing.assert_array_equal(crop(image, np.array([1, 0, 3, 2]))[:, :, 0], image[:2, 1:3])


def test_curves_and_pictures_are_files(tmp_path):
    found = [Detections(np.array([[0, 0, 2, 2], [5, 5, 7, 7.0]]), np.array([2, 1.0]))]
    curve = evaluate(found, [Annotation(np.array([[0, 0, 2, 2.0]]))])
    draw_curves({"ours": curve, r"$\foo$": curve}, tmp_path / "curve.png")  # which is no formula of matplotlib
    assert read_image(tmp_path / "curve.png").std() > 0
    write_picture(tmp_path / "black.png", draw_boxes(BLACK, np.empty((0, 4))))
    assert read_image(tmp_path / "black.png").shape[:2] == (60, 80)
