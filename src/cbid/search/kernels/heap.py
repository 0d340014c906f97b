"""The k best so far of one query: a binary heap with the worst (distance, position) on top."""

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.compile import helper

__all__ = ["push", "sort_heap"]

Distances = NDArray[np.float32]
Positions = NDArray[np.int64]


@helper
def _sift_down(distances: Distances, positions: Positions, size: int, distance: float, position: int) -> None:
    """Put an entry where the top of the heap was, and restore the order."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            distances[other] > distances[child]
            or (distances[other] == distances[child] and positions[other] > positions[child])
        ):
            child = other
        if distances[child] < distance or (distances[child] == distance and positions[child] < position):
            break
        distances[hole] = distances[child]
        positions[hole] = positions[child]
        hole = child
    distances[hole] = distance
    positions[hole] = position


@helper
def push(distances: Distances, positions: Positions, size: int, distance: float, position: int) -> int:
    """Add an entry; when the heap is full it takes the place of the worst one. Returns the size after."""
    if size == len(distances):
        _sift_down(distances, positions, size, distance, position)
        return size
    hole = size
    while hole > 0:
        parent = (hole - 1) // 2
        if distances[parent] > distance or (distances[parent] == distance and positions[parent] > position):
            break
        distances[hole] = distances[parent]
        positions[hole] = positions[parent]
        hole = parent
    distances[hole] = distance
    positions[hole] = position
    return size + 1


@helper
def sort_heap(distances: Distances, positions: Positions, size: int) -> None:
    """Order the entries by (distance, position) and mark the places that stayed empty."""
    for end in range(size - 1, 0, -1):
        distance, position = distances[end], positions[end]
        top_distance, top_position = distances[0], positions[0]
        _sift_down(distances, positions, end, distance, position)
        distances[end] = top_distance
        positions[end] = top_position
    distances[size:] = np.inf
    positions[size:] = -1
