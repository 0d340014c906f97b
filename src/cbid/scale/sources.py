"""Rows of vectors that stay where they are: files that every process can open, read a span at a time.

A span is read by opening the file anew, so that a process holds that span and nothing of what it read before.
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
from cbid.data.labels import coded
from cbid.data.sources import open_source
from cbid.data.tables import ParquetTable, TableError, VectorTable
from cbid.storage.digests import digest_of

__all__ = ["FileRows", "HeldRows", "ParquetRows", "RowSource", "open_rows"]

Span = tuple[int, int]
_LARGEST_ID = np.iinfo(np.int64).max


class RowSource(metaclass=ABCMeta):
    """Vectors (n, d), with ids and labels where there are some.

    labels: (n,) int64, each the place of its class in ``classes``, -1 where none is given; or None.
    ids: (n,) int64 or text, or None: then a row's number is its id.
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
        """The vectors of rows start..stop-1, in memory."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What tells these rows from others without reading them, as JSON values."""

    def spans(self, rows: int) -> list[Span]:
        """All rows as consecutive spans of at most ``rows``."""
        return [(start, min(start + rows, len(self))) for start in range(0, len(self), rows)]

    def take(self, rows: NDArray[np.integer], at_a_time: int) -> NDArray[Any]:
        """The vectors of these rows (ascending), reading spans of at most ``at_a_time`` that hold some of them."""
        taken = np.empty((len(rows), self.shape[1]), self.dtype)
        for start, stop in self.spans(at_a_time):
            first, last = np.searchsorted(rows, (start, stop))
            if first < last:
                taken[first:last] = self.read(start, stop)[rows[first:last] - start]
        return taken

    def ids_of(self, start: int, stop: int) -> NDArray[Any]:
        """The ids of a span: int64, or text of one width for all spans."""
        return np.arange(start, stop) if self.ids is None else self.ids[start:stop]

    def files(self) -> list[str]:
        """The files that are read."""
        return []

    def give_ids(self, ids: NDArray[Any]) -> None:
        """Take these ids in the place of any of its own."""
        self.ids = ids

    def without_labels(self) -> Self:
        """The same vectors and ids, for those who have no use for labels."""
        other = self.twin()
        other.labels = other.classes = None
        return other

    def twin(self) -> Self:
        """The same rows, whose labels and ids can be set apart from these."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other


class HeldRows(RowSource):
    """An array in the memory of this process."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.shape, self.dtype = _checked(array)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return self.array[start:stop]

    def identity(self) -> dict[str, Any]:
        return {"shape": list(self.shape), "dtype": self.dtype.str, "content": digest_of(self.array)}


