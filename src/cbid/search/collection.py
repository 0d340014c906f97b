"""The codes of an index in memory (or mapped): distinct ids, optional labels, segments of geometric sizes."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import n_bytes, prefix
from cbid.search.blocks import from_blocks
from cbid.search.checks import LARGEST_ID, as_codes, as_ids, check_known, sorted_distinct
from cbid.search.ivf import Cells
from cbid.search.segments import CodeRows, Segment
from cbid.search.vocabulary import Vocabulary

TAIL = 4096  # rows; scanning this many takes less time than the call itself
MOST_UNMERGED = 64  # sealed segments that may wait for a reader
LARGEST_MERGE = 1 << 26  # codes; above this, copying costs more than searching one more segment

# Encoding a vector again in another batch may flip a bit whose projection is nearly 0: one in this many is accepted.
BITS_PER_FLIP = 64

_NO_IDS = np.empty(0, dtype=np.int64)


@dataclass
class AttachedFile:
    """A file that is committed with an index: ``write`` writes it whole to a new path."""

    suffix: str  # ".npy" or ".safetensors"
    write: Callable[[Path], object]
    stored_as: str | None = None  # name in the store, None until it is written


@dataclass
class Attached:
    """What the owner of an index keeps with it: JSON values and files, committed together with the codes."""

    values: dict[str, Any]
    files: dict[str, AttachedFile]


@dataclass
class IndexState:
    """The parts of an index, in memory or on disk."""

    n_bits: int
    weights: NDArray[np.float64] | None  # (t,) or (t, n_classes)
    vocabulary: Vocabulary | None
    next_id: int
    n_cells: int | None
    probes: int
    cells: Cells | None
    segments: list[Segment]
    attached: Attached | None = None
    longer: "IndexState | None" = None  # codes of the same ids at a greater length, until every id has one

    def unnamed(self) -> "IndexState":
        """Return a copy for another directory, whose segments and files have no names in the store."""
        attached = None
        if self.attached is not None:
            files = {key: replace(file, stored_as=None) for key, file in self.attached.files.items()}
            attached = Attached(self.attached.values, files)
        segments = [replace(segment, stored_as=None) for segment in self.segments]
        longer = None if self.longer is None else self.longer.unnamed()
        return replace(self, segments=segments, attached=attached, longer=longer)


class CodeCollection:
    """Codes by id: add, remove and look up. A call that raises changes nothing.

    Calls from several threads are safe: each change, and each list of segments, is made under ``mutex``.
    """

    def __init__(self, state: IndexState) -> None:
        self.mutex = threading.RLock()
        self.load(state)
        self.changed = True  # differs from the committed state, if there is one

    def load(self, state: IndexState) -> None:
        """Replace the content by a committed state."""
        self.state = state
        by_class = state.weights is not None and state.weights.ndim == 2
        self._levels = Levels(state.segments, by_class=by_class, cells=state.cells)
        self.longer = None if state.longer is None else CodeCollection(state.longer)
        self.changed = False

    def snapshot(self) -> IndexState:
        """Return the state with all codes in sealed, merged segments, ready to be committed."""
        with self.mutex:
            self._levels.seal()
            self._levels.merge()
            self.state.segments = list(self._levels.sealed)
            if self.longer is not None:
                self.longer.snapshot()
            return self.state

    def segments(self) -> list[Segment]:
        """Return the segments to search, the largest first."""
        with self.mutex:
            return self._levels.readable()

    def use_cells(self, cells: Cells) -> None:
        """Order all codes by the cells of a trained quantiser."""
        with self.mutex:
            self._levels.use_cells(cells)
            self.state.cells = cells
            self.changed = True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "mutex": None, "changed": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, mutex=threading.RLock())

    # Look up

    def __len__(self) -> int:
        return len(self._levels)

    def __contains__(self, id: object) -> bool:
        if isinstance(id, bool) or not isinstance(id, int | np.integer) or not 0 <= int(id) <= LARGEST_ID:
            return False
        with self.mutex:
            return bool(self._levels.holding(np.array([id], dtype=np.int64))[0])

    def ids(self) -> NDArray[np.int64]:
        """Return all ids, ascending."""
        return np.sort(np.concatenate([_NO_IDS, *(segment.ids[segment.live()] for segment in self.segments())]))

    def labels(self) -> NDArray[Any] | None:
        """Return the labels in the order of `ids`, or None if there are none."""
        with self.mutex:
            segments, vocabulary = self._levels.readable(), self.state.vocabulary
        if vocabulary is None:
            return None
        live = [(segment, segment.live()) for segment in segments]
        ids = np.concatenate([_NO_IDS, *(segment.ids[at] for segment, at in live)])
        codes = [segment.labels[at].astype(np.int64) for segment, at in live if segment.labels is not None]
        return vocabulary.decode(np.concatenate([_NO_IDS, *codes])[np.argsort(ids)])

    def reconstruct(self, ids: ArrayLike) -> NDArray[np.uint8]:
        """Return the stored codes of ``ids``, in their order: (n, ceil(t/8))."""
        wanted, inverse = np.unique(as_ids(ids), return_inverse=True)
        return self._rows_of(wanted).codes[inverse.reshape(-1)]

    def short_ids(self) -> NDArray[np.int64]:
        """Return the ids that have no longer code yet, ascending; none if the index is not being lengthened."""
        with self.mutex:
            return _NO_IDS if self.longer is None else np.setdiff1d(self.ids(), self.longer.ids(), assume_unique=True)

    def sample(self, n: int) -> NDArray[np.uint8]:
        """Return up to ``n`` stored codes, drawn at random with a fixed seed."""
        segments = self.segments()
        sizes = np.array([segment.n_live for segment in segments], dtype=np.int64)
        drawn = np.random.default_rng(0).choice(sizes.sum(), min(n, int(sizes.sum())), replace=False)
        edges = np.concatenate([[0], np.cumsum(sizes)])
        parts = [
            segment.rows(segment.live()[np.sort(drawn[(drawn >= first) & (drawn < last)] - first)]).codes
            for segment, first, last in zip(segments, edges[:-1], edges[1:])
        ]
        return np.concatenate(parts) if parts else as_codes([], self.state.n_bits)

    # Change

    def add(self, codes: ArrayLike, ids: ArrayLike | None, labels: Any) -> NDArray[np.int64]:
        """Add codes and return their ids; see `CodeIndex.add`."""
        with self.mutex:
            full = as_codes(codes, self.state.n_bits if self.longer is None else self.longer.state.n_bits)
            n = len(full)
            new_ids = self._new_ids(ids, n)
            vocabulary, label_codes = self._new_labels(labels, n)
            if n:
                if self.longer is not None:
                    self.longer._levels.add(CodeRows(full, new_ids, label_codes))
                    full = prefix(full, self.state.n_bits)
                self._levels.add(CodeRows(full, new_ids, label_codes))
                self.state.vocabulary = vocabulary
                self.state.next_id = max(self.state.next_id, int(new_ids.max()) + 1)
                self.changed = True
        return new_ids

    def remove(self, ids: ArrayLike) -> None:
        """Remove ids, all of which must be stored."""
        wanted = sorted_distinct(as_ids(ids))
        with self.mutex:
            check_known(wanted, self._levels.holding(wanted))
            if len(wanted):
                self._levels.remove(wanted)
                if self.longer is not None:
                    self.longer._levels.remove(wanted[self.longer._levels.holding(wanted)])
                self.changed = True
                self._use_longer()

    def lengthen(self, n_bits: int, weights: NDArray[np.float64] | None) -> None:
        """Begin to collect longer codes; with the present length, discard those collected."""
        with self.mutex:
            self.longer = None
            if n_bits > self.state.n_bits:
                self.longer = CodeCollection(IndexState(n_bits, weights, None, 0, None, 0, None, []))
            self.state.longer = None if self.longer is None else self.longer.state
            self.changed = True
            self._use_longer()

    def recode(self, codes: ArrayLike, ids: ArrayLike) -> None:
        """Take the longer codes of stored ids; see `CodeIndex.recode`."""
        with self.mutex:
            longer, n_bits = self.longer, self.state.n_bits
            if longer is None:
                raise ValueError(f"recode: this index has {n_bits} bits and is not being lengthened; call lengthen()")
            given, full = as_ids(ids), as_codes(codes, longer.state.n_bits)
            if len(given) != len(full) or len(np.unique(given)) != len(given):
                raise ValueError(f"ids has {len(given)} entries; expected {len(full)} distinct ids, one per code")
            order = np.argsort(given)
            wanted, full = given[order], full[order]
            rows = self._rows_of(wanted)
            flips = np.bitwise_count(prefix(full, n_bits) ^ rows.codes).sum(axis=1, dtype=np.int64)
            if (flips > -(-n_bits // BITS_PER_FLIP)).any():
                at = int(flips.argmax())
                raise ValueError(
                    f"codes: the first {n_bits} bits of id {wanted[at]} differ from the stored code in {flips[at]}; "
                    "expected the code of the same item from the extended coder"
                )
            if len(wanted) == 0:
                return
            width, last = rows.codes.shape[1], full[:, rows.codes.shape[1] - 1].copy()
            full[:, :width] = rows.codes  # stored bits stay as they are
            if n_bits % 8:
                full[:, width - 1] |= last & np.uint8(0xFF >> n_bits % 8)
            longer._levels.remove(wanted[longer._levels.holding(wanted)])
            longer._levels.add(rows._replace(codes=full))
            self.changed = True
            self._use_longer()

    def _rows_of(self, wanted: NDArray[np.int64]) -> CodeRows:
        """Return codes and labels of ids (sorted, distinct), all of which must be stored."""
        with self.mutex:
            segments, state = self._levels.readable(), self.state
        codes = np.empty((len(wanted), n_bytes(state.n_bits)), dtype=np.uint8)
        labels = None if state.vocabulary is None else np.zeros(len(wanted), dtype=np.int64)
        found = np.zeros(len(wanted), dtype=bool)
        for segment in segments:
            places, positions = segment.positions_of(wanted)
            codes[places] = from_blocks(segment.blocks, positions)
            if labels is not None and segment.labels is not None:
                labels[places] = segment.labels[positions]
            found[places] = True
        check_known(wanted, found)
        return CodeRows(codes, wanted, labels)

    def _use_longer(self) -> None:
        """Replace the codes by the longer ones once every id has one. Searches see the old state or the new one."""
        if self.longer is not None and len(self.longer) == len(self):
            new = self.longer.snapshot()
            self.load(
                replace(
                    self.state, n_bits=new.n_bits, weights=new.weights, cells=None, segments=new.segments, longer=None
                )
            )
            self.changed = True

    def _new_ids(self, ids: ArrayLike | None, n: int) -> NDArray[np.int64]:
        first = self.state.next_id
        if ids is None:
            if first + n - 1 > LARGEST_ID:
                raise ValueError(f"ids=None: the largest id is {first - 1}, and {n} more do not fit in 64 bits")
            return np.arange(first, first + n, dtype=np.int64)
        given = as_ids(ids)
        if len(given) != n:
            raise ValueError(f"ids has {len(given)} entries; expected one per code, {n}")
        wanted = np.sort(given)
        twice = wanted[1:][wanted[1:] == wanted[:-1]]
        if len(twice):
            raise ValueError(f"ids holds {twice[0]} more than once; expected distinct ids")
        if n:
            # Ids above the largest one ever stored are new: appending in order needs no search.
            below = wanted[: np.searchsorted(wanted, first)]
            held = below[self._levels.holding(below)] if len(below) else below
            if len(held):
                more = f" and {len(held) - 1} more" if len(held) > 1 else ""
                raise ValueError(f"ids holds {held[0]}{more}, already stored in the index; remove it first")
        return given

    def _new_labels(self, labels: Any, n: int) -> tuple[Vocabulary | None, NDArray[np.integer] | None]:
        vocabulary = self.state.vocabulary
        if len(self) == 0 and vocabulary is not None and not vocabulary.closed:
            vocabulary = None  # all labelled codes were removed
        if labels is None:
            if vocabulary is not None and vocabulary.closed:
                raise ValueError("labels=None: weights are given per class, so every code needs a label")
            if vocabulary is not None and n:
                raise ValueError("labels=None: the stored codes have labels, so these codes need labels too")
            return vocabulary, None
        if vocabulary is None and len(self) and n:
            raise ValueError("labels is given, but the stored codes have none; expected labels=None")
        known = Vocabulary.for_labels(labels) if vocabulary is None else vocabulary
        grown, codes = known.extended(labels)
        if len(codes) != n:
            raise ValueError(f"labels has {len(codes)} entries; expected one per code, {n}")
        return grown, codes


class Levels:
    """A small tail that receives additions, and sealed segments of geometric sizes.

    This is a log-structured merge tree: many small additions stay cheap, and a search visits O(log n) segments,
    because each sealed segment is larger than all smaller ones together. Merging is delayed until something
    reads, so loading in batches moves each code about once.
    """

    def __init__(self, segments: list[Segment], *, by_class: bool, cells: Cells | None) -> None:
        self.by_class = by_class
        self.cells = cells  # once trained, every sealed segment is ordered by cell
        self.sealed = list(segments)
        self._merged = False  # whether nothing has changed since the last merge
        self._tail: list[CodeRows] = []
        self._tail_ids: set[int] = set()  # bounded by TAIL
        self._tail_segment: Segment | None = None  # the tail as a segment, until the next addition

    def __len__(self) -> int:
        return sum(segment.n_live for segment in self.sealed) + len(self._tail_ids)

    def add(self, rows: CodeRows) -> None:
        """Add rows (n > 0) whose ids are new."""
        self._merged = False
        if len(rows.ids) >= TAIL:
            self.sealed.append(self._built([rows]))
        else:
            # Copies, because the caller may change its arrays later.
            self._tail.append(rows._replace(codes=rows.codes.copy(), ids=rows.ids.copy()))
            self._tail_ids.update(rows.ids.tolist())
            self._tail_segment = None
            if len(self._tail_ids) >= TAIL:
                self.seal()
        if len(self.sealed) > MOST_UNMERGED:
            self.merge()

    def seal(self) -> None:
        """Turn the tail into a sealed segment."""
        if self._tail:
            self._merged = False
            self.sealed.append(self._tail_view() if self.cells is None else self._built(self._tail))
            self._tail, self._tail_ids, self._tail_segment = [], set(), None

    def merge(self) -> None:
        """Restore geometric sizes, and rewrite segments that lost more than half of their codes."""
        if self._merged:
            return
        self.sealed = [segment for segment in self.sealed if segment.n_live]
        while len(joined := self._to_join()) > 1:
            whole = self._built([segment.rows() for segment in joined])
            self.sealed = [segment for segment in self.sealed if segment not in joined] + [whole]
        self.sealed = [
            self._built([segment.rows()]) if 2 * segment.n_live < len(segment) else segment for segment in self.sealed
        ]
        self._merged = True

    def _to_join(self) -> list[Segment]:
        """The largest segment that is not larger than the smaller ones together, and these smaller ones."""
        small = [segment for segment in self.sealed if segment.n_live <= LARGEST_MERGE]
        small.sort(key=lambda segment: -segment.n_live)
        sizes = np.array([segment.n_live for segment in small], dtype=np.int64)
        smaller_together = sizes.sum() - np.cumsum(sizes)
        joins = (sizes <= smaller_together) & (sizes + smaller_together <= LARGEST_MERGE)
        return small[int(np.argmax(joins)) :] if joins.any() else []

    def readable(self) -> list[Segment]:
        """All segments, the largest first: its scan gives the tightest bound for the others."""
        self.merge()
        segments = [*self.sealed, self._tail_view()] if self._tail else list(self.sealed)
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
        self._merged = False
        self.seal()
        for segment in self.sealed:
            segment.remove(segment.positions_of(ids)[1])

    def use_cells(self, cells: Cells) -> None:
        """Rebuild all segments in the order of ``cells``."""
        self.seal()
        self.cells = cells
        self.sealed = [
            self._built([segment.rows()._replace(cells=None)]) for segment in self.sealed if segment.n_live
        ]

    def _tail_view(self) -> Segment:
        if self._tail_segment is None:
            rows = CodeRows.joined(self._tail)
            self._tail = [rows]
            self._tail_segment = Segment.build(rows, by_class=self.by_class)
        return self._tail_segment

    def _built(self, parts: list[CodeRows]) -> Segment:
        if self.cells is not None:
            parts = [
                part if part.cells is not None else part._replace(cells=self.cells.of(part.codes)) for part in parts
            ]
        return Segment.build(CodeRows.joined(parts), by_class=self.by_class)
