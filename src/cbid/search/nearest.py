"""One search over many segments and runs: the k best so far, which also bound what is still worth finding."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.search import scan
from cbid.search.segments import ANY, Segment

__all__ = ["Best", "search_all", "search_cells", "search_within"]

# The query side for the kernels, of the queries in `rows` (all when None), with the weights of a class of the
# stored item (ANY: one weight vector for all).
QueriesOf = Callable[[NDArray[np.int64] | None, int], Any]


class Best:
    """The k nearest found so far of each of q queries, by (distance, id); missing: id -1, distance inf."""

    def __init__(self, n_queries: int, k: int) -> None:
        self.ids = np.full((n_queries, k), -1, dtype=np.int64)
        self.distances = np.full((n_queries, k), np.inf, dtype=np.float32)
        self.labels = np.full((n_queries, k), -1, dtype=np.int64)

    def offer(
        self,
        rows: NDArray[np.int64] | None,
        segment: Segment,
        positions: NDArray[np.int64],
        distances: NDArray[np.float32],
    ) -> None:
        """Merge what one scan found for the queries in ``rows`` (all when None)."""
        found = positions[:, 0] >= 0
        if not found.any():
            return
        rows = np.flatnonzero(found) if rows is None else rows[found]
        positions, distances = positions[found], distances[found]
        missing = positions < 0
        ids = segment.ids[positions]
        ids[missing] = -1
        labels = (
            np.full(positions.shape, -1)
            if segment.labels is None
            else segment.labels[positions].astype(np.int64)
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

    def bound(self, rows: NDArray[np.int64] | None) -> NDArray[np.float32]:
        """Distances beyond which nothing is wanted: those of the k-th best."""
        last = self.distances[:, -1]
        return np.ascontiguousarray(last if rows is None else last[rows])


def search_all(
    best: Best,
    segments: list[tuple[Segment, NDArray[np.uint8] | None]],
    queries_of: QueriesOf,
    *,
    cell: int | None = None,
    rows: NDArray[np.int64] | None = None,
    n_threads: int | None,
) -> None:
    """Scan every run of ``segments`` (each with its keep mask), or only the runs of one cell."""
    for segment, keep in segments:
        for start, end, _, label in segment.spans() if cell is None else segment.spans_of(cell):
            k = min(best.ids.shape[1], end - start)
            queries = queries_of(rows, label)
            positions, distances = scan.topk(
                segment.blocks,
                end,
                queries,
                k,
                start=start,
                keep=None if keep is None else keep[:end],
                bound=best.bound(rows),
                n_threads=n_threads,
            )
            best.offer(rows, segment, positions, distances)


def search_cells(
    best: Best,
    segments: list[tuple[Segment, NDArray[np.uint8] | None]],
    queries_of: QueriesOf,
    probes: NDArray[np.int64],
    *,
    n_threads: int | None,
) -> None:
    """Scan the cells of ``probes`` (q, p), each once for all that probe it, and what has no cell yet."""
    search_all(best, segments, queries_of, cell=ANY, n_threads=n_threads)
    if probes.size == 0:
        return
    # Cells that are someone's nearest come first: their codes make the bounds tight for the rest.
    cells, first = np.unique(probes.T, return_index=True)
    by_cell = np.argsort(probes, axis=None, kind="stable")
    edges = np.append(np.searchsorted(probes.reshape(-1)[by_cell], cells), probes.size)
    asking = by_cell // probes.shape[1]
    for c in np.argsort(first):
        rows = asking[edges[c] : edges[c + 1]]
        search_all(best, segments, queries_of, cell=int(cells[c]), rows=rows, n_threads=n_threads)


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
        for start, end, _, label in segment.spans():
            offsets, positions, distances = scan.within(
                segment.blocks,
                end,
                queries_of(None, label),
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
