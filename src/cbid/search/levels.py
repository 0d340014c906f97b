"""The segments of an index: a small tail that takes additions, and sealed segments of geometric sizes.

As in a log-structured merge tree, so that many small additions stay cheap and a search meets O(log n)
segments: each sealed segment is larger than all the smaller ones together. Merging waits until something
reads, so loading in batches moves each code about once.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.search.ivf import Cells
from cbid.search.segments import Rows, Segment

__all__ = ["Levels"]

TAIL = 4096  # rows; as many as a scan passes over in less time than its call takes
MOST_UNMERGED = 64  # sealed segments that may wait for a reader
LARGEST_MERGE = 1 << 26  # codes; past this the copy costs more than one further segment in a search


class Levels:
    """Sealed segments and the tail. Ids are distinct over all of them."""

    def __init__(self, segments: list[Segment], *, by_class: bool, cells: Cells | None) -> None:
        self.by_class = by_class
        self.cells = cells  # once trained, every sealed segment is ordered by cell
        self.sealed = list(segments)
        self._settled = False  # whether nothing has changed since the last merge
        self._tail: list[Rows] = []
        self._tail_ids: set[int] = set()  # bounded by TAIL
        self._tail_segment: Segment | None = None  # the tail as readers see it, until the next addition

    def __len__(self) -> int:
        return sum(segment.n_live for segment in self.sealed) + len(self._tail_ids)

    def add(self, rows: Rows) -> None:
        """Take rows (n > 0) whose ids are new."""
        self._settled = False
        if len(rows.ids) >= TAIL:
            self.sealed.append(self._built([rows]))
        else:
            # The caller's arrays may change later.
            self._tail.append(rows._replace(codes=rows.codes.copy(), ids=rows.ids.copy()))
            self._tail_ids.update(rows.ids.tolist())
            self._tail_segment = None
            if len(self._tail_ids) >= TAIL:
                self.seal()
        if len(self.sealed) > MOST_UNMERGED:
            self.merge()

    def seal(self) -> None:
        """Make the tail a segment."""
        if self._tail:
            self._settled = False
            self.sealed.append(self._view_of_tail() if self.cells is None else self._built(self._tail))
            self._tail, self._tail_ids, self._tail_segment = [], set(), None

    def merge(self) -> None:
        """Restore geometric sizes, and rewrite segments of which more than half was removed."""
        if self._settled:
            return
        self.sealed = [segment for segment in self.sealed if segment.n_live]
        while len(joined := self._crowded()) > 1:
            whole = self._built([segment.rows() for segment in joined])
            self.sealed = [segment for segment in self.sealed if segment not in joined] + [whole]
        self.sealed = [
            self._built([segment.rows()]) if 2 * segment.n_live < len(segment) else segment for segment in self.sealed
        ]
        self._settled = True

    def _crowded(self) -> list[Segment]:
        """The segments to join: the largest that is no larger than the smaller ones together, and these."""
        small = [segment for segment in self.sealed if segment.n_live <= LARGEST_MERGE]
        small.sort(key=lambda segment: -segment.n_live)
        sizes = np.array([segment.n_live for segment in small], dtype=np.int64)
        smaller_together = sizes.sum() - np.cumsum(sizes)
        joins = (sizes <= smaller_together) & (sizes + smaller_together <= LARGEST_MERGE)
        return small[int(np.argmax(joins)) :] if joins.any() else []

    def readable(self) -> list[Segment]:
        """All segments, largest first: the first scan then gives the tightest bound for the rest."""
        self.merge()
        segments = [*self.sealed, self._view_of_tail()] if self._tail else list(self.sealed)
        return sorted(segments, key=lambda segment: -segment.n_live)

    def holding(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of ``ids`` (sorted, distinct) are stored."""
        held = np.zeros(len(ids), dtype=bool)
        for segment in self.sealed:
            held[segment.positions_of(ids)[0]] = True
        if self._tail_ids:
            if len(ids) < TAIL:
                held |= np.fromiter((i in self._tail_ids for i in ids.tolist()), dtype=bool, count=len(ids))
            else:
                held |= np.isin(ids, np.fromiter(self._tail_ids, dtype=np.int64))
        return held

    def remove(self, ids: NDArray[np.int64]) -> None:
        """Remove ids (sorted, distinct, all stored)."""
        self._settled = False
        self.seal()
        for segment in self.sealed:
            segment.remove(segment.positions_of(ids)[1])

    def use_cells(self, cells: Cells) -> None:
        """Order everything by the cells of a trained quantiser."""
        self.seal()
        self.cells = cells
        self.sealed = [
            self._built([segment.rows()._replace(cells=None)]) for segment in self.sealed if segment.n_live
        ]

    def _view_of_tail(self) -> Segment:
        if self._tail_segment is None:
            rows = Rows.joined(self._tail)
            self._tail = [rows]
            self._tail_segment = Segment.build(rows, by_class=self.by_class)
        return self._tail_segment

    def _built(self, parts: list[Rows]) -> Segment:
        if self.cells is not None:
            parts = [
                part if part.cells is not None else part._replace(cells=self.cells.of(part.codes)) for part in parts
            ]
        return Segment.build(Rows.joined(parts), by_class=self.by_class)
