"""Labels as places in the sorted classes."""

import numpy as np
import pytest

from cbid.data.labels import coded


@pytest.mark.parametrize("given", [[2, None, 1, 2], np.array([2.0, np.nan, 1.0, 2.0]), [2.0, float("nan"), 1.0, 2.0]])
def test_what_is_absent_has_no_class(given):
    for form in (given, np.array(given, dtype=object)):
        labels, classes = coded(form)
        assert labels.tolist() == [1, -1, 0, 1]
        assert classes.tolist() == [1, 2]


@pytest.mark.parametrize("given", [[1, "a"], np.array(["a", None, 1], dtype=object)])
def test_text_and_numbers_are_not_mixed(given):
    with pytest.raises(ValueError, match="labels holds 'a' and 1; text or numbers are accepted, not both"):
        coded(given)


def test_no_labels_at_all():
    assert coded([])[0].tolist() == []
    assert coded([None, None])[0].tolist() == [-1, -1]
