import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbid.detection.boxes import Annotation, Detections
from cbid.detection.evaluate import FALSE, HIT, IGNORED, REFERENCE_FPPI, evaluate, match
from tests.detection.brute import counts_at, random_boxes

NOTHING = Detections(np.empty((0, 4)), np.empty(0))


def detections(*rows):
    rows = np.array(rows, float).reshape(-1, 5)
    return Detections(rows[:, :4], rows[:, 4])


def objects(*rows, ignore=()):
    boxes = np.array(rows, float).reshape(-1, 4)
    return Annotation(boxes, np.isin(np.arange(len(boxes)), ignore))


def test_matching_by_hand():
    """One object (0, 0, 10, 10), one ignored region (50, 0, 100, 100).

    By falling score: (0, 0, 10, 9) overlaps the object by 0.9 and takes it; the object itself comes second and finds
    it taken; (60, 10, 70, 20) lies in the region, and so does (61, 10, 71, 20), which is ignored just as well;
    (95, 10, 115, 20) has a quarter of itself in there.
    """
    found = detections(
        (0, 0, 10, 10, 0.8), (0, 0, 10, 9, 0.9), (60, 10, 70, 20, 0.7), (61, 10, 71, 20, 0.6), (95, 10, 115, 20, 0.5)
    )
    truth = objects((0, 0, 10, 10), (50, 0, 100, 100), ignore=[1])
    assert match(found, truth).tolist() == [FALSE, HIT, IGNORED, IGNORED, FALSE]


def test_an_object_comes_before_an_ignored_region_around_it():
    found = detections((0, 0, 10, 10, 1.0))
    assert match(found, objects((-50, -50, 50, 50), (0, 0, 10, 10), ignore=[0])).tolist() == [HIT]


def test_each_takes_the_object_it_overlaps_most():
    """(2, 0, 12, 10) overlaps (0, 0, 10, 10) by 8 / 12 and (3, 0, 13, 10) by 9 / 11; the next gets the other."""
    found = detections((2, 0, 12, 10, 0.9), (1, 0, 11, 10, 0.8))
    assert match(found, objects((0, 0, 10, 10), (3, 0, 13, 10))).tolist() == [HIT, HIT]


def test_a_curve_by_hand():
    """Two photographs, two objects; hit at .9, false at .8, false at .7, hit at .6: 0, .5, 1, 1 per image."""
    found = [
        detections((0, 0, 10, 10, 0.9), (30, 30, 40, 40, 0.8)),
        detections((0, 0, 5, 5, 0.7), (20, 0, 30, 10, 0.6)),
    ]
    truth = [objects((0, 0, 10, 10)), objects((20, 0, 30, 10))]
    curve = evaluate(found, truth)
    np.testing.assert_allclose(curve.thresholds, [0.9, 0.8, 0.7, 0.6])
    np.testing.assert_allclose(curve.fppi, [0, 0.5, 1, 1])
    np.testing.assert_allclose(curve.detection_rate, [0.5, 0.5, 0.5, 1])
    # Of nine points from .01 to 1 only the last is where both are found.
    np.testing.assert_allclose(curve.rates_at(), [0.5] * 8 + [1.0])
    assert curve.log_average_detection_rate() == pytest.approx((8 * 0.5 + 1) / 9)
    assert curve.log_average_miss_rate() == pytest.approx(np.exp((8 * np.log(0.5) + np.log(1e-10)) / 9))
    assert [(f.image, f.score) for f in curve.false_positives] == [(0, 0.8), (1, 0.7)]


def test_the_nine_points():
    np.testing.assert_allclose(REFERENCE_FPPI, 10.0 ** np.arange(-2, 0.1, 0.25))


def test_detections_of_one_score_count_together():
    found = [detections((30, 30, 40, 40, 1.0), (0, 0, 10, 10, 1.0))]
    curve = evaluate(found, [objects((0, 0, 10, 10))])
    assert curve.thresholds.tolist() == [1.0]
    assert (curve.fppi[0], curve.detection_rate[0]) == (1, 1)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 0.5, 0.7]))
