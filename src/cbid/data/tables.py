"""Vectors with ids and labels, in an array or in the columns of a parquet file."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.extras import missing_extra
from cbid.labels import encode_labels, unmarked
from cbid.storage.atomic import check_regular

_IDS = ("id", "ids", "key", "name", "path", "file", "filename")
_LABELS = ("label", "labels", "class", "target", "y", "category")


class TableError(ValueError):
    """The vectors of a table cannot be read; the message names the column and the row."""


class VectorTable:
    """Vectors in memory or memory-mapped.

    Parameters
    ----------
    vectors : array (n, d)
    ids : array (n,), optional
    labels : array (n,) of int64, optional
        The index of each label in ``classes``; -1 if it is missing.
    classes : array (c,), optional
        The sorted labels.

    Attributes
    ----------
    label_sets : list of n lists, or None
        The labels of each row, if there are several; ``labels`` and ``classes`` are then None.
    """

    label_sets: list[list[Any]] | None = None

    def __init__(
        self,
        vectors: NDArray[Any],
        ids: NDArray[Any] | None = None,
        labels: NDArray[np.int64] | None = None,
        classes: NDArray[Any] | None = None,
    ) -> None:
        if vectors.ndim != 2 or not vectors.shape[1] or vectors.dtype.kind not in "fiub":
            raise TableError(
                f"vectors has shape {vectors.shape} and type {vectors.dtype}: expected numbers (n, d), d at least 1"
            )
        for name, column in (("ids", ids), ("labels", labels)):
            if column is not None and column.shape != (len(vectors),):
                raise TableError(f"{name} has shape {column.shape}: expected ({len(vectors)},)")
        self._vectors, self.ids, self.labels, self.classes = vectors, ids, labels, classes

    @property
    def vectors(self) -> NDArray[Any]:
        """All vectors, (n, d)."""
        return self._vectors

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of values in each."""
        return self._vectors.shape

    def __len__(self) -> int:
        return self.shape[0]

    def batches(self, rows: int = 8192) -> Iterator[NDArray[Any]]:
        """Yield the vectors in order, at most ``rows`` at a time."""
        for start in range(0, len(self), rows):
            yield self._vectors[start : start + rows]

    def __repr__(self) -> str:
        classes = "" if self.classes is None else f", {len(self.classes)} classes"
        return f"<{type(self).__name__}: {self.shape[0]} vectors of {self.shape[1]} values{classes}>"


