"""The filter for processors without AVX2: float32 tables over whole bytes."""

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.compile import helper

__all__ = ["filter_portable"]


@helper
def filter_portable(
    blocks: NDArray[np.uint8],
    first: int,
    last: int,
    excess: NDArray[np.float64],
    preferred: NDArray[np.uint8],
    room: float,
    candidates: NDArray[np.int32],
) -> int:
    """Codes of blocks first <= b < last whose bits other than the ``preferred`` ones cost at most ``room``.

    Writes their offsets from the first block's first code to ``candidates``, in order; returns how many. Sums
    are rounded, so a few may cost a little more.
    """
    width = blocks.shape[1]
    tables = np.zeros((width, 256), np.float32)  # in units of room
    for j in range(width):
        for s in range(8 * j, 8 * j + 8):
            cost = np.float32(min(excess[s] / room, 2.0))
            for value in range(256):
                if (value >> (7 - s % 8) & 1) != preferred[s]:
                    tables[j, value] += cost
    limit = np.float32(1.0 + 2e-7 * (8 * width + 8))
    sums = np.empty(32, np.float32)
    count = 0
    for b in range(first, last):
        sums[:] = 0
        for j in range(width):
            table = tables[j]
            column = blocks[b, j]
            for lane in range(32):
                sums[lane] += table[column[lane]]
        for lane in range(32):
            if sums[lane] <= limit:
                candidates[count] = (b - first) * 32 + lane
                count += 1
    return count
