"""The blocked layout."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbid.search.blocks import from_blocks, to_blocks


@given(n=st.integers(0, 100), width=st.integers(1, 20), seed=st.integers(0, 99))
def test_there_and_back(n, width, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (n, width), dtype=np.uint8)
    blocks = to_blocks(codes)
    assert blocks.shape == (-(-n // 32), width, 32)
    assert blocks.flags.c_contiguous
    np.testing.assert_array_equal(from_blocks(blocks, n), codes)
    chosen = rng.integers(0, n, 7) if n else np.empty(0, int)
    np.testing.assert_array_equal(from_blocks(blocks, chosen), codes[chosen])
    for b, j, i in np.ndindex(blocks.shape):
        assert blocks[b, j, i] == (codes[32 * b + i, j] if 32 * b + i < n else 0)


def test_one_code():
    assert to_blocks(np.zeros(5, np.uint8)).shape == (1, 5, 32)


@pytest.mark.parametrize(
    ("which", "message"),
    [
        (33, "which=33"),
        ([32], "which has positions"),
        ([-1], "-1"),
        ([0.5], "dtype float64"),
    ],
)
def test_positions_that_are_not_there(which, message):
    with pytest.raises(ValueError, match=message):
        from_blocks(to_blocks(np.zeros((3, 2), np.uint8)), which)
