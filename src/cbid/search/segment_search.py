"""One search over many segments: which codes it may return, the k best so far, and codes within a radius."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cbid.search.blocks import read_only
from cbid.search.buckets import nearest, within_radius
from cbid.search.checks import sorted_distinct
from cbid.search.queries import Queries
from cbid.search.scan import topk_in_spans
from cbid.search.segments import ANY, LabelFilter, Segment

Filtered = list[tuple[Segment, NDArray[np.uint8] | None]]  # segments, each with its keep mask
QueriesFor = Callable[[int], Queries]  # the queries with the weights of a class (ANY: one vector for all classes)

# Copying one code out of its block costs about as much as scanning this many for one query.
_SCANS_PER_COPY = 100
_MANY_IDS = 1024  # from this many on, ids are not searched one by one
_ENTRIES_PER_CODE = 8  # largest table from the smallest to the largest id of a segment
_FEW_RANGES = 4  # up to this many, comparing whole arrays is faster than one lookup per code


# ---- which codes: by label, by id, and not removed ----


def filtered(
    segments: list[Segment],
    labels: NDArray[np.int64] | None,
    among: NDArray[np.int64] | None,
    n_queries: int,
) -> Filtered:
    """Return each segment with its keep mask, filtered by label codes and by ids (in any order).

    If few codes remain, relative to the number of queries, they are copied into a small segment.
    """
    if labels is None and among is None:
        return [(segment, segment.keep) for segment in segments]
    kept: Filtered = []
    for segment in segments:
        if among is not None:
            kept += _by_id(segment, labels, among, n_queries)
        elif labels is not None:
            kept += _by_label(segment, labels, n_queries)
    return kept


def _by_label(segment: Segment, labels: NDArray[np.int64], n_queries: int) -> Filtered:
    assert segment.labels is not None
    key, last, n_live = labels.tobytes(), segment.last_filter, segment.n_live
    if last is None or (last.labels, last.n_live) != (key, n_live):
        keep = _label_mask(segment.labels, labels)
        if segment.keep is not None:
            keep &= segment.keep
        last = LabelFilter(key, n_live, keep, int(np.count_nonzero(keep.view(bool))))
        segment.last_filter = last
    if _worth_a_copy(last.n_kept, segment, n_queries):
        return _copied(segment, np.flatnonzero(last.keep.view(bool)))
    return [(segment, last.keep)]


def _by_id(segment: Segment, labels: NDArray[np.int64] | None, among: NDArray[np.int64], n_queries: int) -> Filtered:
    keep = _id_mask(segment, among) if len(among) >= _MANY_IDS else None
    if keep is None:
        positions = segment.positions_of(sorted_distinct(among))[1]  # not removed
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
        keep &= _label_mask(segment.labels, labels)
    if _worth_a_copy(int(np.count_nonzero(keep.view(bool))), segment, n_queries):
        return _copied(segment, np.flatnonzero(keep.view(bool)))
    return [(segment, keep)]


def _id_mask(segment: Segment, among: NDArray[np.int64]) -> NDArray[np.uint8] | None:
    """1 where an id is in ``among``, in one pass over each; None if a table would be too large."""
    from cbid.search.kernels.filters import mark_ids, mask_by_ids, mask_by_merging

    ends = np.append(segment.runs[1:, 0], len(segment)) - 1
    first, last = int(segment.ids[segment.runs[:, 0]].min()), int(segment.ids[ends].max())
    size, one_run = last - first + 1, len(segment.runs) == 1
    if size <= _ENTRIES_PER_CODE * len(segment):
        table = np.zeros(size, dtype=np.uint8)
        mark_ids(read_only(among), first, table)
        # One run without gaps, as when the index assigned the ids: table and mask are the same.
        return table if one_run and size == len(segment) else mask_by_ids(read_only(segment.ids), first, table)
    if one_run:
        return mask_by_merging(read_only(segment.ids), read_only(sorted_distinct(among)))
    return None


def _label_mask(labels: NDArray[np.unsignedinteger], wanted: NDArray[np.int64]) -> NDArray[np.uint8]:
    """1 where a label code is in ``wanted``."""
    largest = np.iinfo(labels.dtype).max
    wanted = np.unique(wanted[wanted <= largest])  # larger codes do not fit the type of this segment
    breaks = np.flatnonzero(np.diff(wanted) > 1) + 1
    ranges = [(int(part[0]), int(part[-1])) for part in np.split(wanted, breaks) if len(part)]
    if len(ranges) <= _FEW_RANGES:
        keep = np.zeros(len(labels), dtype=bool) if not ranges else _in_range(labels, *ranges[0])
        for first, last in ranges[1:]:
            keep |= _in_range(labels, first, last)
        return keep.view(np.uint8)
    from cbid.search.kernels.filters import mask_by_table

    table = np.zeros(max(int(wanted[-1]), int(labels.max())) + 1, dtype=np.uint8)
    table[wanted] = 1
    return mask_by_table(read_only(labels), table)


def _in_range(labels: NDArray[np.unsignedinteger], first: int, last: int) -> NDArray[np.bool_]:
    if first == last:
        return labels == first
    if first == 0:
        return labels <= last
    return (labels - labels.dtype.type(first)) <= last - first  # smaller ones wrap around to the top


def _worth_a_copy(n_kept: int, segment: Segment, n_queries: int) -> bool:
    return n_kept * _SCANS_PER_COPY < len(segment) * n_queries


def _copied(segment: Segment, positions: NDArray[np.int64]) -> Filtered:
    if len(positions) == 0:
        return []
    by_class = bool(segment.runs[0, 2] >= 0)
    return [(Segment.build(segment.rows(positions), by_class=by_class), None)]


# ---- the k best ----


class Best:
    """The k nearest found so far for each of q queries, by (distance, id); missing: id -1, distance inf."""

    def __init__(self, n_queries: int, k: int) -> None:
        self.ids = np.full((n_queries, k), -1, dtype=np.int64)
        self.distances = np.full((n_queries, k), np.inf, dtype=np.float32)
        self.labels = np.full((n_queries, k), -1, dtype=np.int64)
        self._is_empty = True

    def merge(self, segment: Segment, positions: NDArray[np.int64], distances: NDArray[np.float32]) -> None:
        """Merge the result of one scan, (q, up to k)."""
        missing = positions < 0
        if missing[:, 0].all():
            return
        ids = segment.ids[positions]
        ids[missing] = -1
        labels: NDArray[np.int64] = np.full(positions.shape, -1)
        if segment.labels is not None:
            labels[~missing] = segment.labels[positions[~missing]]
        first, self._is_empty = self._is_empty, False
        if first and ids.shape == self.ids.shape:
            self.ids, self.distances, self.labels = ids, distances, labels
            return
        rows = np.flatnonzero(~missing[:, 0])
        k = self.ids.shape[1]
        ids = np.concatenate([self.ids[rows], ids[rows]], axis=1)
        distances = np.concatenate([self.distances[rows], distances[rows]], axis=1)
        labels = np.concatenate([self.labels[rows], labels[rows]], axis=1)
        order = np.lexsort((ids, distances), axis=1)[:, :k]
        self.ids[rows] = np.take_along_axis(ids, order, axis=1)
        self.distances[rows] = np.take_along_axis(distances, order, axis=1)
        self.labels[rows] = np.take_along_axis(labels, order, axis=1)

    def bound(self) -> NDArray[np.float32]:
        """The distances of the k-th best: farther codes are not needed."""
        return np.ascontiguousarray(self.distances[:, -1])


def search_all(
    best: Best, segments: Filtered, queries_for: QueriesFor, *, method: str = "scan", n_threads: int | None
) -> None:
    """Search every run of ``segments``: ``method`` is "auto", "scan" or "buckets"."""
    k = best.ids.shape[1]
    for segment, keep in segments:
        for start, end, _, label in segment.spans():
            positions, distances = nearest(
                segment,
                start,
                end,
                queries_for(label),
                min(k, end - start),
                keep=keep,
                bound=best.bound(),
                method=method,
                n_threads=n_threads,
            )
            best.merge(segment, positions, distances)


def search_cells(
    best: Best,
    segments: Filtered,
    queries_for: QueriesFor,
    probes: NDArray[np.int64] | None,
    *,
    n_threads: int | None,
) -> None:
    """Scan, for each query, its cells in ``probes`` (q, p), or all if None, and codes that have no cell yet."""
    n_queries, k = best.ids.shape
    for segment, keep in segments:
        if segment.runs[0, 1] == ANY:
            search_all(best, [(segment, keep)], queries_for, n_threads=n_threads)
            continue
        for label in np.unique(segment.runs[:, 2]).tolist():
            if probes is None:
                spans, edges = _all_spans(segment, label, n_queries)
            else:
                spans, edges = _probed_spans(segment, label, probes)
            positions, distances = topk_in_spans(
                segment.blocks,
                segment.ids,
                queries_for(label),
                k,
                spans,
                edges,
                keep=keep,
                bound=best.bound(),
                n_threads=n_threads,
            )
            best.merge(segment, positions, distances)


def _probed_spans(
    segment: Segment, label: int, probes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Spans (s, 2) of one class in the probed cells (q, p); query i has those from edges[i] to edges[i + 1]."""
    ends = np.append(segment.runs[1:, 0], len(segment))
    of_label = np.flatnonzero(segment.runs[:, 2] == label)
    cells = segment.runs[of_label, 1]  # ascending
    at = np.minimum(np.searchsorted(cells, probes), len(cells) - 1)
    present = cells[at] == probes  # not every cell has codes in every segment
    run = of_label[at[present]]
    edges = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    return np.stack([segment.runs[run, 0], ends[run]], axis=1), edges


