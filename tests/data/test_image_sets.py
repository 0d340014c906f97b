"""Names in one buffer, and rows by index or mask."""

import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbid.data.image_sets import Names, row_numbers


@given(st.lists(st.one_of(st.binary(max_size=12), st.text(st.characters(exclude_categories=["Cs"]), max_size=8))))
def test_names_are_kept_byte_for_byte(given_names):
    names = Names(given_names)
    raw = [name if isinstance(name, bytes) else os.fsencode(name) for name in given_names]
    assert [names.raw(i) for i in range(len(names))] == raw
    assert [name for name in names] == [name.decode("utf-8", "backslashreplace") for name in raw]  # noqa: C416
    backwards = names.take(np.arange(len(names))[::-1])
    assert [backwards.raw(i) for i in range(len(names))] == raw[::-1]


def test_names_end_and_travel():
    names = Names(["a", "b/c.jpg"])
    assert names[-1] == "b/c.jpg"
    assert list(pickle.loads(pickle.dumps(names))) == ["a", "b/c.jpg"]  # noqa: S301
    assert repr(names) == "<2 names>"
    with pytest.raises(IndexError):
        names[2]


def test_rows_by_index_and_by_mask():
    assert row_numbers([2, -1, 0], 3).tolist() == [2, 2, 0]
    assert row_numbers([True, False, True], 3).tolist() == [0, 2]
    assert row_numbers([], 3).tolist() == []
    for wrong, message in (([3], "less than 3"), ([True], "mask has shape"), ([0.5], "integers"), (1, "shape")):
        with pytest.raises(IndexError, match=message):
            row_numbers(wrong, 3)