class FileRows(RowSource):
    """An array in a file, such as ``.npy``: known by path, type and place."""

    def __init__(
        self, path: str | os.PathLike[str], dtype: Any, shape: Sequence[int], offset: int, order: Any
    ) -> None:
        self.path, self.offset, self.order = os.path.abspath(path), offset, order
        self.shape, self.dtype = (int(shape[0]), int(shape[1])), np.dtype(dtype)

    @classmethod
    def of(cls, array: NDArray[Any]) -> "FileRows | None":
        """The file behind a mapped array or consecutive rows of one, or None where there is none."""
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

    def take(self, rows: NDArray[np.integer], at_a_time: int) -> NDArray[Any]:
        taken = np.empty((len(rows), self.shape[1]), self.dtype)
        for start, stop in self.spans(at_a_time):
            first, last = np.searchsorted(rows, (start, stop))
            if first < last:  # mapped for these alone: the pages around each count as held until they are let go
                taken[first:last] = self._mapped()[rows[first:last]]
        return taken

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
    """The rows of several parquet files, in the order of their names as given; read by row groups."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]], **columns: str | None) -> None:
        self.paths = [os.path.abspath(path) for path in paths]
        if not self.paths:
            raise TableError("there are no parquet files; give at least one")
        self._columns = columns
        self._groups: list[tuple[int, int]] = []  # the file, and the place in it, of each row group
        sizes, ids, labels = [], [], []
        for number, path in enumerate(self.paths):
            table = ParquetTable(path, **columns)
            if number == 0:
                self.dtype, width = table.dtype, table.shape[1]
            if table.shape[1] != width:
                raise TableError(
                    f"{path} has vectors of {table.shape[1]} values; {self.paths[0]} has {width}, and all must have "
                    "as many"
                )
            self._groups += [(number, group) for group in range(len(table.group_sizes))]
            sizes += table.group_sizes
            ids.append(table.ids)
            labels.append(None if table.labels is None else _as_given(table))
        self._edges = np.concatenate([[0], np.cumsum(sizes)])  # the row that each group begins with
        self.shape = (int(self._edges[-1]), width)
        found = _joined(ids)
        self.ids = None if found is None else _as_ids(found)
        self._id_type = None if self.ids is None else self.ids.dtype
        given = _joined(labels)
        if given is not None:
            self.labels, self.classes = coded(given)

    def spans(self, rows: int) -> list[Span]:
        """Whole row groups together, at most ``rows``; a larger group is a span of its own."""
        spans: list[Span] = []
        for start, stop in zip(self._edges[:-1].tolist(), self._edges[1:].tolist()):
            if spans and stop - spans[-1][0] <= rows:
                spans[-1] = (spans[-1][0], stop)
            else:
                spans.append((start, stop))
        return spans

    def read(self, start: int, stop: int) -> NDArray[Any]:
        first, last = np.searchsorted(self._edges, start, "right") - 1, np.searchsorted(self._edges, stop, "left")
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
        first, last = np.searchsorted(self._edges, start, "right") - 1, np.searchsorted(self._edges, stop, "left")
        files = sorted({file for file, _ in self._groups[first:last]})
        begin = self._edges[self._groups.index((files[0], 0))]
        ids = np.concatenate([_as_ids(np.asarray(self._table(file).ids)).astype(self._id_type) for file in files])
        return ids[start - begin : stop - begin]

    def files(self) -> list[str]:
        return self.paths

    def give_ids(self, ids: NDArray[Any]) -> None:
        super().give_ids(ids)
        self._id_type = None  # those in the files are not asked for any more

    def __getstate__(self) -> dict[str, Any]:
        # Whoever gets a copy reads the ids of its spans from the files, where they are from there.
        return self.__dict__ if self._id_type is None else {**self.__dict__, "ids": None}

    def _table(self, file: int) -> ParquetTable:
        found = os.stat(self.paths[file])
        return _open_table(self.paths[file], tuple(sorted(self._columns.items())), found.st_size, found.st_mtime_ns)

    def identity(self) -> dict[str, Any]:
        found = [(os.path.basename(path), os.stat(path)) for path in self.paths]
        return {"shape": list(self.shape), "files": [[name, s.st_size, s.st_mtime_ns] for name, s in found]}


@lru_cache(maxsize=1)
def _open_table(path: str, columns: tuple[tuple[str, str | None], ...], size: int, changed: int) -> ParquetTable:
    # The size and the time of the last change tell a file that was written anew from what it was.
    return ParquetTable(path, **dict(columns))


def open_rows(
    source: Any,
    labels: ArrayLike | str | os.PathLike[str] | None = None,
    ids: ArrayLike | None = None,
    *,
    name: str = "source",
) -> RowSource:
    """Rows from an array, mapped or not; a file for ``open_source``; parquet files, or a folder of them.

    ``labels``, ``ids``: (n,), in the place of any that the source has; labels also as a ``.npy`` file.
    """
    rows = _opened(source)
    if 0 in rows.shape:
        raise ValueError(f"{name} has shape {rows.shape}; give at least one row, of at least one value")
    if isinstance(labels, (str, os.PathLike)):
        labels = read_npy(labels)
    for column, given in (("labels", labels), ("ids", ids)):
        if given is not None and np.shape(given) != (len(rows),):
            raise ValueError(
                f"{column} has shape {np.shape(given)}; the source has {len(rows)} rows, and each takes one"
            )
    if labels is not None:
        rows.labels, rows.classes = coded(np.asarray(labels))
    if ids is not None:
        rows.give_ids(_as_ids(np.asarray(ids)))
    return rows


def _opened(source: Any) -> RowSource:
    if isinstance(source, RowSource):
        return source.twin()
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
            f"source={source!r:.80} holds no rows of vectors; give an array (n, d), mapped or not, a .npy or .npz "
            "file of one, or parquet files"
        )
    rows: RowSource | None = FileRows.of(source.vectors)
    rows = HeldRows(source.vectors) if rows is None else rows
    rows.labels, rows.classes = source.labels, source.classes
    rows.ids = None if source.ids is None else _as_ids(source.ids)
    return rows


def _as_ids(ids: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers as int64, text as an array of text."""
    if ids.dtype.kind in "iu":
        if len(ids) and ids.max() > _LARGEST_ID:
            raise ValueError(f"ids holds {ids.max()}; give whole numbers of at most {_LARGEST_ID}, or text")
        return ids.astype(np.int64)
    if ids.dtype.kind == "U" or (ids.dtype == object and all(isinstance(v, str) for v in ids)):
        return ids.astype(np.str_)
    raise ValueError(f"ids has type {ids.dtype}; give whole numbers or text, one for each row")


def _checked(array: NDArray[Any]) -> tuple[tuple[int, int], np.dtype[Any]]:
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise ValueError(f"source has shape {array.shape} and type {array.dtype}; give numbers, (n, d)")
    return (array.shape[0], array.shape[1]), array.dtype


def _as_given(table: ParquetTable) -> NDArray[Any]:
    """The labels of a table as they stand in it; None where there is none."""
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
        raise TableError("some of the parquet files have ids or labels and others have none; all must be alike")
    return np.concatenate(present)
