"""Budgets as text, and the peak of what a call allocates."""

import numpy as np
import pytest

from cbid.scale.running import as_bytes, peak_allocation, process_bytes, used_budget


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2 * 10**9), ("1.5GiB", 3 * 2**29), (" 512 mib", 2**29), ("7", 7), (np.int64(9), 9)]
)
def test_sizes(text, size):
    assert as_bytes(text) == size


@pytest.mark.parametrize("wrong", ["", "GB", "2 apples", "-1GB", 0, -5, 2.5, True, None])
def test_wrong_sizes_are_rejected(wrong):
    with pytest.raises(ValueError, match=r"max_memory="):
        as_bytes(wrong)


def test_the_peak_counts_memory_that_was_freed():
    """Two arrays of 8 MB at once, then none."""

    def call():
        a = np.ones(10**6)
        return (a + 1).sum()

    call()
    assert 16e6 <= peak_allocation(call) < 16.5e6


def test_the_used_budget_is_above_the_size_of_the_process():
    assert process_bytes() > 10**7
    assert process_bytes() < used_budget() <= process_bytes() + 2**28
