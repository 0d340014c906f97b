"""Metrics of predicted classes against scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics

from cbid.evaluation import accuracy, confusion_matrix, mean_class_accuracy


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
    with pytest.raises(ValueError, match=f"truth of numbers and predicted of {kind} cannot be compared"):
        metric([1, 2], predicted)
    assert accuracy(np.array(["1", "2"], object), ["1", "3"]) == accuracy([1, 2], [1.0, 3.0]) == 0.5


@pytest.mark.parametrize("metric", [accuracy, mean_class_accuracy, confusion_matrix])
@pytest.mark.parametrize("wrong", [([0, 1], [0]), ([], []), ([[0]], [[0]])])
def test_bad_input_is_named(metric, wrong):
    with pytest.raises(ValueError, match=r"truth .* and predicted"):
        metric(*wrong)
