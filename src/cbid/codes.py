"""Packed binary codes: the one place that knows their layout.

A code of t bits takes ceil(t / 8) bytes in the order of ``numpy.packbits`` ("big": bit 0 is the highest bit of
byte 0); the last byte is padded with zeros.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["n_bytes", "pack", "unpack"]


def n_bytes(n_bits: int) -> int:
    """Bytes that one code of ``n_bits`` takes."""
    return (n_bits + 7) // 8


def pack(bits: ArrayLike) -> NDArray[np.uint8]:
    """Bits (n, t), set where positive (so both 0/1 and -1/+1 do), to codes (n, ceil(t/8))."""
    return np.packbits(np.asarray(bits) > 0, axis=-1)


def unpack(codes: NDArray[np.uint8], n_bits: int) -> NDArray[np.int8]:
    """Codes (n, ceil(t/8)) to bits (n, t) in -1/+1."""
    bits = np.unpackbits(np.asarray(codes), axis=-1, count=n_bits).view(np.int8)
    return 2 * bits - 1
