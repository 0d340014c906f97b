"""A segment: immutable codes in blocks for the kernels, with their ids, labels and removals.

Kernels break ties by position, the index by id. So a segment consists of *runs*, each scanned separately and
sorted by id: one run for all codes under a single weight vector, one per class of the stored code if each class
has its own weights, one per cell (and class) with IVF.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.search.blocks import from_blocks, to_blocks
from cbid.search.vocabulary import narrow

if TYPE_CHECKING:
    from cbid.search.buckets import BucketTables, SearchClock

ANY = -1  # the cell of codes that have none; the class of a run of mixed classes

_NO_ROWS = np.empty(0, dtype=np.int64)


def random_keys(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a fixed pseudo-random number for each integer (the finaliser of SplitMix64)."""
    keys = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


class CodeRows(NamedTuple):
    """Codes as rows, before or after they are in a segment.

    Either all codes of an index have labels or none; either all rows of one ``CodeRows`` have cells or none.
    """

    codes: NDArray[np.uint8]  # (n, n_bytes)
    ids: NDArray[np.int64]  # (n,)
    labels: NDArray[np.integer] | None = None  # (n,) label codes
    cells: NDArray[np.integer] | None = None  # (n,)

    @classmethod
    def joined(cls, parts: "list[CodeRows]") -> "CodeRows":
        """Concatenate rows."""

        def join(arrays: list[NDArray[np.integer] | None]) -> NDArray[np.integer] | None:
            present = [array for array in arrays if array is not None]
            return np.concatenate(present) if present else None

        return cls(
            np.concatenate([part.codes for part in parts]),
            np.concatenate([part.ids for part in parts]),
            join([part.labels for part in parts]),
            join([part.cells for part in parts]),
        )


class LabelFilter(NamedTuple):
    """The mask of the last filter by label, kept because consecutive searches often have the same filter."""

    labels: bytes
    n_live: int  # decreases with every removal, so it shows whether the mask is still valid
    keep: NDArray[np.uint8]
    n_kept: int


class Thinned(NamedTuple):
    """A random subset of a segment as its own segment, kept because its rows are the same in every search."""

    segment: "Segment | None"  # None if it is empty
    positions: NDArray[np.int64]  # of its rows in the whole segment

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.positions.nbytes + (0 if self.segment is None else self.segment.nbytes)


