"""Codes of stored vectors."""

import numpy as np
from numpy.typing import NDArray

from cbid.coders import Coder
from cbid.codes import n_bytes

__all__ = ["encode_rows"]

_BYTES = 64 * 2**20  # of vectors that are encoded at a time


def encode_rows(coder: Coder, vectors: NDArray[np.float32], ids: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Packed codes of the vectors at the places of ids, (n, ceil(n_bits/8)), read a part at a time."""
    rows = max(1, _BYTES // (4 * vectors.shape[1]))
    parts = [coder.encode(vectors[ids[i : i + rows]]) for i in range(0, len(ids), rows)]
    return np.concatenate([np.empty((0, n_bytes(coder.n_bits_)), np.uint8), *parts])
