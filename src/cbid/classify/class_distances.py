"""The distance from patches to classes, built from the settings of an NBNN classifier, and sums over images.

A ``ClassDistances`` is called with rows (q, width) and returns distances (q, n_classes) float32, inf where nothing
was found.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cbid.classify.lower_bounds import bound_axes
from cbid.classify.patch_search import (
    CodeSearch,
    FlatSearch,
    Floats,
    KDTreeSearch,
    LSHSearch,
    PatchSearch,
    far_centre,
)
from cbid.search.partition import Partition

__all__ = ["ByClass", "ByPartition", "ClassDistances", "Local", "class_distances", "sum_by_image"]

Rows = NDArray[Any]
Weights = NDArray[np.floating] | None


class ClassDistances(Protocol):
    """Distances from patches to classes."""

    nbytes: int  # memory beside the rows

    def __call__(self, rows: Rows, n_threads: int) -> Floats: ...


class ByClass:
    """NBNN (Boiman et al., 2008): the nearest patch of each class, by one structure for each class."""

    def __init__(self, structures: Sequence[PatchSearch]) -> None:
        self._structures = structures
        self.nbytes = sum(structure.nbytes for structure in structures)

    def __call__(self, rows: Rows, n_threads: int) -> Floats:
        return np.stack([s.query(rows, 1, n_threads)[0][:, 0] for s in self._structures], axis=1)


class ByPartition:
    """NBNN on codes."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.nbytes = partition.nbytes

    def __call__(self, rows: NDArray[np.uint8], n_threads: int) -> Floats:
        return self._partition.nearest(rows, n_threads=n_threads)


class Local:
    """Local NBNN (McCann and Lowe, 2012): one structure over all classes.

    Of the k + 1 nearest patches, the distance of the last is the background distance of all classes that are not
    among the first k. It is subtracted: those classes get zero, all others a negative value.
    """

    def __init__(self, structure: PatchSearch, classes: NDArray[np.integer], n_classes: int, k: int) -> None:
        self._structure, self._classes, self._n_classes = structure, classes, n_classes
        self._k = min(k, len(classes) - 1)
        self.nbytes = structure.nbytes

    def __call__(self, rows: Rows, n_threads: int) -> Floats:
        distances, positions = self._structure.query(rows, self._k + 1, n_threads)
        found = positions >= 0
        background = np.where(found, distances, 0).max(axis=1)
        out = np.zeros((len(rows), self._n_classes), np.float32)
        for j in range(self._k - 1, -1, -1):  # the nearest patch of a class comes last and stays
            at = np.flatnonzero(found[:, j])
            out[at, self._classes[positions[at, j]]] = distances[at, j] - background[at]
        return out


def class_distances(
    parts: list[Rows], classes: NDArray[Any], params: dict[str, Any], coder: Any, seed: int
) -> ClassDistances:
    """Build the structures of a classifier with these settings over the rows of each class."""
    weights = _bit_weights(coder, params["weighted"], classes.tolist())
    axes = bound_axes(parts) if coder is None and params["search"] in ("exact", "lsh") else None
    flat = coder is None and axes is None and params["search"] in ("exact", "pca")
    centre = far_centre(parts) if flat else None

    def structure(rows: Rows) -> PatchSearch:
        if coder is not None:
            return CodeSearch(rows, n_bits=coder.n_bits_, weights=weights)
        if params["search"] == "kd-tree":
            return KDTreeSearch(rows, checks=params["checks"], n_trees=params["n_trees"], seed=seed)
        if params["search"] == "lsh":
            settings = {name: params[name] for name in ("n_tables", "n_functions", "bin_width")}
            return LSHSearch(rows, **settings, seed=seed, axes=axes)
        return FlatSearch(rows, axes, centre)

    if params["local"]:
        if weights is not None and weights.ndim == 2:
            raise ValueError("local=True: expected one weight for each bit; the coder has weights for each class")
        class_of_row = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return Local(structure(np.concatenate(parts)), class_of_row, len(parts), params["n_neighbors"])
    if coder is not None:
        return ByPartition(Partition(parts, coder.n_bits_, weights))
    return ByClass([structure(part) for part in parts])


def _bit_weights(coder: Any, weighted: bool | None, classes: list[Any]) -> Weights:
    """Return None for plain Hamming, (t,), or (t, n_classes) in the order of ``classes``."""
    weights = None if weighted is False else getattr(coder, "weights_", None)
    if weights is None:
        if weighted:
            raise ValueError(f"weighted=True: {type(coder).__name__} has no weights_")
        return None
    weights = np.asarray(weights)
    if weights.ndim == 1:
        return weights
    column = {label: c for c, label in enumerate(coder.classes_.tolist())}
    unknown = [label for label in classes if label not in column]
    if unknown:
        raise ValueError(f"class {unknown[0]!r} is unknown to the coder, which has weights for each of its classes")
    return weights[:, [column[label] for label in classes]]


def sum_by_image(distances: Floats, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return distances (n, n_classes) of images whose patches are the rows offsets[i] to offsets[i + 1].

    Hashing may find no patch of a class. Its distance is then the next number after the largest distance found for
    any patch of the image: a class with a patch found comes first.
    """
    starts = offsets[:-1]
    missing = np.isinf(distances)
    if missing.any():
        found = np.where(missing, 0, distances).max(axis=1)
        beyond = np.nextafter(np.maximum.reduceat(found, starts), np.float32(np.inf))
        largest = np.repeat(beyond, np.diff(offsets))
        distances = np.where(missing, largest[:, None], distances)
    return np.add.reduceat(distances, starts, axis=0, dtype=np.float64)
