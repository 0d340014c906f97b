"""The filter for processors without AVX2: the quantised tables joined to tables over whole bytes."""

import numpy as np
from numpy.typing import NDArray

from cbid.search._compile import compiled

__all__ = ["filter_portable"]


@compiled
def filter_portable(
    blocks: NDArray[np.uint8],
    first: int,
    last: int,
    tables: NDArray[np.uint8],
    order: NDArray[np.int64],
    limit: int,
    candidates: NDArray[np.int32],
) -> int:
    """Codes of blocks first <= b < last whose quantised sum is below ``limit``.

    Writes their offsets from the first block's first code to ``candidates``, in order; returns how many.
    """
    columns = len(order)
    byte_tables = np.empty((columns, 256), np.int32)
    for c in range(columns):
        for value in range(256):
            byte_tables[c, value] = np.int32(tables[c, 0, value >> 4]) + np.int32(tables[c, 1, value & 15])
    sums = np.empty(32, np.int32)
    count = 0
    for b in range(first, last):
        sums[:] = 0
        for c in range(columns):
            table = byte_tables[c]
            column = blocks[b, order[c]]
            for lane in range(32):
                sums[lane] += table[column[lane]]
        for lane in range(32):
            if sums[lane] < limit:
                candidates[count] = (b - first) * 32 + lane
                count += 1
    return count
