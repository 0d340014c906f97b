"""Neighbours of patches, and rows over the bags they come from (docs/method.md, section 8)."""

import numpy as np
from numpy.typing import NDArray

from cbid.learning.neighbourhoods import Neighbourhoods, nearest_members
from cbid.learning.rows import Rows
from cbid.learning.sides import BagSides, PairSides
from cbid.threads import faiss_threads

__all__ = ["cut_into_bags", "find_patch_neighbourhoods", "rows_from_bags"]

Indices = NDArray[np.int32]


def find_patch_neighbourhoods(
    X: NDArray[np.float32],
    y: NDArray[np.integer],
    image: NDArray[np.integer],
    *,
    n_classes: int,
    n_hits: int,
    n_misses: int,
    max_rows: int,
    rng: np.random.Generator,
    n_threads: int = 1,
) -> Neighbourhoods:
    """Nearest hits and misses of patches X (n, d) that belong to classes y (n,) and images (n,).

    Hits are patches of the same class in *another* image: those of its own image overlap the patch, and say nothing
    of the class. So patches of a class with one image have no hits; they are misses of others, and no anchors. When
    more than ``max_rows`` comparisons of a patch with another class are possible, a random part of them is kept.
    """
    hits = np.full((len(y), n_hits), -1, dtype=np.int32)
    members = [np.flatnonzero(y == r).astype(np.int32) for r in range(n_classes)]
    with_hits = [r for r in range(n_classes) if len(np.unique(image[members[r]])) > 1]
    anchors, others = _comparisons(y, members, with_hits, max_rows, rng)
    asked = np.zeros(len(y), dtype=bool)
    asked[anchors] = True
    misses = np.full((len(anchors), n_misses), -1, dtype=np.int32)
    with faiss_threads(n_threads):
        for r in range(n_classes):
            if len(members[r]) == 0:
                continue
            rows = np.flatnonzero(others == r)
            if len(rows):
                misses[rows] = nearest_members(X, anchors[rows], members[r], n_misses)
            own = members[r][asked[members[r]]]
            for i in np.unique(image[own]):
                here = own[image[own] == i]
                hits[here] = nearest_members(X, here, members[r][image[members[r]] != i], n_hits)
    return Neighbourhoods(hits, anchors, others, misses)


def _comparisons(
    y: NDArray[np.integer], members: list[Indices], with_hits: list[int], max_rows: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Every patch that has hits with every other class that has patches, or so many of these at random."""
    anchors = np.flatnonzero(np.isin(y, with_hits)).astype(np.int32)
    there = np.array([r for r, part in enumerate(members) if len(part)], dtype=np.int32)
    anchor, other = np.repeat(anchors, len(there)), np.tile(there, len(anchors))
    kept = np.flatnonzero(y[anchor] != other)
    if len(kept) > max_rows:
        kept = np.sort(rng.choice(kept, size=max_rows, replace=False))
    return anchor[kept], other[kept]


def cut_into_bags(image: NDArray[np.integer], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The bag of every patch, (n,): each image's patches, shuffled, cut into bags of ``size`` (or less, the last)."""
    order = rng.permutation(len(image))
    order = order[np.argsort(image[order], kind="stable")]  # images in order, their patches shuffled
    ordered = image[order]
    place = np.arange(len(image)) - np.searchsorted(ordered, ordered)  # inside the image
    starts = place % size == 0
    bag = np.empty(len(image), dtype=np.int64)
    bag[order] = np.cumsum(starts) - 1
    return bag


def rows_from_bags(near: Neighbourhoods, y: NDArray[np.integer], bag: NDArray[np.integer], *, n_classes: int) -> Rows:
    """A row per (bag, other class): both sides are means over the patches of the bag that are compared with it.

    bag : (n,) the bag of every patch; the patches of a bag are of one class
    """
    n = len(y)
    keys, row = np.unique(bag[near.anchors].astype(np.int64) * n_classes + near.others, return_inverse=True)
    hits = BagSides(PairSides(near.anchors, near.hits[near.anchors], n), row.astype(np.int32))
    misses = BagSides(PairSides(near.anchors, near.misses, n), row.astype(np.int32))
    own = np.empty(len(keys), dtype=np.int32)
    own[row] = y[near.anchors]
    side = np.arange(len(keys), dtype=np.int32)
    return Rows(
        hits, misses, hit=side, miss=side, own=own, other=(keys % n_classes).astype(np.int32), n_classes=n_classes
    )
