"""From patches to classes: how far each patch is from each class.

Each of these is called with rows (q, width) and gives distances (q, n_classes) float32, inf where nothing was found.
An image sums them over its patches.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cbid.classify.patch_search import Floats, PatchSearch
from cbid.search.partition import Partition

__all__ = ["ByClass", "ByPartition", "ClassDistances", "Local", "sum_by_image"]


class ClassDistances(Protocol):
    nbytes: int  # beside the rows

    def __call__(self, rows: NDArray[Any], n_threads: int) -> Floats: ...


class ByClass:
    """NBNN (Boiman et al., 2008): the nearest patch of each class, by a structure for each class."""

    def __init__(self, structures: Sequence[PatchSearch]) -> None:
        self._structures = structures
        self.nbytes = sum(structure.nbytes for structure in structures)

    def __call__(self, rows: NDArray[Any], n_threads: int) -> Floats:
        return np.stack([s.query(rows, 1, n_threads)[0][:, 0] for s in self._structures], axis=1)


class ByPartition:
    """The same on codes."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.nbytes = partition.nbytes

    def __call__(self, rows: NDArray[np.uint8], n_threads: int) -> Floats:
        return self._partition.nearest(rows, n_threads=n_threads)


class Local:
    """Local NBNN (McCann and Lowe, 2012): one structure over all classes.

    Of the k + 1 nearest patches the last one's distance stands for every class that is not among the first k: classes
    get the distance of their nearest less that, so that these are zero and all others negative.
    """

    def __init__(self, structure: PatchSearch, classes: NDArray[np.integer], n_classes: int, k: int) -> None:
        self._structure, self._classes, self._n_classes = structure, classes, n_classes
        self._k = min(k, len(classes) - 1)
        self.nbytes = structure.nbytes

    def __call__(self, rows: NDArray[Any], n_threads: int) -> Floats:
        distances, positions = self._structure.query(rows, self._k + 1, n_threads)
        found = positions >= 0
        beyond = np.where(found, distances, 0).max(axis=1)
        out = np.zeros((len(rows), self._n_classes), np.float32)
        for j in range(self._k - 1, -1, -1):  # the nearest comes last, and stays
            at = np.flatnonzero(found[:, j])
            out[at, self._classes[positions[at, j]]] = distances[at, j] - beyond[at]
        return out


def sum_by_image(distances: Floats, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Distances (n, n_classes) of images whose patches are the rows offsets[i] to offsets[i + 1].

    Hashing may find no patch of a class. The largest distance that was found for any patch of the image then stands
    in, and the next number after it, so that a class where something was found comes first.
    """
    starts = offsets[:-1]
    missing = np.isinf(distances)
    if missing.any():
        found = np.where(missing, 0, distances).max(axis=1)
        beyond = np.nextafter(np.maximum.reduceat(found, starts), np.float32(np.inf))
        largest = np.repeat(beyond, np.diff(offsets))
        distances = np.where(missing, largest[:, None], distances)
    return np.add.reduceat(distances, starts, axis=0, dtype=np.float64)
