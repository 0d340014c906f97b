"""Sources of row vectors that are read a span at a time, from files that every process can open.

Each read opens the file again, so that a process holds only the span that it reads.
"""

import os
from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.data.arrays import read_npy
from cbid.data.sources import open_source
from cbid.data.tables import ParquetTable, TableError, VectorTable
from cbid.labels import encode_labels
from cbid.storage.digests import digest_of

Span = tuple[int, int]
_LARGEST_ID = np.iinfo(np.int64).max


class RowSource(metaclass=ABCMeta):
    """Vectors (n, d), with optional ids and labels.

    Attributes
    ----------
    labels : (n,) int64 or None
        Indices into ``classes``; -1 for a row without a label.
    ids : (n,) int64 or text, or None
        None: the id of a row is its number.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    labels: NDArray[np.int64] | None = None
    classes: NDArray[Any] | None = None
    ids: NDArray[Any] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        """Bytes of one vector."""
        return self.shape[1] * self.dtype.itemsize

    @abstractmethod
    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the vectors of rows start..stop-1, in memory."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return what identifies these rows without reading them, as JSON values."""

    def spans(self, rows: int) -> list[Span]:
        """Return all rows as consecutive spans of at most ``rows`` rows."""
        return [(start, min(start + rows, len(self))) for start in range(0, len(self), rows)]

    def take(self, rows: NDArray[np.integer], at_a_time: int) -> NDArray[Any]:
        """Return the vectors of these rows (ascending), reading at most ``at_a_time`` rows at once."""
        taken = np.empty((len(rows), self.shape[1]), self.dtype)
        for start, stop in self.spans(at_a_time):
            first, last = np.searchsorted(rows, (start, stop))
            if first < last:
                taken[first:last] = self._take(rows[first:last], start, stop)
        return taken

    def _take(self, rows: NDArray[np.integer], start: int, stop: int) -> NDArray[Any]:
        return self.read(start, stop)[rows - start]

    def ids_of(self, start: int, stop: int) -> NDArray[Any]:
        """Return the ids of a span: int64, or text of one width for all spans."""
        return np.arange(start, stop) if self.ids is None else self.ids[start:stop]

    def files(self) -> list[str]:
        """Return the files that are read."""
        return []

    def set_ids(self, ids: NDArray[Any]) -> None:
        """Replace the ids of the source."""
        self.ids = ids

    def without_labels(self) -> Self:
        """Return the same vectors and ids without labels."""
        other = self.copy()
        other.labels = other.classes = None
        return other

    def copy(self) -> Self:
        """Return the same rows with labels and ids that can be replaced."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other


class MemoryRows(RowSource):
    """An array in the memory of this process."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.shape, self.dtype = _checked(array)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return self.array[start:stop]

    def identity(self) -> dict[str, Any]:
        return {"shape": list(self.shape), "dtype": self.dtype.str, "content": digest_of(self.array)}


class FileRows(RowSource):
    """An array in a file such as ``.npy``: path, offset, shape and type."""

    def __init__(
        self, path: str | os.PathLike[str], dtype: Any, shape: Sequence[int], offset: int, order: Any
    ) -> None:
        self.path, self.offset, self.order = os.path.abspath(path), offset, order
        self.shape, self.dtype = (int(shape[0]), int(shape[1])), np.dtype(dtype)

    @classmethod
    def of(cls, array: NDArray[Any]) -> "FileRows | None":
        """Return the file of a mapped array, or of consecutive rows of one; None for other arrays."""
        _checked(array)
        root: Any = array
        mapped = None
        while isinstance(root, np.ndarray):
            mapped = root if isinstance(root, np.memmap) else mapped
            root = root.base
        if mapped is None or mapped.filename is None or mapped.mode == "c" or not len(array):
            return None
        order = "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else None
        if order is None:
            return None
        address = array.__array_interface__["data"][0] - mapped.__array_interface__["data"][0]
        return cls(mapped.filename, array.dtype, array.shape, mapped.offset + address, order)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return np.array(self._mapped()[start:stop])

    def _take(self, rows: NDArray[np.integer], start: int, stop: int) -> NDArray[Any]:
        return self._mapped()[rows]  # a new mapping each time: touched pages count as memory until unmapped

    def identity(self) -> dict[str, Any]:
        found = os.stat(self.path)
        return {
            "file": os.path.basename(self.path),
            "bytes": found.st_size,
            "changed": found.st_mtime_ns,
            "offset": self.offset,
            "shape": list(self.shape),
            "dtype": self.dtype.str,
        }

    def files(self) -> list[str]:
        return [self.path]

    def _mapped(self) -> NDArray[Any]:
        return np.asarray(np.memmap(self.path, self.dtype, "r", self.offset, self.shape, self.order))


