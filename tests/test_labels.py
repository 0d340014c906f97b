"""Labels as class numbers."""

import numpy as np
import pytest

from cbid.labels import check_labels, encode_labels, image_labels, is_list_of_objects


@pytest.mark.parametrize(
    ("given", "classes", "numbers"),
    [
        (["dog", "cat", "dog"], ["cat", "dog"], [1, 0, 1]),
        (np.array([3, -1, 3], dtype=object), [-1, 3], [1, 0, 1]),
        ([("b", 1), ("a", 2), ("b", 1)], [("a", 2), ("b", 1)], [1, 0, 1]),
        (["x", 1, "x"], ["x", 1], [0, 1, 0]),  # no order: as they appear
        ([True, False], [False, True], [1, 0]),
    ],
)
def test_labels_of_any_kind(given, classes, numbers):
    found, coded = encode_labels(given)
    assert (found.tolist(), coded.tolist()) == (classes, numbers)
    assert coded.dtype == np.int64


def test_labels_that_are_not_hashable_are_rejected():
    with pytest.raises(ValueError, match=r"y holds \{1\}"):
        encode_labels(np.array([{1}, {2}], dtype=object))


@pytest.mark.parametrize("given", [[2, None, 1, 2], np.array([2.0, np.nan, 1.0, 2.0]), [2.0, float("nan"), 1.0, 2.0]])
def test_missing_labels_have_number_minus_one(given):
    for form in (given, np.array(given, dtype=object)):
        classes, numbers = encode_labels(form, missing=True)
        assert numbers.tolist() == [1, -1, 0, 1]
        assert classes.tolist() == [1, 2]
        assert classes.dtype != object


@pytest.mark.parametrize("given", [[], [None, None], np.array([np.nan])])
def test_all_labels_missing(given):
    classes, numbers = encode_labels(given, missing=True)
    assert len(classes) == 0
    assert numbers.tolist() == [-1] * len(given)


@pytest.mark.parametrize("given", [[1, "a"], np.array(["a", None, 1], dtype=object)])
def test_text_and_numbers_are_not_mixed_if_some_may_be_missing(given):
    with pytest.raises(ValueError, match="'a' and 1"):
        encode_labels(given, missing=True)


def test_lists_that_numpy_would_misread():
    assert is_list_of_objects([("a", 1), ("b", 2)])
    assert is_list_of_objects(["a", 1])
    assert not is_list_of_objects(["a", "b"])
    assert not is_list_of_objects(np.array(["a", 1], dtype=object))


@pytest.mark.parametrize("check", [check_labels, image_labels])
def test_one_label_per_image(check):
    with pytest.raises(ValueError, match="y=None"):
        check(None, 3)
    with pytest.raises(ValueError, match="y has 2 labels: expected 3"):
        check(["a", "b"], 3)


def test_learning_needs_two_classes():
    classes, numbers = image_labels(["a", "a"], 2)
    assert (classes.tolist(), numbers.tolist()) == (["a"], [0, 0])
    with pytest.raises(ValueError, match=r"one class \('a'\)"):
        check_labels(["a", "a"], 2)
