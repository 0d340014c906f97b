"""Metrics of classes against scikit-learn, of detectors on known curves, and the table of metrics."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn import metrics

from cbid.evaluation import (
    METRICS,
    accuracy,
    average_precision,
    confusion_matrix,
    log_average_detection_rate,
    macro_f1,
    mean_class_accuracy,
    measure,
    micro_f1,
    shared_labels,
    tree_similarity,
)

RESULT = {
    "truth": [0, 1, 1],
    "predicted": [0, 1, 0],
    "distances": np.tile([0, 1, 1, *range(2, 10)], (2, 1)),
    "relevant": np.array([[1, 1, 0, 1, *[0] * 7], [0] * 11], dtype=bool),
    "gains": np.tile([0, 2, 1, 0, 3, *[0] * 6], (2, 1)),
    "similarity": np.tile(np.linspace(0, 1, 11), (2, 1)),
    "original": np.tile(np.linspace(0, 1, 11), (2, 1)),
    "false_positives": [0.01],
    "detection_rates": [0.5],
}


@pytest.mark.parametrize("names", [np.arange(4), np.array(["a", "b", "c", "d"])])
def test_they_are_scikit_learns(names):
    rng = np.random.default_rng(0)
    truth, predicted = names[rng.integers(0, 3, 50)], names[rng.integers(0, 4, 50)]  # one class is never right
    assert accuracy(truth, predicted) == pytest.approx(metrics.accuracy_score(truth, predicted))
    np.testing.assert_array_equal(confusion_matrix(truth, predicted), metrics.confusion_matrix(truth, predicted))
    assert mean_class_accuracy(truth, predicted) == pytest.approx(
        metrics.recall_score(truth, predicted, average=None, labels=names[:3]).mean()
    )


def test_a_small_class_counts_as_much_as_a_large_one():
    """Nine of the large class right, one of the small class wrong: 90 % of all, (1 + 0) / 2 of the classes."""
    assert accuracy([0] * 9 + [1], [0] * 10) == 0.9
    assert mean_class_accuracy([0] * 9 + [1], [0] * 10) == 0.5


@pytest.mark.parametrize("metric", [accuracy, mean_class_accuracy, confusion_matrix])
@pytest.mark.parametrize(
    ("predicted", "kind"),
    [(["1", "3"], "text"), ([b"1", b"3"], "bytes"), (np.array([1, "3"], object), "numbers, text")],
)
def test_a_number_is_not_the_text_of_it(metric, predicted, kind):
    with pytest.raises(ValueError, match=f"truth of numbers and predicted of {kind}"):
        metric([1, 2], predicted)
    assert accuracy(np.array(["1", "2"], object), ["1", "3"]) == accuracy([1, 2], [1.0, 3.0]) == 0.5


@pytest.mark.parametrize("metric", [accuracy, mean_class_accuracy, confusion_matrix])
@pytest.mark.parametrize("wrong", [([0, 1], [0]), ([], []), ([[0]], [[0]])])
def test_bad_input_is_named(metric, wrong):
    with pytest.raises(ValueError, match=r"truth .* predicted"):
        metric(*wrong)


def test_f1_is_scikit_learns_as_matrix_sparse_and_sets():
    rng = np.random.default_rng(0)
    truth, predicted = rng.random((60, 5)) < 0.3, rng.random((60, 5)) < 0.4
    predicted[:, 4] = False  # a label that is never predicted counts as 0
    names = np.array(list("abcde"))
    forms = [
        (truth, predicted),
        (csr_array(truth.astype(float)), csr_array(predicted.astype(int))),
        ([set(names[row]) for row in truth], [names[row].tolist() for row in predicted]),
    ]
    for form in forms:
        assert micro_f1(*form) == pytest.approx(metrics.f1_score(truth, predicted, average="micro"))
        assert macro_f1(*form) == pytest.approx(metrics.f1_score(truth, predicted, average="macro"))


def test_f1_of_single_labels_is_the_accuracy_and_unused_labels_do_not_count():
    truth, predicted = ["a", "b", "b", "c"], ["a", "b", "c", "c"]
    assert micro_f1(truth, predicted) == accuracy(truth, predicted) == 0.75
    assert macro_f1([[1, 0, 0]] * 2 @ np.eye(3), [[1, 0, 0], [0, 1, 0]] @ np.eye(3)) == pytest.approx((2 / 3 + 0) / 2)
    assert np.isnan([micro_f1([[], []], [[], []]), macro_f1([[], []], [[], []])]).all()


def test_shared_labels_are_counted_over_both_lists():
    queries, items = [{"a", "b"}, {"z"}, []], [["b", "a", "a"], ["b"], ["z"], [("a", "b")]]
    assert shared_labels(queries, items).tolist() == [[2, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    assert shared_labels(["a", "z"], items).tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]
    matrix = np.array([[1, 1, 0], [0, 1, 1]])
    np.testing.assert_array_equal(shared_labels(matrix, csr_array(matrix)), matrix @ matrix.T)


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (np.eye(2), [["a"]], "truth and predicted"),
        (np.eye(2), np.eye(3), r"truth \(2, 2\), predicted \(3, 3\)"),
        (np.eye(2), 2 * np.eye(2), r"predicted\[0, 0\]=2\.0: expected 0 or 1"),
        (np.eye(2) * np.nan, np.eye(2), r"truth\[0, 0\]=nan"),
        ([["a"], ["b"]], [["a"]], "truth has 2 samples, predicted 1"),
        ([], [], "truth has 0 samples"),
        ([[{}]], [["a"]], r"truth\[0\] holds {}"),
    ],
)
def test_bad_label_sets_are_named(left, right, message):
    with pytest.raises(ValueError, match=message):
        micro_f1(left, right)


def test_similarity_in_a_tree_is_the_height_of_the_common_ancestor():
    """Three levels: equal labels share all of them, siblings two, others of one kingdom one."""
    names = ["a/x/1", "a/x/2", "a/y/1", "b/z/1"]
    expected = np.array([[3, 2, 1, 0], [2, 3, 1, 0], [1, 1, 3, 0], [0, 0, 0, 3]]) / 3
    np.testing.assert_allclose(tree_similarity(names, names, "/"), expected)
    np.testing.assert_allclose(tree_similarity(names[1:2], names[::-1], "/"), expected[1:2, ::-1])
    assert tree_similarity([], names, "/").shape == (0, 4)
    with pytest.raises(ValueError, match="queries has several labels"):
        tree_similarity([names], names, "/")
    with pytest.raises(ValueError, match="tree lacks 1 of 2 labels"):
        tree_similarity(["dog"], ["cat"], {"dog": "animal"})


def test_a_flat_curve_has_its_own_height():
    assert log_average_detection_rate([0.001, 1.0], [0.7, 0.7]) == pytest.approx(0.7)


def test_a_step_counts_the_reference_rates_behind_it():
    """References are 10^(-2 + i/4): five of nine are at least 0.1, where the rate rises from 0.2 to 0.8."""
    assert log_average_detection_rate([0.01, 0.1], [0.2, 0.8]) == pytest.approx((4 * 0.2 + 5 * 0.8) / 9)


def test_no_point_in_reach_counts_as_nothing():
    """The only point lies at 0.5 false positives an image, within reach of the last two references (0.56 and 1)."""
    assert log_average_detection_rate([0.5], [0.9]) == pytest.approx(2 * 0.9 / 9)
    assert log_average_detection_rate([], []) == 0


def test_a_better_curve_is_never_worse():
    rng = np.random.default_rng(0)
    x, y = np.sort(rng.random(30)), np.sort(rng.random(30))
    assert log_average_detection_rate(x, y + 0.1) >= log_average_detection_rate(x, y)


def test_bad_curves_are_named():
    with pytest.raises(ValueError, match=r"false_positives \(2,\)"):
        log_average_detection_rate([0.1, 0.2], [0.5])


@pytest.mark.parametrize("name", METRICS)
def test_each_is_computed_from_its_fields(name):
    metric = METRICS[name]
    found = measure(name, {field: RESULT[field] for field in metric.needs})
    if metric.share:
        assert 0 < found <= 1
    with pytest.raises(ValueError, match=f"no {metric.needs[0]}"):
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