def test_each_point_equals_matching_at_its_threshold(seed, overlap):
    rng = np.random.default_rng(seed)
    found, truth = [], []
    for _ in range(rng.integers(1, 4)):
        boxes = random_boxes(rng, rng.integers(0, 5))
        truth.append(Annotation(boxes, rng.random(len(boxes)) < 0.3))
        near = np.vstack([boxes + rng.integers(-6, 7, boxes.shape) * [1, 1, 0, 0], random_boxes(rng, 4)])
        near = near[(near[:, 2:] > near[:, :2]).all(axis=1)]
        found.append(Detections(near, rng.integers(0, 6, len(near)).astype(float)))
    n_objects = sum(int(np.sum(~t.ignore)) for t in truth)
    if n_objects == 0:
        return
    curve = evaluate(found, truth, overlap=overlap)
    assert curve.thresholds.tolist() == sorted({s for d in found for s in d.scores}, reverse=True)
    for threshold, fppi, rate in zip(curve.thresholds, curve.fppi, curve.detection_rate):
        hits, false = counts_at(found, truth, threshold, overlap)
        assert fppi == pytest.approx(false / len(truth))
        assert rate == pytest.approx(hits / n_objects)
    for reference, rate in zip(REFERENCE_FPPI, curve.rates_at()):
        reached = [counts_at(found, truth, t, overlap) for t in curve.thresholds]
        assert rate == pytest.approx(
            max([h / n_objects for h, f in reached if f / len(truth) <= reference], default=0)
        )


def test_small_objects_are_ignored_and_smaller_detections_left_out():
    """At least 50 high: an object of 49 and its detection do not count; one of 39 < 40 is ignored."""
    truth = [objects((0, 0, 20, 49), (100, 0, 120, 60))]
    found = [detections((0, 0, 20, 49, 0.9), (200, 0, 220, 39, 0.8), (200, 0, 220, 41, 0.7), (100, 0, 120, 60, 0.6))]
    curve = evaluate(found, truth, min_height=50)
    assert curve.n_objects == 1
    assert [f.score for f in curve.false_positives] == [0.7]
    assert curve.detection_rate[-1] == 1


def test_boxes_of_another_width_are_found_with_the_aspect_of_pedestrians():
    truth, found = [objects((20, 0, 80, 100))], [detections((40, 0, 60, 100, 1.0))]
    assert evaluate(found, truth).detection_rate[-1] == 0
    assert evaluate(found, truth, aspect=0.41).detection_rate[-1] == 1


def test_an_ignored_region_keeps_its_width():
    """Who finds people in a crowd is not blamed, with the aspect or without."""
    truth = [objects((0, 0, 400, 100), (500, 0, 541, 100), ignore=[0])]
    found = [detections((20, 0, 61, 100, 2.0), (300, 0, 341, 100, 1.0))]
    for aspect in (None, 0.41):
        assert evaluate(found, truth, aspect=aspect).false_positives == []


def test_an_object_ignored_for_its_height_has_the_aspect_of_the_others():
    """60 x 48 becomes 20 wide: a detection at its edge is not in it any more."""
    truth = [objects((0, 0, 60, 48), (100, 0, 120, 60))]
    found = [detections((0, 0, 18, 48, 1.0))]
    assert len(evaluate(found, truth, min_height=50).false_positives) == 0
    assert len(evaluate(found, truth, min_height=50, aspect=0.41).false_positives) == 1


def test_nothing_found():
    curve = evaluate([NOTHING], [objects((0, 0, 1, 1))])
    assert (curve.log_average_detection_rate(), curve.log_average_miss_rate()) == (0, 1)


@pytest.mark.parametrize(
    ("found", "truth", "message"),
    [
        ([], [], "found and truth are empty"),
        ([NOTHING], [], "found has 1 photographs"),
        ([NOTHING], [objects()], "no photograph has an object"),
        ([detections((0, 0, 1, 1, np.nan))], [objects((0, 0, 1, 1))], "photograph 0"),
    ],
)
def test_what_cannot_be_evaluated(found, truth, message):
    with pytest.raises(ValueError, match=message):
        evaluate(found, truth)
