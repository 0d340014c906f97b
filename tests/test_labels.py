"""Labels of images: what is refused, and in which words."""

import pytest

from cbid.labels import check_labels, image_labels


@pytest.mark.parametrize("check", [check_labels, image_labels])
def test_labels_that_are_missing_are_asked_for(check):
    with pytest.raises(ValueError, match="y is None; learning requires y, one label for each image"):
        check(None, 3)


def test_one_class_may_be_added_but_not_learned():
    classes, numbers = image_labels(["a", "a"], 2)
    assert (classes.tolist(), numbers.tolist()) == (["a"], [0, 0])
    with pytest.raises(ValueError, match=r"one class \('a'\)"):
        check_labels(["a", "a"], 2)