class ParquetRows(RowSource):
    """The rows of several parquet files in the given order, read by row groups."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]], **columns: str | None) -> None:
        self.paths = [os.path.abspath(path) for path in paths]
        if not self.paths:
            raise TableError("source holds no parquet files; expected at least one")
        self._columns = columns
        self._groups: list[tuple[int, int]] = []  # file and index in it of each row group
        sizes, ids, labels = [], [], []
        for number, path in enumerate(self.paths):
            table = ParquetTable(path, **columns)
            if number == 0:
                self.dtype, width = table.dtype, table.shape[1]
            if table.shape[1] != width:
                raise TableError(
                    f"{path} has vectors of {table.shape[1]} values; expected {width} as in {self.paths[0]}"
                )
            self._groups += [(number, group) for group in range(len(table.group_sizes))]
            sizes += table.group_sizes
            ids.append(table.ids)
            labels.append(None if table.labels is None else _as_given(table))
        self._edges = np.concatenate([[0], np.cumsum(sizes)])  # the first row of each group
        self.shape = (int(self._edges[-1]), width)
        found = _joined(ids)
        self.ids = None if found is None else _as_ids(found)
        self._id_type = None if self.ids is None else self.ids.dtype
        given = _joined(labels)
        if given is not None:
            self.classes, self.labels = encode_labels(given, missing=True)

    def spans(self, rows: int) -> list[Span]:
        """Return spans of whole row groups, at most ``rows`` rows each; a larger group is its own span."""
        spans: list[Span] = []
        for start, stop in zip(self._edges[:-1].tolist(), self._edges[1:].tolist()):
            if spans and stop - spans[-1][0] <= rows:
                spans[-1] = (spans[-1][0], stop)
            else:
                spans.append((start, stop))
        return spans

    def read(self, start: int, stop: int) -> NDArray[Any]:
        first, last = self._group_range(start, stop)
        values = np.empty((int(self._edges[last] - self._edges[first]), self.shape[1]), self.dtype)
        at = 0
        for file, group in self._groups[first:last]:
            for batch in self._table(file).batches(groups=[group]):
                values[at : at + len(batch)] = batch
                at += len(batch)
        return values[start - self._edges[first] : stop - self._edges[first]]

    def ids_of(self, start: int, stop: int) -> NDArray[Any]:
        if self._id_type is None or self.ids is not None:
            return super().ids_of(start, stop)
        first, last = self._group_range(start, stop)
        files = sorted({file for file, _ in self._groups[first:last]})
        begin = self._edges[self._groups.index((files[0], 0))]
        ids = np.concatenate([_as_ids(np.asarray(self._table(file).ids)).astype(self._id_type) for file in files])
        return ids[start - begin : stop - begin]

    def _group_range(self, start: int, stop: int) -> tuple[int, int]:
        """The row groups that hold rows start..stop-1."""
        first = np.searchsorted(self._edges, start, "right") - 1
        return int(first), int(np.searchsorted(self._edges, stop, "left"))

    def files(self) -> list[str]:
        return self.paths

    def set_ids(self, ids: NDArray[Any]) -> None:
        super().set_ids(ids)
        self._id_type = None  # ignore those in the files

    def __getstate__(self) -> dict[str, Any]:
        # A pickled copy reads ids that come from the files again, span by span.
        return self.__dict__ if self._id_type is None else {**self.__dict__, "ids": None}

    def _table(self, file: int) -> ParquetTable:
        found = os.stat(self.paths[file])
        return _open_table(self.paths[file], tuple(sorted(self._columns.items())), found.st_size, found.st_mtime_ns)

    def identity(self) -> dict[str, Any]:
        found = [(os.path.basename(path), os.stat(path)) for path in self.paths]
        return {"shape": list(self.shape), "files": [[name, s.st_size, s.st_mtime_ns] for name, s in found]}


@lru_cache(maxsize=1)
def _open_table(path: str, columns: tuple[tuple[str, str | None], ...], size: int, changed: int) -> ParquetTable:
    # Size and modification time are part of the cache key: they change when the file is rewritten.
    return ParquetTable(path, **dict(columns))


def open_rows(
    source: Any, labels: ArrayLike | str | os.PathLike[str] | None = None, ids: ArrayLike | None = None
) -> RowSource:
    """Open a source of row vectors.

    Parameters
    ----------
    source
        An array (n, d), mapped or not; a file for ``cbid.data.open_source``; parquet files, or a folder of them.
    labels, ids
        (n,), instead of those of the source; labels also as a ``.npy`` file.
    """
    rows = _opened(source)
    if 0 in rows.shape:
        raise ValueError(f"source has shape {rows.shape}; expected at least one row of at least one value")
    if isinstance(labels, (str, os.PathLike)):
        labels = read_npy(labels)
    for column, given in (("labels", labels), ("ids", ids)):
        if given is not None and np.shape(given) != (len(rows),):
            raise ValueError(f"{column} has shape {np.shape(given)}; expected ({len(rows)},), one for each row")
    if labels is not None:
        rows.classes, rows.labels = encode_labels(np.asarray(labels), missing=True)
    if ids is not None:
        rows.set_ids(_as_ids(np.asarray(ids)))
    return rows


def _opened(source: Any) -> RowSource:
    if isinstance(source, RowSource):
        return source.copy()
    if isinstance(source, (list, tuple)) and source and all(isinstance(s, (str, os.PathLike)) for s in source):
        return ParquetRows(source)
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        parts = sorted(path.glob("*.parquet")) if path.is_dir() else []
        if parts or path.suffix.lower() in (".parquet", ".pq"):
            return ParquetRows(parts or [path])
        source = open_source(path)
    if isinstance(source, np.ndarray):
        source = VectorTable(source)
    if not isinstance(source, VectorTable) or isinstance(source, ParquetTable):
        raise ValueError(
            f"source={source!r:.80}: expected an array (n, d), mapped or not, a .npy or .npz file of one, or parquet "
            "files"
        )
    rows: RowSource | None = FileRows.of(source.vectors)
    rows = MemoryRows(source.vectors) if rows is None else rows
    rows.labels, rows.classes = source.labels, source.classes
    rows.ids = None if source.ids is None else _as_ids(source.ids)
    return rows


def _as_ids(ids: NDArray[Any]) -> NDArray[Any]:
    """Return integers as int64, text as an array of strings."""
    if ids.dtype.kind in "iu":
        if len(ids) and ids.max() > _LARGEST_ID:
            raise ValueError(f"ids holds {ids.max()}; expected integers of at most {_LARGEST_ID}, or text")
        return ids.astype(np.int64)
    if ids.dtype.kind == "U" or (ids.dtype == object and all(isinstance(v, str) for v in ids)):
        return ids.astype(np.str_)
    raise ValueError(f"ids has type {ids.dtype}; expected integers or text")


def _checked(array: NDArray[Any]) -> tuple[tuple[int, int], np.dtype[Any]]:
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise ValueError(f"source has shape {array.shape} and type {array.dtype}; expected numbers (n, d)")
    return (array.shape[0], array.shape[1]), array.dtype


def _as_given(table: ParquetTable) -> NDArray[Any]:
    """Return the labels of a table as they are in the file; None for a missing one."""
    assert table.labels is not None
    assert table.classes is not None
    if (table.labels >= 0).all():
        return np.asarray(table.classes[table.labels])
    given = np.empty(len(table.labels), dtype=object)
    known = table.labels >= 0
    given[known] = table.classes[table.labels[known]]
    return given


def _joined(columns: list[NDArray[Any] | None]) -> NDArray[Any] | None:
    present = [column for column in columns if column is not None]
    if not present:
        return None
    if len(present) < len(columns):
        raise TableError("some parquet files have ids or labels and others have none")
    return np.concatenate(present)
