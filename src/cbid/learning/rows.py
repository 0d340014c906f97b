"""Rows: what the margin compares (METHOD section 2).

A row sets one miss side against one hit side. A side is a sample (the anchor) and a set of others; its distance
under a bit is the mean of |h(anchor) - h(member)| over the set. Rows share sides (all rows of a sample share its
hits; the 25 triplets of 5 hits and 5 misses share 10 pairs), so distances are kept per side, never per row.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from cbid.learning.neighbourhoods import Neighbourhoods

__all__ = ["Rows", "Sides", "rows_from_neighbourhoods", "rows_from_triplets"]


@dataclass(frozen=True)
class Sides:
    """S comparisons of a sample with a set of samples.

    anchor : (S,) sample numbers
    mean : (S, n) sparse; mean[s] averages over the members of side s
    """

    anchor: NDArray[np.int32]
    mean: csr_matrix

    def __len__(self) -> int:
        return len(self.anchor)

    def distances(self, h: NDArray[np.float32]) -> NDArray[np.float32]:
        """Mean |h_i - h_j| per side, (S,), for one bit h (n,) in -1/+1, where |h_i - h_j| = 1 - h_i h_j."""
        return 1 - h[self.anchor] * (self.mean @ h)


@dataclass(frozen=True)
class Rows:
    """R rows over n samples of ``n_classes`` classes.

    hit, miss : (R,) the numbers of the row's two sides in ``hits`` and ``misses``
    own, other : (R,) class of the anchor (y) and class of its misses (r)
    """

    hits: Sides
    misses: Sides
    hit: NDArray[np.int32]
    miss: NDArray[np.int32]
    own: NDArray[np.int32]
    other: NDArray[np.int32]
    n_classes: int

    def __len__(self) -> int:
        return len(self.hit)


def rows_from_neighbourhoods(near: Neighbourhoods, y: NDArray[np.integer], *, triplets: str, n_classes: int) -> Rows:
    """``triplets="mean"``: a row per (sample, other class); ``"all"``: one per hit and miss of each."""
    n = len(y)
    if triplets == "mean":
        hits = _sides(np.arange(n, dtype=np.int32), near.hits, n)
        misses = _sides(near.anchors, near.misses, n)
        hit, miss = near.anchors, np.arange(len(misses), dtype=np.int32)
    else:
        hits, hit_number = _single_sides(np.arange(n, dtype=np.int32), near.hits, n)
        misses, miss_number = _single_sides(near.anchors, near.misses, n)
        # Every hit of the anchor with every miss of the (anchor, class), as numbers of single-pair sides.
        hit_grid = np.repeat(hit_number[near.anchors], near.misses.shape[1], axis=1)
        miss_grid = np.tile(miss_number, near.hits.shape[1])
        there = (hit_grid >= 0) & (miss_grid >= 0)
        hit, miss = hit_grid[there], miss_grid[there]
    other_of_side = near.others if triplets == "mean" else y[misses.mean.indices].astype(np.int32)
    return Rows(
        hits,
        misses,
        hit,
        miss,
        own=y[misses.anchor[miss]].astype(np.int32),
        other=other_of_side[miss],
        n_classes=n_classes,
    )


def rows_from_triplets(
    n: int, anchors: NDArray[np.integer], positives: NDArray[np.integer], negatives: NDArray[np.integer]
) -> Rows:
    """A row per ready-made triplet; equal pairs share a side. There are no classes, so all are class 0."""
    hits, hit = _unique_pairs(anchors, positives, n)
    misses, miss = _unique_pairs(anchors, negatives, n)
    none = np.zeros(len(anchors), dtype=np.int32)
    return Rows(hits, misses, hit, miss, own=none, other=none, n_classes=1)


def _sides(anchor: NDArray[np.int32], members: NDArray[np.int32], n: int) -> Sides:
    """Sides from members (S, m), where -1 is no member."""
    there = members >= 0
    count = there.sum(axis=1)
    indptr = np.concatenate([[0], np.cumsum(count)])
    data = np.repeat((1 / np.maximum(count, 1)).astype(np.float32), count)
    mean = csr_matrix((data, members[there], indptr), shape=(len(anchor), n))
    return Sides(anchor, mean)


def _single_sides(anchor: NDArray[np.int32], members: NDArray[np.int32], n: int) -> tuple[Sides, NDArray[np.int32]]:
    """One side per pair, and the side's number for every place of ``members`` (-1 where there is none)."""
    there = members >= 0
    number = np.full(members.shape, -1, dtype=np.int32)
    number[there] = np.arange(there.sum(), dtype=np.int32)
    anchor = np.repeat(anchor, there.sum(axis=1))
    return _sides(anchor, members[there][:, None], n), number


def _unique_pairs(
    anchors: NDArray[np.integer], members: NDArray[np.integer], n: int
) -> tuple[Sides, NDArray[np.int32]]:
    key = anchors.astype(np.int64) * n + members
    pairs, number = np.unique(key, return_inverse=True)
    anchor = (pairs // n).astype(np.int32)
    return _sides(anchor, (pairs % n).astype(np.int32)[:, None], n), number.astype(np.int32)
