"""What a store holds, apart from how it is searched: codes with distinct ids and, if created for them, labels."""

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.search import CodeIndex
from cbid.search.checks import LARGEST_ID, as_codes, as_ids, check_known, sorted_distinct
from cbid.search.milvus.address import Address
from cbid.search.milvus.collection import Collection, Rows

__all__ = ["Contents"]


class Contents:
    """Codes by id in a collection: adding, removing and looking up."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._settings = collection.settings

    def close(self) -> None:
        """End the connection; the store is not to be used afterwards."""
        self._collection.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What there is

    @property
    def address(self) -> Address:
        return self._collection.connection.address

    @property
    def n_bits(self) -> int:
        return self._settings.n_bits

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """The weights given when it was created, or None."""
        return self._settings.weights

    @property
    def labels(self) -> str | None:
        """The kind of the labels, or None."""
        return self._settings.labels

    @property
    def made_by(self) -> str:
        return self._settings.made_by

    def __len__(self) -> int:
        return self._collection.count()

    def __contains__(self, id: object) -> bool:
        if isinstance(id, bool) or not isinstance(id, int | np.integer) or not 0 <= int(id) <= LARGEST_ID:
            return False
        return bool(self._collection.held(np.array([id], dtype=np.int64))[0])

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(rows.ids for rows in self.rows())])

    def rows(self) -> Iterator[Rows]:
        """All that is stored by ascending id, some thousands at a time: ``ids``, ``codes`` and ``labels``."""
        return self._collection.stream()

    def reconstruct(self, ids: ArrayLike) -> NDArray[np.uint8]:
        """The stored codes of ``ids``, in their order: (n, ceil(t/8))."""
        wanted, inverse = np.unique(as_ids(ids), return_inverse=True)
        rows = self._collection.fetch(wanted)
        check_known(wanted, np.isin(wanted, rows.ids), "the collection")
        return rows.codes[inverse.reshape(-1)]

    def stored(self, ids: ArrayLike) -> Rows:
        """The rows of those of these ids that are stored, by ascending id."""
        return self._collection.fetch(sorted_distinct(as_ids(ids)))

    def to_index(self, n_threads: int | None = None) -> CodeIndex:
        """An exact `CodeIndex` of all that is stored."""
        settings = self._settings
        index = CodeIndex(settings.n_bits, settings.weights, classes=settings.classes, n_threads=n_threads)
        for rows in self.rows():
            index.add(rows.codes, rows.ids, None if settings.labels is None else rows.labels)
        return index

    # Changing

    def add(self, codes: ArrayLike, ids: ArrayLike, labels: ArrayLike | None = None) -> None:
        """Add codes (n, ceil(t/8)) under ids that are not stored yet; one that is stored is an error that changes
        nothing. An addition that was stopped in the middle is finished by `upsert`."""
        rows = self._as_rows(codes, ids, labels)
        stored = rows.ids[self._collection.held(rows.ids)]
        if len(stored):
            more = f" and {len(stored) - 1} more" if len(stored) > 1 else ""
            raise ValueError(
                f"ids holds {stored[0]}{more}, which the collection already stores; remove it, or upsert"
            )
        for _ in self._collection.upsert(rows):
            pass

    def upsert(self, codes: ArrayLike, ids: ArrayLike, labels: ArrayLike | None = None) -> None:
        """Store codes under these ids, in the place of those that are stored under them; twice is as good as once.

        When it returns, Milvus has all of it in its log, which the death of the server's process does not touch.
        """
        for _ in self._collection.upsert(self._as_rows(codes, ids, labels)):
            pass

    def remove(self, ids: ArrayLike) -> None:
        """Remove codes; an id that is not stored is an error that changes nothing."""
        wanted = sorted_distinct(as_ids(ids))
        check_known(wanted, self._collection.held(wanted), "the collection")
        self._collection.delete(wanted)

    def flush(self) -> None:
        """Have Milvus write what is in its log into segments; it does so by itself from time to time."""
        self._collection.flush()

    def _as_rows(self, codes: ArrayLike, ids: ArrayLike, labels: ArrayLike | None) -> Rows:
        checked, given = as_codes(codes, self.n_bits), as_ids(ids)
        if len(given) != len(checked):
            raise ValueError(f"ids has {len(given)} entries; {len(checked)} codes were given, and each takes one")
        distinct, counts = np.unique(given, return_counts=True)
        if len(distinct) != len(given):
            raise ValueError(f"ids holds {distinct[counts > 1][0]} more than once; ids are distinct")
        return Rows(given, checked, self._settings.as_labels(labels, len(given)))
