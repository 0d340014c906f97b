"""The memory layout that the kernels scan: codes transposed in blocks of 32.

``blocks[b, j, i]`` is byte j of code 32 b + i. So one SIMD register holds the same byte of 32 codes, and each byte
of a code can be read separately. The last block is padded with zero codes.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import check_codes

BLOCK = 32  # codes per block: bytes of an AVX2 register

Item = TypeVar("Item", bound=np.generic)


def to_blocks(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert codes (n, bytes) to blocks (ceil(n/32), bytes, 32)."""
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
    """Return codes (n, bytes) from blocks: the first ``which`` (an int), or those at positions ``which``."""
    blocks = check_blocks(blocks)
    n_codes = len(blocks) * BLOCK
    if isinstance(which, (int, np.integer)):
        if not 0 <= which <= n_codes:
            raise ValueError(f"which={which}: expected an integer from 0 to {n_codes}")
        used = blocks[: -(-int(which) // BLOCK)]
        return np.ascontiguousarray(used.transpose(0, 2, 1)).reshape(-1, blocks.shape[1])[:which]
    positions = np.asarray(which)
    if positions.size == 0:
        return np.empty((0, blocks.shape[1]), np.uint8)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise ValueError(
            f"which has shape {positions.shape} and dtype {positions.dtype}; "
            "expected an integer or a 1-D array of integers"
        )
    if positions.min() < 0 or positions.max() >= n_codes:
        raise ValueError(
            f"which has positions from {positions.min()} to {positions.max()}; expected 0 to {n_codes - 1}"
        )
    return blocks[positions // BLOCK, :, positions % BLOCK]


def check_blocks(blocks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return ``blocks`` as a plain array; raise ValueError if dtype or shape are wrong."""
    array = np.asarray(blocks)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[1] == 0 or array.shape[2] != BLOCK:
        raise ValueError(
            f"blocks has shape {array.shape} and dtype {array.dtype}; "
            f"expected uint8 of shape (blocks, bytes, {BLOCK}), as `to_blocks` returns"
        )
    return array


def read_only(array: NDArray[Item]) -> NDArray[Item]:
    """Return a read-only view: numba then has one type for arrays in memory and for memory maps."""
    view = array.view()
    view.flags.writeable = False
    return view
