"""Labels as class numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from cbid.labels import (
    are_label_sets,
    check_labels,
    encode_label_sets,
    encode_labels,
    image_labels,
    is_list_of_objects,
    label_sets,
    single_labels,
)


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


SETS = [["dog", "grass"], {"dog"}, [], None, ["grass", "grass"]]


def test_label_sets_of_lists_and_sets():
    classes, matrix = encode_label_sets(SETS)
    assert classes.tolist() == ["dog", "grass"]
    assert matrix.toarray().tolist() == [[1, 1], [1, 0], [0, 0], [0, 0], [0, 1]]
    assert label_sets(classes, matrix) == [["dog", "grass"], ["dog"], [], [], ["grass"]]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float32, object])
def test_label_sets_of_an_indicator_matrix(dtype):
    """A label that nobody has (column 1) is no class."""
    Y = np.array([[1, 0, 1], [0, 0, 1], [0, 0, 0]])
    forms = [Y.astype(dtype)] if dtype is object else [Y.astype(dtype), csr_matrix(Y.astype(dtype))]
    for form in forms:
        classes, matrix = encode_label_sets(form)
        assert classes.tolist() == [0, 2]
        assert matrix.toarray().tolist() == [[1, 1], [0, 1], [0, 0]]


def test_a_sparse_matrix_of_the_caller_is_left_alone():
    """Y stores a zero, which the copy drops."""
    Y = csr_matrix((np.array([1.0, 0.0, 1.0]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 2))
    _, matrix = encode_label_sets(Y)
    assert matrix.nnz == 2
    assert Y.data.tolist() == [1, 0, 1]
    assert Y.indices.tolist() == [0, 1, 1]
    assert Y.indptr.tolist() == [0, 2, 3]


def test_columns_of_a_table_name_the_labels():
    pandas = pytest.importorskip("pandas")
    classes, matrix = encode_label_sets(pandas.DataFrame({"a": [1, 0], "b": [1, 1]}))
    assert classes.tolist() == ["a", "b"]
    assert matrix.toarray().tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize(
    ("given", "several"),
    [
        ([["a"], ["b"]], True),
        ([None, {"a"}], True),
        (np.array([["a"], None, ["b", "c"]], dtype=object), True),
        (csr_matrix(np.eye(2)), True),
        (np.eye(2), True),
        ([("a", 1), ("b", 2)], False),
        ([frozenset("a"), frozenset("b")], False),
        (np.zeros((3, 1)), False),
        (["a", "b"], False),
        ([1, 2], False),
    ],
)
def test_what_counts_as_label_sets(given, several):
    assert are_label_sets(given) is several


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.array([[0, 1], [2, 0]]), r"Y\[1, 0\]=2: expected 0 or 1"),
        (np.array([[0, np.nan]]), r"Y\[0, 1\]=nan: expected 0 or 1"),
        (csr_matrix(np.array([[0, -1.0]])), r"Y\[0, 1\]=-1.0: expected 0 or 1"),
        (np.array([["a", "b"]]), "Y has dtype <U1"),
        (np.array([["a", {}]], dtype=object), "Y holds objects"),
        ([["a"], "b"], r"Y\[1\]='b': expected a list or set"),
        ([["a"], ("b",)], r"Y\[1\]=\('b',\): expected a list or set"),
        ([["a"], [None]], r"Y\[1\] holds None"),
        ([["a"], [float("nan")]], r"Y\[1\] holds nan"),
        ([[["a"]]], r"Y\[0\] holds \['a'\]"),
    ],
)
def test_bad_label_sets(given, message):
    with pytest.raises(ValueError, match=message):
        encode_label_sets(given)


@pytest.mark.parametrize("given", [[np.array([0, 1]), np.array([1, 0])], [np.array([1]), np.array([0, 2])]])
def test_a_list_of_arrays_is_refused(given):
    """It may be the rows of a matrix as well as arrays of labels."""
    with pytest.raises(ValueError, match=r"labels\[[01]\] is an array of shape \(2,\): expected a list or set"):
        are_label_sets(given)


def test_single_labels_of_a_matrix():
    assert single_labels(encode_label_sets([["b"], ["a"], []])[1]).tolist() == [1, 0, -1]
    assert single_labels(encode_label_sets([["b", "a"], ["a"]])[1]) is None


@given(st.lists(st.sets(st.integers(0, 6)), min_size=1, max_size=12))
def test_label_sets_are_recovered_from_every_form(sets):
    """A list of sets, the matrix it stands for, and that matrix stored sparsely are one thing."""
    classes, matrix = encode_label_sets(sets)
    assert [set(labels) for labels in label_sets(classes, matrix)] == sets
    dense = np.array([[label in entry for label in range(7)] for entry in sets])
    for form in (dense, csr_matrix(dense.astype(float))):
        again, same = encode_label_sets(form)
        assert again.tolist() == classes.tolist()
        assert (same != matrix).nnz == 0