@dataclass(eq=False)
class Segment:
    """Codes in blocks of 32, sorted by id within each run; only ``keep`` changes (0 = removed)."""

    blocks: NDArray[np.uint8]  # (ceil(n/32), n_bytes, 32)
    ids: NDArray[np.int64]  # (n,)
    labels: NDArray[np.unsignedinteger] | None  # (n,)
    runs: NDArray[np.int64]  # (r, 3): first position, cell, class; sorted by cell, then class
    keep: NDArray[np.uint8] | None = None  # (n,), None until the first removal
    n_live: int = field(default=-1)
    stored_as: str | None = None  # name in the store, None until it is written
    keep_stored: bool = True  # whether the store has every removal
    last_filter: "LabelFilter | None" = field(default=None, repr=False)
    tables: "BucketTables | None" = field(default=None, repr=False)  # built when a search needs them
    clock: "SearchClock | None" = field(default=None, repr=False)
    subsets: dict[int, Thinned] = field(default_factory=dict, repr=False)  # by the number of halvings

    def __post_init__(self) -> None:
        if self.n_live < 0:
            self.n_live = len(self.ids) if self.keep is None else int(np.count_nonzero(self.keep))

    @classmethod
    def build(cls, rows: CodeRows, *, by_class: bool) -> "Segment":
        """Sort rows by (cell, class, id) and store them in blocks."""
        codes, ids, labels, cells = rows
        classes = labels if by_class else None
        keys = [key for key in (ids, classes, cells) if key is not None]
        if len(keys) > 1 or np.any(ids[1:] < ids[:-1]):
            order = np.lexsort(keys)
            codes, ids = codes[order], ids[order]
            labels, classes, cells = (None if key is None else key[order] for key in (labels, classes, cells))
        changes = np.zeros(max(len(ids) - 1, 0), dtype=bool)
        for key in (classes, cells):
            if key is not None:
                changes |= key[1:] != key[:-1]
        starts = np.concatenate([[0], np.flatnonzero(changes) + 1]).astype(np.int64)
        unsplit = np.full(len(starts), ANY)
        run_cells, run_classes = (unsplit if key is None else key[starts] for key in (cells, classes))
        return cls(
            to_blocks(codes),
            ids.copy() if ids is rows.ids else ids,  # the caller may change its array later
            None if labels is None else narrow(labels),
            np.stack([starts, run_cells, run_classes], axis=1).astype(np.int64),
        )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, and of the tables of buckets once they are built."""
        filtered = None if self.last_filter is None else self.last_filter.keep
        arrays = (self.blocks, self.ids, self.labels, self.runs, self.keep, filtered)
        tables = 0 if self.tables is None else self.tables.nbytes
        subsets = sum(subset.nbytes for subset in list(self.subsets.values()))
        return tables + subsets + sum(array.nbytes for array in arrays if array is not None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "tables": None, "subsets": {}}  # a copy builds its own when it needs them

    def spans(self) -> list[tuple[int, int, int, int]]:
        """Return the runs as (first position, end, cell, class)."""
        ends = [*self.runs[1:, 0].tolist(), len(self)]
        return [(start, end, cell, label) for (start, cell, label), end in zip(self.runs.tolist(), ends)]

    def spans_across_cells(self) -> list[tuple[int, int, int]]:
        """Return (first position, end, class) of adjacent runs of one class, which together are not sorted by id."""
        first = np.concatenate([[True], self.runs[1:, 2] != self.runs[:-1, 2]])
        starts, classes = self.runs[first, 0].tolist(), self.runs[first, 2].tolist()
        return list(zip(starts, [*starts[1:], len(self)], classes))

    def positions_of(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find ``ids`` (sorted, distinct) that are not removed: (places in ``ids``, positions in this segment).

        There is no table of all ids. Each run is sorted, so the overlap of a run with ``ids`` is found by bisecting
        the shorter into the longer.
        """
        places, positions = [_NO_ROWS], [_NO_ROWS]
        for start, end, _, _ in self.spans():
            first = np.searchsorted(ids, self.ids[start])
            last = np.searchsorted(ids, self.ids[end - 1], side="right")
            if first >= last:
                continue
            run, wanted = self.ids[start:end], ids[first:last]
            if run[-1] - run[0] == len(run) - 1:  # no gaps, as when the index assigned the ids
                place, position = np.arange(len(wanted)), wanted - run[0]
            elif len(wanted) <= len(run):
                at = np.searchsorted(run, wanted)
                hit = run[np.minimum(at, len(run) - 1)] == wanted
                place, position = np.flatnonzero(hit), at[hit]
            else:
                at = np.searchsorted(wanted, run)
                hit = wanted[np.minimum(at, len(wanted) - 1)] == run
                place, position = at[hit], np.flatnonzero(hit)
            places.append(place + first)
            positions.append(position + start)
        place, position = np.concatenate(places), np.concatenate(positions)
        if self.keep is not None:
            live = self.keep[position] != 0
            place, position = place[live], position[live]
        return place, position

    def remove(self, positions: NDArray[np.int64]) -> None:
        """Mark positions (live, distinct) as removed."""
        if len(positions) == 0:
            return
        if self.keep is None:
            self.keep = np.ones(len(self), dtype=np.uint8)
        self.keep[positions] = 0
        self.n_live -= len(positions)
        self.keep_stored = False

    def thinned(self, halvings: int) -> "Segment | None":
        """Return a random subset of about 1 / 2**halvings of the codes, or None if it is empty.

        It is drawn by a fixed function of the ids: it depends neither on the order of the codes nor on the labels.
        """
        subset = self.subsets.get(halvings)
        if subset is None:
            positions = np.flatnonzero(random_keys(self.ids) >> np.uint64(64 - halvings) == 0)
            built = None
            if len(positions):  # in the order of the positions, which are sorted in the same way
                built = Segment.build(self.rows(positions), by_class=bool(self.runs[0, 2] != ANY))
            subset = self.subsets[halvings] = Thinned(built, positions)
        segment, keep = subset.segment, self.keep
        if segment is None or keep is None:
            return segment
        return replace(segment, keep=keep[subset.positions], n_live=-1)

    def cells_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cells of the codes at ``positions``; ANY for codes that have none."""
        return self.runs[np.searchsorted(self.runs[:, 0], positions, side="right") - 1, 1]

    def live(self) -> NDArray[np.int64]:
        """Return the positions that are not removed."""
        return np.arange(len(self)) if self.keep is None else np.flatnonzero(self.keep)

    def rows(self, positions: NDArray[np.int64] | None = None) -> CodeRows:
        """Return the codes at ``positions`` (by default all that are not removed) as rows, with their cells."""
        if positions is None:
            positions = self.live()
        codes = from_blocks(self.blocks, len(self) if len(positions) == len(self) else positions)
        labels = None if self.labels is None else self.labels[positions]
        cells = None if self.runs[0, 1] == ANY else self.cells_at(positions)
        return CodeRows(codes, self.ids[positions], labels, cells)
