"""Which stored codes a search may return: by label, by id, and not removed."""

import numpy as np
from numpy.typing import NDArray

from cbid.search.checks import sorted_distinct
from cbid.search.segments import LabelFilter, Segment

__all__ = ["selected"]

# Copying one code out of its block costs about as much as scanning this many for one query.
_SCANS_PER_COPY = 100
_MANY_IDS = 1024  # so many are not sought one by one
_ENTRIES_PER_CODE = 8  # of a table over all ids from the least to the largest one of a segment
_FEW_RANGES = 4  # so many comparisons of whole arrays are quicker than one look-up a code

Kept = list[tuple[Segment, NDArray[np.uint8] | None]]


def selected(
    segments: list[Segment],
    labels: NDArray[np.int64] | None,
    among: NDArray[np.int64] | None,
    n_queries: int,
) -> Kept:
    """Each segment with its keep mask, under a filter by label codes and by ids (in any order).

    Where few codes are left, given the number of queries, they are copied into a small segment of their own.
    """
    if labels is None and among is None:
        return [(segment, segment.keep) for segment in segments]
    chosen: Kept = []
    for segment in segments:
        chosen += (
            _by_label(segment, labels, n_queries) if among is None else _by_id(segment, labels, among, n_queries)
        )
    return chosen


def _by_label(segment: Segment, labels: NDArray[np.int64] | None, n_queries: int) -> Kept:
    assert labels is not None
    assert segment.labels is not None
    key, last, n_live = labels.tobytes(), segment.last_filter, segment.n_live
    if last is None or (last.labels, last.n_live) != (key, n_live):
        keep = _mask(segment.labels, labels)
        if segment.keep is not None:
            keep &= segment.keep
        last = LabelFilter(key, n_live, keep, int(np.count_nonzero(keep.view(bool))))
        segment.last_filter = last
    if _worth_a_copy(last.n_kept, segment, n_queries):
        return _copied(segment, np.flatnonzero(last.keep.view(bool)))
    return [(segment, last.keep)]


def _by_id(segment: Segment, labels: NDArray[np.int64] | None, among: NDArray[np.int64], n_queries: int) -> Kept:
    keep = _mask_of_ids(segment, among) if len(among) >= _MANY_IDS else None
    if keep is None:
        positions = segment.positions_of(sorted_distinct(among))[1]  # live ones only
        if labels is not None:
            assert segment.labels is not None
            positions = positions[np.isin(segment.labels[positions], labels)]
        if _worth_a_copy(len(positions), segment, n_queries):
            return _copied(segment, positions)
        keep = np.zeros(len(segment), dtype=np.uint8)
        keep[positions] = 1
        return [(segment, keep)]
    if segment.keep is not None:
        keep &= segment.keep
    if labels is not None:
        assert segment.labels is not None
        keep &= _mask(segment.labels, labels)
    if _worth_a_copy(int(np.count_nonzero(keep.view(bool))), segment, n_queries):
        return _copied(segment, np.flatnonzero(keep.view(bool)))
    return [(segment, keep)]


def _mask_of_ids(segment: Segment, among: NDArray[np.int64]) -> NDArray[np.uint8] | None:
    """1 where an id is one of ``among``, in one pass over each; None where no way to do that is at hand."""
    from cbid.search.kernels.masks import mark_ids, mask_by_ids, mask_by_merging

    ends = np.append(segment.runs[1:, 0], len(segment)) - 1
    first, last = int(segment.ids[segment.runs[:, 0]].min()), int(segment.ids[ends].max())
    size, one_run = last - first + 1, len(segment.runs) == 1
    if size <= _ENTRIES_PER_CODE * len(segment):
        table = np.zeros(size, dtype=np.uint8)
        mark_ids(_read_only(among), first, table)
        # One run without gaps, as when the index gave the ids itself: position and place in the table are the same.
        return table if one_run and size == len(segment) else mask_by_ids(_read_only(segment.ids), first, table)
    if one_run:
        return mask_by_merging(_read_only(segment.ids), _read_only(sorted_distinct(among)))
    return None


def _read_only(array: NDArray[np.int64]) -> NDArray[np.int64]:
    view = array.view()
    view.flags.writeable = False  # one type for arrays in memory and mapped ones
    return view


def _worth_a_copy(n_kept: int, segment: Segment, n_queries: int) -> bool:
    return n_kept * _SCANS_PER_COPY < len(segment) * n_queries


def _copied(segment: Segment, positions: NDArray[np.int64]) -> Kept:
    if len(positions) == 0:
        return []
    by_class = bool(segment.runs[0, 2] >= 0)
    return [(Segment.build(segment.rows(positions), by_class=by_class), None)]


def _mask(labels: NDArray[np.unsignedinteger], wanted: NDArray[np.int64]) -> NDArray[np.uint8]:
    """1 where a label code is one of ``wanted``."""
    largest = np.iinfo(labels.dtype).max
    wanted = np.unique(wanted[wanted <= largest])  # a code past the type of this segment is not in it
    breaks = np.flatnonzero(np.diff(wanted) > 1) + 1
    ranges = [(int(part[0]), int(part[-1])) for part in np.split(wanted, breaks) if len(part)]
    if len(ranges) <= _FEW_RANGES:
        keep = np.zeros(len(labels), dtype=bool) if not ranges else _within(labels, *ranges[0])
        for first, last in ranges[1:]:
            keep |= _within(labels, first, last)
        return keep.view(np.uint8)
    # Imported here, as numba's compiled code is at the first scan.
    from cbid.search.kernels.masks import mask_by_table

    table = np.zeros(max(int(wanted[-1]), int(labels.max())) + 1, dtype=np.uint8)
    table[wanted] = 1
    view = labels.view()
    view.flags.writeable = False  # one type for arrays in memory and mapped ones
    return mask_by_table(view, table)


def _within(labels: NDArray[np.unsignedinteger], first: int, last: int) -> NDArray[np.bool_]:
    if first == last:
        return labels == first
    if first == 0:
        return labels <= last
    return (labels - labels.dtype.type(first)) <= last - first  # what is below wraps around to the top
