"""Keep masks of whole segments, in one pass each; numpy is several times slower, as it copies or widens indices."""

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.compile import compiled


@compiled
def mask_by_table(labels: NDArray[np.unsignedinteger], table: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return table[labels]: 1 where the label of a code is wanted."""
    keep = np.empty(len(labels), np.uint8)
    for i in range(len(labels)):
        keep[i] = table[labels[i]]
    return keep


@compiled
def mark_ids(ids: NDArray[np.int64], first: int, table: NDArray[np.uint8]) -> None:
    """Set table[id - first] to 1 for each of ``ids``, in any order; ids outside the table are skipped."""
    for i in range(len(ids)):
        place = ids[i] - first
        if 0 <= place < len(table):
            table[place] = 1


@compiled
def mask_by_ids(ids: NDArray[np.int64], first: int, table: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return table[ids - first]."""
    keep = np.empty(len(ids), np.uint8)
    for i in range(len(ids)):
        keep[i] = table[ids[i] - first]
    return keep


@compiled
def mask_by_merging(ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return 1 where an id is in ``wanted``; both are ascending."""
    keep = np.zeros(len(ids), np.uint8)
    i = j = 0
    while i < len(ids) and j < len(wanted):
        here, there = ids[i], wanted[j]
        keep[i] = here == there
        # Branch-free: the branch would be unpredictable.
        i += here <= there
        j += here >= there
    return keep
