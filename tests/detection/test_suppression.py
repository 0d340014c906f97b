import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbid.detection.suppression import MEASURES, suppress
from tests.detection.brute import random_boxes, suppressed


@given(
    st.integers(0, 2**32 - 1), st.integers(0, 40), st.sampled_from(MEASURES), st.sampled_from([0.0, 0.3, 0.5, 0.65])
)
def test_what_stays_is_what_the_slow_way_keeps(seed, n, measure, overlap):
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
    ("options", "told"),
    [({"overlap": -0.1}, "overlap=-0.1"), ({"measure": "sum"}, "measure='sum' is not accepted; choose one of 'iou'")],
)
def test_wrong_settings(options, told):
    with pytest.raises(ValueError, match=told):
        suppress([[0, 0, 1, 1]], [1.0], **options)


def test_as_many_scores_as_boxes():
    with pytest.raises(ValueError, match=r"scores have shape \(2,\); one for each of 1 boxes"):
        suppress([[0, 0, 1, 1]], [1.0, 2.0])
