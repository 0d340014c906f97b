"""How raw results are read."""

from dataclasses import replace

import numpy as np

from cbid.paper import Results, Row
from tests.paper.toy import EXPERIMENT


def row(result, **settings):
    return Row(settings, result, 0.0)


RESULTS = Results(
    [
        row({"accuracy": 0.7}, method="a", repeat=1),
        row({"truth": [0, 1], "predicted": [0, 0]}, method="a", repeat=0),
        row({"absent": "no such length"}, method="a", repeat=2),
        row({"accuracy": 0.1}, method="b", repeat=0),
    ]
)


def test_metrics_are_of_the_requested_rows_in_the_order_of_repeats():
    """The first repeat is computed from predictions, the second was stored, the third has no result."""
    np.testing.assert_allclose(RESULTS.measured("accuracy", method="a"), [0.5, 0.7])
    assert len(RESULTS.measured("accuracy", method="c")) == 0


def test_distinct_values_and_parts():
    assert RESULTS.distinct("method") == ["a", "b"]
    assert [r["repeat"] for r in RESULTS.where(method="a")] == [1, 0, 2]


def test_cells_that_belong_together_are_one_task():
    tasks = EXPERIMENT.tasks(EXPERIMENT.cells([], True))
    assert [[c["method"] for c in task] for task in tasks] == [["fair", "fair"], ["loaded", "loaded"]]


def test_methods_that_take_long_are_a_task_of_their_own():
    cells = [{"draw": draw, "method": m} for draw in range(2) for m in ("quick", "long", "longer")]
    tasks = replace(EXPERIMENT, apart=("long", "longer"), together=("draw",)).tasks(cells)
    assert [[c["method"] for c in task] for task in tasks] == 2 * [["quick"], ["long", "longer"]]
    assert [task[0]["draw"] for task in tasks] == [0, 0, 1, 1]
