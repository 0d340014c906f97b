"""Rows: what the margin compares (docs/method.md, section 2).

A row sets one miss side against one hit side. A side is a sample (the anchor) and a set of others; its distance under
a bit is the mean of |h(anchor) - h(member)| over the set. Rows share sides (all rows of a sample share its hits; the
25 triplets of 5 hits and 5 misses share 10 pairs), so distances are kept per side, never per row.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.learning.neighbourhoods import Neighbourhoods
from cbid.learning.sides import ListedSides, PairSides, WholeClassSides, single_sides

__all__ = ["Rows", "rows_from_classes", "rows_from_neighbourhoods", "rows_from_triplets", "rows_of_drawn_pairs"]

Indices = NDArray[np.int32]


@dataclass(frozen=True)
class Rows:
    """R rows over n samples of ``n_classes`` classes.

    hit, miss : (R,) the row's two sides, by their numbers in ``hits`` and ``misses`` (int64 past 2^31)
    own, other : (R,) class of the anchor (y) and class of its misses (r)
    required : (R,) the margin that each row must exceed, or None for zero
    """

    hits: ListedSides | WholeClassSides
    misses: ListedSides | WholeClassSides
    hit: Indices
    miss: Indices
    own: Indices
    other: Indices
    n_classes: int
    required: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.hit)

    def subset(self, kept: NDArray[np.bool_]) -> "Rows":
        """Return some of the rows, over the same sides."""
        hit, miss, own, other = (part[kept] for part in (self.hit, self.miss, self.own, self.other))
        required = None if self.required is None else self.required[kept]
        return Rows(self.hits, self.misses, hit, miss, own, other, self.n_classes, required)


def rows_from_classes(y: NDArray[np.integer], *, n_classes: int, max_rows: int, rng: np.random.Generator) -> Rows:
    """A row per (sample, other class), each side the mean over the whole class."""
    sides = WholeClassSides(y, n_classes)
    n_rows = len(y) * (n_classes - 1)
    # Drawn by their numbers, so that what is left out is never made.
    row = np.sort(rng.choice(n_rows, size=max_rows, replace=False)) if n_rows > max_rows else np.arange(n_rows)
    index: Any = np.int32 if len(y) * n_classes <= np.iinfo(np.int32).max else np.int64
    anchor, place = np.divmod(row.astype(index), index(n_classes - 1))
    own = y[anchor].astype(np.int32)
    other = place.astype(np.int32)
    other += other >= own  # the others are numbered without the own class
    hit, miss = (anchor * index(n_classes) + side for side in (own, other))
    return Rows(sides, sides, hit=hit, miss=miss, own=own, other=other, n_classes=n_classes)


# Drawn rows for each sample, and the most in all.
_DRAWN, _MOST_DRAWN = 10, 200_000


def rows_of_drawn_pairs(y: NDArray[np.integer], *, n_classes: int, rng: np.random.Generator) -> Rows:
    """Rows of one sample each: an anchor, another sample of its class, and one of another class, all at random.

    Averages over whole classes say nothing of how far the distances of single pairs lie from their mean; these do.
    """
    order = np.argsort(y, kind="stable")
    sizes = np.bincount(y, minlength=n_classes)
    first = np.cumsum(sizes) - sizes
    n_rows = min(_DRAWN * len(y), _MOST_DRAWN)
    anchor = rng.integers(len(y), size=n_rows) if n_rows < _DRAWN * len(y) else np.repeat(np.arange(len(y)), _DRAWN)
    other = (y[anchor] + rng.integers(1, n_classes, size=n_rows)) % n_classes
    there = (sizes[y[anchor]] > 1) & (sizes[other] > 0)
    anchor, other = anchor[there], other[there]

    def member(classes: NDArray[np.integer]) -> NDArray[np.integer]:
        return order[first[classes] + rng.integers(sizes[classes])]

    hit, miss = member(y[anchor]), member(other)
    kept = hit != anchor
    return rows_from_triplets(len(y), anchor[kept], hit[kept], miss[kept])


def rows_from_neighbourhoods(near: Neighbourhoods, y: NDArray[np.integer], *, triplets: str, n_classes: int) -> Rows:
    """``triplets="mean"``: a row per (sample, other class); ``"all"``: one per hit and miss of each."""
    n = len(y)
    everyone = np.arange(n, dtype=np.int32)
    if triplets == "mean":
        hits = PairSides(everyone, near.hits, n)
        misses = PairSides(near.anchors, near.misses, n)
        hit, miss = near.anchors, np.arange(len(misses), dtype=np.int32)
        other = near.others
    else:
        hits, hit_number = single_sides(everyone, near.hits, n)
        misses, miss_number = single_sides(near.anchors, near.misses, n)
        # Every hit of the anchor with every miss of the (anchor, class), as numbers of single-pair sides.
        hit_grid = np.repeat(hit_number[near.anchors], near.misses.shape[1], axis=1)
        miss_grid = np.tile(miss_number, near.hits.shape[1])
        there = (hit_grid >= 0) & (miss_grid >= 0)
        hit, miss = hit_grid[there], miss_grid[there]
        other = np.repeat(near.others, there.sum(axis=1))
    own = y[misses.anchor[miss]].astype(np.int32)
    return Rows(hits, misses, hit, miss, own, other, n_classes)


def rows_from_triplets(
    n: int,
    anchors: NDArray[np.integer],
    positives: NDArray[np.integer],
    negatives: NDArray[np.integer],
    *,
    classes: NDArray[np.integer] | None = None,
) -> Rows:
    """A row per ready-made triplet; equal pairs share a side. ``classes`` (n,) None: all are class 0."""
    hits, hit = _unique_pairs(anchors, positives, n)
    misses, miss = _unique_pairs(anchors, negatives, n)
    of_sample = np.zeros(n, dtype=np.int32) if classes is None else classes.astype(np.int32)
    n_classes = int(of_sample.max()) + 1
    return Rows(hits, misses, hit, miss, own=of_sample[anchors], other=of_sample[negatives], n_classes=n_classes)


def _unique_pairs(anchors: NDArray[np.integer], members: NDArray[np.integer], n: int) -> tuple[PairSides, Indices]:
    key = anchors.astype(np.int64) * n + members
    pairs, number = np.unique(key, return_inverse=True)
    anchor, member = np.divmod(pairs, n)
    return PairSides(anchor.astype(np.int32), member.astype(np.int32)[:, None], n), number.astype(np.int32)