def _all_spans(segment: Segment, label: int, n_queries: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All spans of one class, for every query."""
    spans = [(start, end) for start, end, of in segment.spans_across_cells() if of == label]
    return np.tile(np.array(spans, dtype=np.int64), (n_queries, 1)), np.arange(n_queries + 1) * len(spans)


# ---- within a radius ----


def search_within(
    segments: Filtered,
    queries_for: QueriesFor,
    n_queries: int,
    radius: np.float32,
    *,
    method: str = "scan",
    n_threads: int | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """All codes within ``radius``: offsets (q + 1,); ids, distances and label codes by (query, distance, id)."""
    rows, ids, near, labels = ([np.empty(0, dtype)] for dtype in (np.int64, np.int64, np.float32, np.int64))
    for segment, keep in segments:
        for start, end, label in segment.spans_across_cells():
            offsets, positions, distances = within_radius(
                segment, start, end, queries_for(label), radius, keep=keep, method=method, n_threads=n_threads
            )
            rows.append(np.repeat(np.arange(n_queries), np.diff(offsets)))
            ids.append(segment.ids[positions])
            near.append(distances)
            if segment.labels is not None:
                labels.append(segment.labels[positions].astype(np.int64))
    row, found_ids, found = np.concatenate(rows), np.concatenate(ids), np.concatenate(near)
    order = np.lexsort((found_ids, found, row))
    offsets = np.searchsorted(row[order], np.arange(n_queries + 1))
    found_labels = np.concatenate(labels)
    return offsets, found_ids[order], found[order], found_labels[order] if len(found_labels) else found_labels
