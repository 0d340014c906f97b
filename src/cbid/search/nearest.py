"""One search over many segments and runs: the k best so far, which also bound what is still worth finding."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cbid.search import scan
from cbid.search.queries import Queries
from cbid.search.segments import ANY, Segment
from cbid.search.spans import topk_in_spans

__all__ = ["Best", "search_all", "search_cells", "search_within"]

# The query side for the kernels, with the weights of a class of the stored item (ANY: one vector for all).
QueriesOf = Callable[[int], Queries]


class Best:
    """The k nearest found so far of each of q queries, by (distance, id); missing: id -1, distance inf."""

    def __init__(self, n_queries: int, k: int) -> None:
        self.ids = np.full((n_queries, k), -1, dtype=np.int64)
        self.distances = np.full((n_queries, k), np.inf, dtype=np.float32)
        self.labels = np.full((n_queries, k), -1, dtype=np.int64)

    def offer(self, segment: Segment, positions: NDArray[np.int64], distances: NDArray[np.float32]) -> None:
        """Merge what one scan found, (q, up to k)."""
        found = positions[:, 0] >= 0
        if not found.any():
            return
        rows = np.flatnonzero(found)
        positions, distances = positions[found], distances[found]
        missing = positions < 0
        ids = segment.ids[positions]
        ids[missing] = -1
        labels = (
            np.full(positions.shape, -1) if segment.labels is None else segment.labels[positions].astype(np.int64)
        )
        labels[missing] = -1
        k = self.ids.shape[1]
        if ids.shape == self.ids.shape and np.isinf(self.distances[:, 0]).all():
            self.ids, self.distances, self.labels = (
                ids,
                distances,
                labels,
            )  # the first scan: nothing to merge with
            return
        ids = np.concatenate([self.ids[rows], ids], axis=1)
        distances = np.concatenate([self.distances[rows], distances], axis=1)
        labels = np.concatenate([self.labels[rows], labels], axis=1)
        order = np.lexsort((ids, distances), axis=1)[:, :k]
        self.ids[rows] = np.take_along_axis(ids, order, axis=1)
        self.distances[rows] = np.take_along_axis(distances, order, axis=1)
        self.labels[rows] = np.take_along_axis(labels, order, axis=1)

    def bound(self) -> NDArray[np.float32]:
        """Distances beyond which nothing is wanted: those of the k-th best."""
        return np.ascontiguousarray(self.distances[:, -1])


def search_all(
    best: Best,
    segments: list[tuple[Segment, NDArray[np.uint8] | None]],
    queries_of: QueriesOf,
    *,
    n_threads: int | None,
) -> None:
    """Scan every run of ``segments`` (each with its keep mask)."""
    k = best.ids.shape[1]
    for segment, keep in segments:
        for start, end, _, label in segment.spans():
            positions, distances = scan.topk(
                segment.blocks,
                end,
                queries_of(label),
                min(k, end - start),
                start=start,
                keep=None if keep is None else keep[:end],
                bound=best.bound(),
                n_threads=n_threads,
            )
            best.offer(segment, positions, distances)


def search_cells(
    best: Best,
    segments: list[tuple[Segment, NDArray[np.uint8] | None]],
    queries_of: QueriesOf,
    probes: NDArray[np.int64] | None,
    *,
    n_threads: int | None,
) -> None:
    """Scan, for each query, its cells of ``probes`` (q, p), or all when None, and what has no cell yet."""
    n_queries, k = best.ids.shape
    for segment, keep in segments:
        if segment.runs[0, 1] == ANY:
            search_all(best, [(segment, keep)], queries_of, n_threads=n_threads)
            continue
        for label in np.unique(segment.runs[:, 2]).tolist():
            spans, edges = _all_spans(segment, label, n_queries) if probes is None else _spans(segment, label, probes)
            positions, distances = topk_in_spans(
                segment.blocks,
                segment.ids,
                queries_of(label),
                k,
                spans,
                edges,
                keep=keep,
                bound=best.bound(),
                n_threads=n_threads,
            )
            best.offer(segment, positions, distances)


def _spans(segment: Segment, label: int, probes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Spans (s, 2) of one class in the probed cells (q, p); those of query i: edges[i] to edges[i + 1]."""
    ends = np.append(segment.runs[1:, 0], len(segment))
    of_label = np.flatnonzero(segment.runs[:, 2] == label)
    cells = segment.runs[of_label, 1]  # ascending
    at = np.minimum(np.searchsorted(cells, probes), len(cells) - 1)
    there = cells[at] == probes  # not every cell has codes in every segment
    run = of_label[at[there]]
    edges = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return np.stack([segment.runs[run, 0], ends[run]], axis=1), edges


def _all_spans(segment: Segment, label: int, n_queries: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same for queries that look at everything."""
    spans = [(start, end) for start, end, of in segment.spans_across_cells() if of == label]
    return np.tile(np.array(spans, dtype=np.int64), (n_queries, 1)), np.arange(n_queries + 1) * len(spans)


def search_within(
    segments: list[tuple[Segment, NDArray[np.uint8] | None]],
    queries_of: QueriesOf,
    n_queries: int,
    radius: np.float32,
    *,
    n_threads: int | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """All codes within ``radius``: offsets (q + 1,); ids, distances, label codes by (query, distance, id)."""
    rows, ids, near, labels = ([np.empty(0, dtype)] for dtype in (np.int64, np.int64, np.float32, np.int64))
    for segment, keep in segments:
        for start, end, label in segment.spans_across_cells():
            offsets, positions, distances = scan.within(
                segment.blocks,
                end,
                queries_of(label),
                radius,
                start=start,
                keep=None if keep is None else keep[:end],
                n_threads=n_threads,
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
