"""Chunks of blocks: how large they are, and the copies of those that cannot be scanned where they lie."""

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.compile import helper
from cbid.search.kernels.registers import BLOCKS

__all__ = ["chunk_blocks", "chunk_end", "code_at", "copy_codes", "wanted_places"]

CHUNK_BYTES = 1 << 18  # leaves room for the tables of the queries in a second-level cache
CHUNK_CODES = 1 << 15  # bounds the list of candidates of short codes

Bytes = NDArray[np.uint8]
Places = NDArray[np.int32]


@helper
def chunk_blocks(width: int, blocks_done: int, k: int) -> int:
    """Blocks of the next chunk: half as many as were done, from enough for k codes up to a cacheful."""
    most = max(min(CHUNK_BYTES // (32 * width), CHUNK_CODES // 32), 2 * BLOCKS)
    wanted = min(max(blocks_done // 2, (k + 31) // 32), most)
    return -(-wanted // BLOCKS) * BLOCKS


@helper
def chunk_end(first: int, end: int, size: int) -> int:
    """Where the chunk from block ``first`` on ends; what is left over at the end is a chunk of its own."""
    last = min(first + size, end)
    return last - (last - first) % BLOCKS if last - first > BLOCKS else last


@helper
def wanted_places(keep: Bytes, begin: int, end: int, origin: int, places: Places) -> int:
    """Offsets from ``origin`` of positions begin <= p < end, those with ``keep`` set if there is a
    ``keep``."""
    count = 0
    for position in range(begin, end):
        places[count] = position - origin
        count += len(keep) == 0 or keep[position] != 0
    return count


@helper
def copy_codes(blocks: Bytes, first: int, places: Places, out: Bytes) -> None:
    """The codes at ``places``, counted from block ``first``, one after the other in blocks ``out``."""
    for j in range(blocks.shape[1]):
        for i in range(len(places)):
            out[i >> 5, j, i & 31] = blocks[first + (places[i] >> 5), j, places[i] & 31]


@helper
def code_at(candidate: int, origin: int, copied: int, places: Places, start: int, stop: int, keep: Bytes) -> int:
    """Position of a candidate, or -1 if it is none that is wanted.

    It is an offset from ``origin`` or, if ``copied`` >= 0, the number of one of so many codes copied
    together.
    """
    if copied >= 0:
        return origin + places[candidate] if candidate < copied else -1
    position = origin + candidate
    if position < start or position >= stop or (len(keep) > 0 and keep[position] == 0):
        return -1
    return position
