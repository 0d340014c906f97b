"""Budgets as text, and what a call allocates."""

import numpy as np
import pytest

from cbid.scale.memory import allocated_by, as_bytes, held, least_held


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2 * 10**9), ("1.5GiB", 3 * 2**29), (" 512 mib", 2**29), ("7", 7), (np.int64(9), 9)]
)
def test_sizes(text, size):
    assert as_bytes(text) == size


@pytest.mark.parametrize("wrong", ["", "GB", "2 apples", "-1GB", 0, -5, 2.5, True, None])
def test_what_is_no_size(wrong):
    with pytest.raises(ValueError, match=r"max_memory=.* is not accepted"):
        as_bytes(wrong)


def test_the_peak_of_a_call_is_counted_though_it_was_freed():
    """Two arrays of 8 MB at once, then none."""

    def call():
        a = np.ones(10**6)
        return (a + 1).sum()

    call()
    assert 16e6 <= allocated_by(call) < 16.5e6


def test_what_is_held_is_in_steps_above_what_is_there():
    assert held() > 10**7
    assert held() < least_held() <= held() + 2**28
