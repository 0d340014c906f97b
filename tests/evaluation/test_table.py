"""The table of metrics: every one of them computes from the fields it names."""

import numpy as np
import pytest

from cbid.evaluation import METRICS, average_precision, measure

RESULT = {
    "truth": [0, 1, 1],
    "predicted": [0, 1, 0],
    "distances": np.tile([0, 1, 1, *range(2, 10)], (2, 1)),
    "relevant": np.array([[1, 1, 0, 1, *[0] * 7], [0] * 11], dtype=bool),
    "false_positives": [0.01],
    "detection_rates": [0.5],
}


@pytest.mark.parametrize("name", METRICS)
def test_each_is_computed_from_its_fields(name):
    metric = METRICS[name]
    found = measure(name, {field: RESULT[field] for field in metric.needs})
    if metric.share:
        assert 0 < found <= 1
    with pytest.raises(ValueError, match=f"lacks {metric.needs[0]}"):
        measure(name, {field: RESULT[field] for field in metric.needs[1:]})


def test_the_expectation_lies_between_its_bounds():
    """One relevant item ties with one that is not: places 2 or 3, so (1 + 1 + 3/4) / 3 or (1 + 2/3 + 3/4) / 3."""
    low, mean, high = (measure(name, RESULT) for name in ("map_low", "map", "map_high"))
    assert (low, high) == pytest.approx(((1 + 2 / 3 + 3 / 4) / 3, (1 + 1 + 3 / 4) / 3))
    assert low < mean < high
    assert mean == pytest.approx(average_precision(RESULT["distances"], RESULT["relevant"])[0])


def test_what_is_stored_under_its_name_is_taken():
    assert measure("map", {"map": 0.25}) == 0.25


def test_a_metric_that_is_not_known():
    with pytest.raises(ValueError, match="name='f1'"):
        measure("f1", RESULT)
