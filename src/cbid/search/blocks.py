"""The layout that the kernels scan: codes transposed in blocks of 32.

``blocks[b, j, i]`` is byte j of code 32 b + i, so that one SIMD register holds the same byte of 32 codes and
the bytes of a code are separately addressable. The last block is filled up with zero codes.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import check_codes

__all__ = ["BLOCK", "check_blocks", "from_blocks", "to_blocks"]

BLOCK = 32  # codes per block: bytes of an AVX2 register


def to_blocks(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Codes (n, bytes) to blocks (ceil(n/32), bytes, 32)."""
    codes = check_codes(codes)
    n, width = codes.shape
    n_whole = n // BLOCK
    blocks = np.empty((-(-n // BLOCK), width, BLOCK), np.uint8)
    blocks[:n_whole] = codes[: n_whole * BLOCK].reshape(n_whole, BLOCK, width).transpose(0, 2, 1)
    if n % BLOCK:
        blocks[-1] = 0
        blocks[-1, :, : n % BLOCK] = codes[n_whole * BLOCK :].T
    return blocks


def from_blocks(blocks: NDArray[np.uint8], which: int | ArrayLike) -> NDArray[np.uint8]:
    """Codes (n, bytes) of a blocked array: the first ``which`` ones (an int) or those at positions
    ``which``."""
    blocks = check_blocks(blocks)
    n_codes = len(blocks) * BLOCK
    if isinstance(which, (int, np.integer)):
        if not 0 <= which <= n_codes:
            raise ValueError(f"which is {which}; the blocks hold {n_codes} codes")
        used = blocks[: -(-int(which) // BLOCK)]
        return np.ascontiguousarray(used.transpose(0, 2, 1)).reshape(-1, blocks.shape[1])[:which]
    positions = np.asarray(which)
    if positions.size == 0:
        return np.empty((0, blocks.shape[1]), np.uint8)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise ValueError(
            f"which has shape {positions.shape} and dtype {positions.dtype}; "
            "a number of codes or a 1-D array of integer positions is accepted"
        )
    if positions.min() < 0 or positions.max() >= n_codes:
        raise ValueError(
            f"which has positions {positions.min()} to {positions.max()}; the blocks hold {n_codes} codes"
        )
    return blocks[positions // BLOCK, :, positions % BLOCK]


def check_blocks(blocks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """``blocks`` as a plain array, or an error that says what a blocked array is."""
    array = np.asarray(blocks)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[1] == 0 or array.shape[2] != BLOCK:
        raise ValueError(
            f"blocks has shape {array.shape} and dtype {array.dtype}; "
            f"uint8 of shape (blocks, bytes, {BLOCK}) is accepted (see cbid.search.blocks.to_blocks)"
        )
    return array
