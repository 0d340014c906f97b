"""What an index holds, apart from how it is searched: codes with distinct ids and, if given, labels."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import n_bytes
from cbid.search.blocks import from_blocks
from cbid.search.checks import LARGEST_ID, as_codes, as_ids, check_known, sorted_distinct
from cbid.search.levels import Levels
from cbid.search.segments import Rows, Segment
from cbid.search.store import State
from cbid.search.vocabulary import Vocabulary

__all__ = ["Collection"]


class Collection:
    """Codes by id: adding, removing and looking up. An error changes nothing."""

    def __init__(self, state: State) -> None:
        self._mutex = threading.RLock()
        self._take(state)
        self._dirty = True  # differs from what the store holds, if there is a store

    def _take(self, state: State) -> None:
        self._state = state
        by_class = state.weights is not None and state.weights.ndim == 2
        self._levels = Levels(state.segments, by_class=by_class, cells=state.cells)
        self._dirty = False

    def _segments(self) -> list[Segment]:
        """What there is to read."""
        with self._mutex:
            return self._levels.readable()

    @property
    def n_bits(self) -> int:
        return self._state.n_bits

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """The weights given at construction, not to be changed, or None."""
        if self._state.weights is None:
            return None
        view = self._state.weights.view()
        view.flags.writeable = False
        return view

    def __len__(self) -> int:
        return len(self._levels)

    def __contains__(self, id: object) -> bool:
        if isinstance(id, bool) or not isinstance(id, int | np.integer) or not 0 <= int(id) <= LARGEST_ID:
            return False
        with self._mutex:
            return bool(self._levels.holding(np.array([id], dtype=np.int64))[0])

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids.tolist())

    @property
    def nbytes(self) -> int:
        """Bytes of codes, ids, labels and bookkeeping, in memory or mapped."""
        return sum(segment.nbytes for segment in self._segments())

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending."""
        parts = [segment.ids[segment.live()] for segment in self._segments()]
        return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *parts]))

    @property
    def labels(self) -> NDArray[Any] | None:
        """The labels of all codes in the order of `ids`, or None when the index holds none."""
        segments, vocabulary = self._segments(), self._state.vocabulary
        if vocabulary is None:
            return None
        live = [(segment, segment.live()) for segment in segments]
        ids = np.concatenate([np.empty(0, dtype=np.int64), *(segment.ids[at] for segment, at in live)])
        codes = [segment.labels[at].astype(np.int64) for segment, at in live if segment.labels is not None]
        joined = np.concatenate([np.empty(0, dtype=np.int64), *codes])
        return vocabulary.decode(joined[np.argsort(ids)])

    def reconstruct(self, ids: ArrayLike) -> NDArray[np.uint8]:
        """The stored codes of ``ids``, in their order: (n, ceil(t/8))."""
        wanted, inverse = np.unique(as_ids(ids), return_inverse=True)
        codes = np.empty((len(wanted), n_bytes(self.n_bits)), dtype=np.uint8)
        found = np.zeros(len(wanted), dtype=bool)
        for segment in self._segments():
            places, positions = segment.positions_of(wanted)
            codes[places] = from_blocks(segment.blocks, positions)
            found[places] = True
        check_known(wanted, found)
        return codes[inverse.reshape(-1)]

    def add(
        self, codes: ArrayLike, ids: ArrayLike | None = None, labels: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Add codes (n, ceil(t/8)); returns their ids.

        ``ids``: distinct integers >= 0, not stored yet; by default they go on from the largest ever stored.
        ``labels``: one a code, integers, strings or bools; either all codes of an index have one or none.
        """
        checked = as_codes(codes, self.n_bits)
        n = len(checked)
        with self._mutex:
            new_ids = self._new_ids(ids, n)
            vocabulary, label_codes = self._new_labels(labels, n)
            if n == 0:
                return new_ids
            self._levels.add(Rows(checked, new_ids, label_codes))
            self._state.vocabulary = vocabulary
            self._state.next_id = max(self._state.next_id, int(new_ids.max()) + 1)
            self._dirty = True
        return new_ids

    def _new_ids(self, ids: ArrayLike | None, n: int) -> NDArray[np.int64]:
        first = self._state.next_id
        if ids is None:
            if first + n - 1 > LARGEST_ID:
                raise ValueError(
                    f"ids is None and the largest id is {first - 1}: {n} further ones do not fit 64 bits"
                )
            return np.arange(first, first + n, dtype=np.int64)
        given = as_ids(ids)
        if len(given) != n:
            raise ValueError(f"ids has {len(given)} entries; {n} codes were given, and each takes one")
        wanted = np.sort(given)
        twice = wanted[1:][wanted[1:] == wanted[:-1]]
        if len(twice):
            raise ValueError(f"ids holds {twice[0]} more than once; ids are distinct")
        if n:
            # Nothing above the largest id ever stored can be a duplicate: appending in order needs no search.
            below = wanted[: np.searchsorted(wanted, first)]
            held = below[self._levels.holding(below)] if len(below) else below
            if len(held):
                more = f" and {len(held) - 1} more" if len(held) > 1 else ""
                raise ValueError(f"ids holds {held[0]}{more}, which the index already stores; remove it first")
        return given

    def _new_labels(self, labels: ArrayLike | None, n: int) -> tuple[Vocabulary | None, NDArray[np.integer] | None]:
        vocabulary = self._state.vocabulary
        if len(self) == 0 and vocabulary is not None and not vocabulary.closed:
            vocabulary = None  # all that had labels was removed
        if labels is None:
            if vocabulary is not None and vocabulary.closed:
                raise ValueError("labels is None; weights were given per class, so every code needs its label")
            if vocabulary is not None and n:
                raise ValueError("labels is None; the codes already stored have labels, so these need them too")
            return vocabulary, None
        if vocabulary is None and len(self) and n:
            raise ValueError("labels is given; the codes already stored have none, so these cannot either")
        known = Vocabulary.for_labels(labels) if vocabulary is None else vocabulary
        grown, codes = known.extended(labels)
        if len(codes) != n:
            raise ValueError(f"labels has {len(codes)} entries; {n} codes were given, and each takes one")
        return grown, codes

    def remove(self, ids: ArrayLike) -> None:
        """Remove ids, all of which must be stored."""
        wanted = sorted_distinct(as_ids(ids))
        with self._mutex:
            check_known(wanted, self._levels.holding(wanted))
            if len(wanted):
                self._levels.remove(wanted)
                self._dirty = True
