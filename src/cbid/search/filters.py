"""Which stored codes a search may return: by label, by id, and not removed."""

import numpy as np
from numpy.typing import NDArray

from cbid.search.segments import Segment

__all__ = ["selected"]

# Copying one code out of its block costs about as much as scanning this many for one query.
_SCANS_PER_COPY = 100
_FEW_LABELS = 4  # so many comparisons are quicker than one table look-up


def selected(
    segments: list[Segment],
    labels: NDArray[np.int64] | None,
    among: NDArray[np.int64] | None,
    n_queries: int,
) -> list[tuple[Segment, NDArray[np.uint8] | None]]:
    """Each segment with its keep mask, under a filter by label codes and by ids (sorted, distinct).

    Where few codes are left, given the number of queries, they are copied into a small segment of their own.
    """
    if labels is None and among is None:
        return [(segment, segment.keep) for segment in segments]
    chosen: list[tuple[Segment, NDArray[np.uint8] | None]] = []
    for segment in segments:
        keep, n_kept = _mask(segment, labels, among)
        if n_kept == 0:
            continue
        if n_kept * _SCANS_PER_COPY < len(segment) * n_queries:
            by_class = bool(segment.runs[0, 2] >= 0)
            chosen.append((Segment.build(segment.rows(np.flatnonzero(keep)), by_class=by_class), None))
        else:
            chosen.append((segment, keep))
    return chosen


def _mask(
    segment: Segment, labels: NDArray[np.int64] | None, among: NDArray[np.int64] | None
) -> tuple[NDArray[np.uint8], int]:
    """The keep mask, and how many it keeps."""
    if among is not None:
        positions = segment.positions_of(among)[1]  # live ones only
        if labels is not None:
            assert segment.labels is not None
            positions = positions[np.isin(segment.labels[positions], labels)]
        keep = np.zeros(len(segment), dtype=np.uint8)
        keep[positions] = 1
        return keep, len(positions)
    assert labels is not None
    assert segment.labels is not None
    if len(labels) <= _FEW_LABELS:
        keep = np.zeros(len(segment), dtype=np.uint8)
        for label in labels:
            keep |= segment.labels == label
    else:
        table = np.zeros(max(int(labels.max()), int(segment.labels.max())) + 1, dtype=np.uint8)
        table[labels] = 1
        keep = table[segment.labels]
    if segment.keep is not None:
        keep &= segment.keep
    return keep, int(np.count_nonzero(keep))