class ParquetTable(VectorTable):
    """Vectors in a list column of a parquet file, with optional columns of ids and labels.

    Vectors are read on demand: ``batches`` holds one row group at a time, ``vectors`` reads all. They are float64 if
    the column is, else float32.

    Parameters
    ----------
    path : path
        The parquet file.
    vectors, ids, labels : str, optional
        Names of columns. By default the only column of lists of numbers, and columns with names such as id and label.
        All vectors must have the same length. A column of labels that holds lists gives several labels to each row.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        vectors: str | None = None,
        ids: str | None = None,
        labels: str | None = None,
    ) -> None:
        self._path = os.fspath(path)
        file = self._open()
        schema = file.schema_arrow
        for argument, name in (("vectors", vectors), ("ids", ids), ("labels", labels)):
            if name is not None and name not in schema.names:
                raise TableError(f"{self._path}: {argument}={name!r}: expected one of the columns {schema.names}")
        label_column, id_column = labels or _first_of(_LABELS, schema.names), ids or _first_of(_IDS, schema.names)
        self._column = vectors or self._list_column(schema, label_column)
        kind = schema.field(self._column).type
        if not _is_list_of_numbers(kind):
            raise TableError(f"{self._path}: column {self._column!r} has type {kind}: expected lists of numbers")
        self._dtype = np.dtype(np.float64 if kind.value_type == "double" else np.float32)
        self._rows = int(file.metadata.num_rows)
        if not self._rows:
            raise TableError(f"{self._path} has no rows")
        self._width = len(next(self.batches(1))[0])
        self.ids = None if id_column is None else self._values(file, id_column)
        self.labels = self.classes = None
        if label_column is not None and _is_list(schema.field(label_column).type):
            self.label_sets = self._label_sets(file, label_column)
        elif label_column is not None:
            self.classes, self.labels = encode_labels(unmarked(self._values(file, label_column)), missing=True)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of values in each."""
        return self._rows, self._width

    @property
    def vectors(self) -> NDArray[Any]:
        """All vectors, (n, d), read on each access."""
        values = np.empty(self.shape, self._dtype)
        start = 0
        for batch in self.batches():
            values[start : start + len(batch)] = batch
            start += len(batch)
        return values

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the vectors."""
        return self._dtype

    @property
    def group_sizes(self) -> list[int]:
        """Number of rows of each row group."""
        metadata = self._open().metadata
        return [int(metadata.row_group(g).num_rows) for g in range(metadata.num_row_groups)]

    def batches(self, rows: int = 8192, *, groups: list[int] | None = None) -> Iterator[NDArray[Any]]:
        """Yield the vectors in order, at most ``rows`` at a time; only those of ``groups`` if given."""
        from pyarrow import ArrowException

        start, width = 0, None
        try:
            for batch in self._open().iter_batches(batch_size=rows, row_groups=groups, columns=[self._column]):
                values = self._matrix(batch.column(0), start, width)
                start, width = start + len(values), values.shape[1]
                if len(values):
                    yield values
        except (ArrowException, OSError) as error:
            raise TableError(f"{self._path} is damaged: {error}") from error

    def _matrix(self, column: Any, start: int, width: int | None) -> NDArray[Any]:
        """Return a batch of lists as an array (rows, width)."""
        sizes = column.value_lengths().to_numpy(zero_copy_only=False)
        if column.null_count:
            raise TableError(
                f"{self._path}: {self._column} has no vector in row {start + int(np.isnan(sizes).argmax())}"
            )
        if len(sizes) and width is None:
            width = int(sizes[0])
        if width == 0 or (sizes != width).any():
            row = int((sizes != width).argmax())
            raise TableError(
                f"{self._path}: {self._column} has {int(sizes[row])} values in row {start + row}: "
                f"expected {width}, as in the first row"
            )
        flat = column.flatten()
        if flat.null_count:
            row = start + int(flat.is_null().to_numpy(zero_copy_only=False).argmax()) // int(width or 1)
            raise TableError(f"{self._path}: {self._column} has a null value in row {row}")
        return np.asarray(flat.to_numpy(zero_copy_only=False)).astype(self._dtype, copy=False).reshape(len(sizes), -1)

    def _values(self, file: Any, name: str) -> NDArray[Any]:
        """Return a column of ids or labels; an object array with None for nulls, if it has any."""
        column = file.read(columns=[name]).column(0)
        if column.null_count:
            return np.array([*column.to_pylist(), None], dtype=object)[:-1]
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def _label_sets(self, file: Any, name: str) -> list[list[Any]]:
        """Return a column of lists of labels; a null is a list without labels."""
        rows = [list(dict.fromkeys(row or ())) for row in file.read(columns=[name]).column(0).to_pylist()]
        for i, row in enumerate(rows):
            if None in row:
                raise TableError(f"{self._path}: {name} has a null label in row {i}: expected lists of labels")
        return rows

    def _list_column(self, schema: Any, label_column: str | None) -> str:
        columns = [field for field in schema if field.name != label_column]
        names = [field.name for field in columns if _is_list_of_numbers(field.type)]
        if len(names) != 1:
            found = f"there are {names}; set vectors=" if names else f"its columns are {schema.names}"
            raise TableError(f"{self._path}: expected one column of lists of numbers; {found}")
        return str(names[0])

    def _open(self) -> Any:
        try:
            from pyarrow import ArrowException
            from pyarrow.parquet import ParquetFile
        except ImportError as error:
            raise missing_extra("a parquet file", "tables") from error
        check_regular(self._path)
        try:
            return ParquetFile(self._path, memory_map=True)
        except ArrowException as error:
            raise TableError(f"{self._path} is not a parquet file: {error}") from error


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_list_of_numbers(kind: Any) -> bool:
    from pyarrow import types

    return bool(_is_list(kind) and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type)))


def _first_of(wanted: tuple[str, ...], names: list[str]) -> str | None:
    lower = {name.lower(): name for name in names}
    return next((lower[name] for name in wanted if name in lower), None)
