"""Rows from graded similarity: label sets, and pairs that someone has judged (docs/labels.md).

A sample (the anchor) is compared with others of known similarity in [0, 1]. Those of about the same similarity form
one side; a row asks that a side of higher similarity is nearer than one of lower similarity. A row with the full
difference 1, which is all that classes have, requires the margin 0 like any row of classes; less difference requires
less: ``UNIT`` (difference - 1).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from cbid.learning.rows import Rows
from cbid.learning.sides import PairSides

__all__ = ["TREE_UNIT", "UNIT", "LabelSimilarity", "label_weights", "rows_from_label_sets", "rows_from_pairs"]

Indices = NDArray[np.int64]

# By how much the required margin falls from the full difference of similarity to none; chosen on validation parts.
UNIT = 4.0
TREE_UNIT = 3.0  # the same for classes in a tree
# For each anchor: labels whose samples it is compared with (its own and others), and samples of each.
_OWN_LABELS, _OTHER_LABELS, _MEMBERS = 4, 8, 32
# Most anchors: pairs, and with them memory, are bounded by their product with the numbers above.
_ANCHORS = 10_000
# Edges between the levels of similarity; level 0 shares no label, the last one has the same labels.
_EDGES = np.array([1e-9, 0.25, 0.5, 0.75, 0.999])
# Grades of pairs: most levels, and dissimilar samples to a side; benchmarks/label_kinds.py chose the latter.
_GRADES, _SIDE = 8, 1
_BLOCK = 512


def label_weights(labels: csr_matrix) -> NDArray[np.float64]:
    """Return the weight of each label (k,) by its rarity: log(1 + n / samples with the label)."""
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    return np.log1p(labels.shape[0] / np.maximum(counts, 1))


class LabelSimilarity:
    """Weighted Jaccard similarity of samples by their labels (n, k): weight of the shared labels over that of all.

    It is 0 or 1 for samples with one label each, and 0 for two samples without labels.
    """

    def __init__(self, labels: csr_matrix) -> None:
        self.labels = csr_matrix(labels, dtype=np.float64)
        self._weighted = csr_matrix(self.labels.multiply(label_weights(labels)))
        self._total = np.asarray(self._weighted.sum(axis=1)).ravel()

    def __call__(self, left: Indices, right: Indices) -> NDArray[np.float64]:
        """Return the similarity of each pair."""
        shared = np.asarray(self.labels[left].multiply(self._weighted[right]).sum(axis=1)).ravel()
        union = self._total[left] + self._total[right] - shared
        return shared / np.where(union > 0, union, 1.0)

    def to(self, others: Indices) -> NDArray[np.float64]:
        """Return the similarity of every sample to each of some, (n, m)."""
        shared: NDArray[np.float64] = (self._weighted @ self.labels[others].T).toarray()
        union = self._total[:, None] + self._total[others] - shared
        return np.divide(shared, union, out=shared, where=union > 0)


def rows_from_label_sets(labels: csr_matrix, *, max_rows: int, rng: np.random.Generator) -> Rows:
    """Rows about samples with several labels, (n, k) of 0 and 1, each with at least one label.

    An anchor meets random samples of its own labels and of other labels. Samples that share labels with it form one
    side for each level of similarity; those that share none form one for each label that they were drawn for, so that
    every other label is compared by itself, however rare.
    """
    similarity_of = LabelSimilarity(labels)
    n = labels.shape[0]
    by_label = labels.tocsc()
    anchors = np.sort(rng.choice(n, size=min(n, _ANCHORS), replace=False))
    found: list[tuple[NDArray[np.generic], ...]] = []
    for start in range(0, len(anchors), _BLOCK):
        block = anchors[start : start + _BLOCK]
        place = _places(labels[block].toarray() > 0, rng)  # (anchors, places), label numbers or -1
        first, last = by_label.indptr[place], by_label.indptr[place + 1]
        draw = first[..., None] + (rng.random((*place.shape, _MEMBERS)) * (last - first)[..., None]).astype(np.int64)
        there = np.broadcast_to((place >= 0)[..., None], draw.shape)
        i = np.broadcast_to(block[:, None, None], draw.shape)[there]
        j = by_label.indices[draw[there]].astype(np.int64)
        number = np.broadcast_to(np.arange(place.shape[1])[:, None], draw.shape)[there]
        other = i != j
        i, j, number = i[other], j[other], number[other]
        found.append((i, j, similarity_of(i, j), number))
    i, j, similarity, number = (np.concatenate(part) for part in zip(*found))
    level = np.digitize(similarity, _EDGES)
    return _graded_rows(n, i, j, similarity, level, np.where(level == 0, number, 0), max_rows, rng)


def _places(own: NDArray[np.bool_], rng: np.random.Generator) -> Indices:
    """Return random labels for each row of ``own`` (m, k): a few of its own, and a few others; -1 for none."""
    chosen = []
    for mask, count in ((own, _OWN_LABELS), (~own, _OTHER_LABELS)):
        keys = np.where(mask, rng.random(mask.shape), 2.0)
        order = np.argsort(keys, axis=1)[:, :count]
        chosen.append(np.where(np.take_along_axis(keys, order, axis=1) < 2, order, -1))
    return np.concatenate(chosen, axis=1)


def rows_from_pairs(
    n: int,
    left: Indices,
    right: Indices,
    similarity: NDArray[np.float64],
    *,
    max_rows: int,
    rng: np.random.Generator,
) -> Rows:
    """Rows from pairs of samples and their similarity in [0, 1]; each sample of a pair is an anchor.

    Up to eight different grades are kept; more are put into eight levels of about the same number of pairs.
    """
    grades = np.unique(similarity)
    if len(grades) > _GRADES:
        grades = np.unique(np.quantile(similarity, np.arange(_GRADES) / _GRADES))
    level = np.digitize(similarity, grades[1:])
    anchor, member = np.concatenate([left, right]), np.concatenate([right, left])
    level, similarity = np.tile(level, 2), np.tile(similarity, 2)
    # Least similar samples come in small sides of random members: their mean alone would be too easy to exceed.
    order = np.lexsort((rng.random(len(anchor)), level, anchor))
    place = np.empty(len(order), dtype=np.int64)
    starts = np.flatnonzero(np.diff(anchor[order], prepend=-1))
    place[order] = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    return _graded_rows(n, anchor, member, similarity, level, np.where(level == 0, place // _SIDE, 0), max_rows, rng)


def _graded_rows(
    n: int,
    anchor: Indices,
    member: Indices,
    similarity: NDArray[np.float64],
    level: NDArray[np.integer],
    place: Indices,
    max_rows: int,
    rng: np.random.Generator,
) -> Rows:
    """Rows between all sides of an anchor that differ in level; pairs of one anchor, level and place are one side."""
    order = np.lexsort((place, level, anchor))
    anchor, member, place = anchor[order], member[order], place[order]
    similarity, level = similarity[order], level[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(anchor) != 0) | (np.diff(level) != 0) | (np.diff(place) != 0)
    starts = np.flatnonzero(new)
    sides = PairSides.ragged(anchor[starts], member, np.append(starts, len(order)), n)
    mean = np.add.reduceat(similarity, starts) / np.diff(starts, append=len(order))
    # Sides are sorted by anchor and level, so the sides of higher level of the same anchor follow one another.
    side_anchor, side_level = anchor[starts], level[starts]
    next_level = _ends(side_anchor * (int(level.max(initial=0)) + 1) + side_level)
    count = _ends(side_anchor) - next_level
    total = int(count.sum())
    row = np.arange(total) if total <= max_rows else np.sort(rng.choice(total, size=max_rows, replace=False))
    before = np.cumsum(count) - count
    miss = np.searchsorted(before + count, row, side="right")
    hit = next_level[miss] + row - before[miss]
    none = np.zeros(len(row), dtype=np.int32)
    required = UNIT * (mean[hit] - mean[miss] - 1)
    return Rows(sides, sides, hit.astype(np.int32), miss.astype(np.int32), none, none, 1, required)


def _ends(key: Indices) -> Indices:
    """For each entry of an ascending key, the place after the last equal one."""
    return np.searchsorted(key, key, side="right")
