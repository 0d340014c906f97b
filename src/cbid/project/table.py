"""The images of a project and their thumbnails: one SQLite file, so that a kill loses nothing that was committed.

Which images are *shown* is decided by the project's index alone. A row without a code in the index belongs to a fit
that has not ended yet (part "pending"), or to an addition that was killed; the next writer goes on with the former
and removes the latter.
"""

import errno
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from cbid.project.errors import ProjectError
from cbid.search import UnknownIdError

__all__ = ["PENDING", "ImageRecord", "ImageRow", "ImageTable"]

PENDING = "pending"
_AT_A_TIME = 500  # values that one statement names; SQLite takes at least 999
_SCHEMA = """
CREATE TABLE images (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice
    name TEXT NOT NULL,
    path BLOB NOT NULL,                    -- bytes, empty without a file
    label TEXT,
    part TEXT NOT NULL,
    origin TEXT NOT NULL,                  -- "fit" or "add": a fit removes only what a fit has brought
    stamp TEXT NOT NULL                    -- changes when the content does
);
CREATE INDEX by_path ON images (path);
CREATE TABLE vectors (n_features INTEGER PRIMARY KEY);
CREATE TABLE thumbnails (id INTEGER PRIMARY KEY, jpeg BLOB NOT NULL);
PRAGMA user_version = 1;
"""


@dataclass(frozen=True)
class ImageRecord:
    """One image: its id, its name in the source, its file ("" without one), its label and its part in the fit.

    part: "train" was learned from, "held-out" measured on, "added" neither.
    """

    id: int
    name: str
    path: str
    label: str | None
    part: str


class ImageRow(NamedTuple):
    """A row as it is written."""

    id: int
    name: str
    path: bytes
    label: str | None
    part: str
    origin: str
    stamp: str

    @property
    def key(self) -> bytes:
        """What makes it the same image in the next run, with the same stamp: its file, or its name without one."""
        return self.path or self.name.encode()


class ImageTable:
    """Rows and thumbnails by id. Any thread may call; one process writes."""

    def __init__(self, path: Path, *, write: bool = False) -> None:
        self._path = path
        self._mutex = threading.RLock()
        if not write and not path.is_file():
            raise ProjectError(f"{path} is missing: {path.parent} is no whole project")
        with self._told():
            # A reader may have to undo what a killed writer had begun; it can if the place allows it.
            own = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
            mode = "rwc" if write else "rw" if own else "ro"
            self._connection = sqlite3.connect(
                f"file:{quote(os.fspath(path.absolute()))}?mode={mode}",
                uri=True,
                check_same_thread=False,
                timeout=60,
                isolation_level=None,
            )
            try:
                self._connection.execute("PRAGMA synchronous = FULL" if write else "PRAGMA query_only = ON")
                version = self._connection.execute("PRAGMA user_version").fetchone()[0]
                if version == 0 and write:
                    with self._transaction():
                        for statement in _SCHEMA.split(";")[:-1]:
                            self._connection.execute(statement)
                elif version != 1:
                    raise ProjectError(f"{path} has version {version} of the table of images; this cbid reads 1")
            except BaseException:
                self._connection.close()
                raise
        self._close = weakref.finalize(self, self._connection.close)

    def close(self) -> None:
        with self._mutex:
            self._close()

    # Reading

    def records(self, ids: Sequence[int] | NDArray[np.int64]) -> list[ImageRecord]:
        """The records of ids, in their order; an unknown one is an error."""
        columns = "id, name, path, label, part"
        found = {row[0]: row for row in self._of_ids(f"SELECT {columns} FROM images WHERE id IN", ids)}
        records = []
        for id in map(int, ids):
            if id not in found:
                raise UnknownIdError(f"id={id} is not in the project")
            _, name, path, label, part = found[id]
            records.append(ImageRecord(id, name, os.fsdecode(path), label, part))
        return records

    def thumbnail(self, id: int) -> bytes | None:
        """A JPEG, or None where the image has none."""
        found = self._of_ids("SELECT jpeg FROM thumbnails WHERE id IN", [id])
        return found[0][0] if found else None

    def ids_of(self, path: bytes) -> list[int]:
        """The ids of images of this file."""
        with self._mutex, self._told():
            found = self._connection.execute("SELECT id FROM images WHERE path = ?", (path,)).fetchall()
        return [int(row[0]) for row in found]

    def rows(self) -> Iterator[ImageRow]:
        """All rows by id, those of unfinished work included."""
        query = "SELECT id, name, path, label, part, origin, stamp FROM images ORDER BY id"
        with self._mutex, self._told():
            for row in self._connection.execute(query):
                yield ImageRow(*row)

    def n_settled(self) -> int:
        """How many rows there are, those of an unfinished fit left out."""
        with self._mutex, self._told():
            row = self._connection.execute("SELECT count(*) FROM images WHERE part != ?", (PENDING,)).fetchone()
        return int(row[0])

    def next_id(self) -> int:
        """The smallest id that was never given."""
        with self._mutex, self._told():
            row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'images'").fetchone()
        return 0 if row is None else int(row[0]) + 1

    def n_features(self) -> int | None:
        """Values of the images' vectors, or None before the first image."""
        with self._mutex, self._told():
            row = self._connection.execute("SELECT n_features FROM vectors").fetchone()
        return None if row is None else int(row[0])

    # Writing: each call is one transaction

    def insert(self, rows: Sequence[ImageRow], thumbnails: Sequence[bytes | None], n_features: int) -> None:
        with self._mutex, self._told(), self._transaction() as run:
            run.execute("INSERT OR IGNORE INTO vectors VALUES (?)", (n_features,))
            run.executemany("INSERT INTO images VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            pictures = ((row.id, jpeg) for row, jpeg in zip(rows, thumbnails) if jpeg is not None)
            run.executemany("INSERT INTO thumbnails VALUES (?, ?)", pictures)

    def settle(self, ids: Iterable[int], labels: Iterable[str | None], parts: Iterable[str]) -> None:
        """The labels and parts that a fit has given to images; they count as its own from now on."""
        with self._mutex, self._told(), self._transaction() as run:
            run.executemany(
                "UPDATE images SET label = ?, part = ?, origin = 'fit' WHERE id = ?", zip(labels, parts, ids)
            )

    def delete(self, ids: Iterable[int]) -> None:
        gone = [(int(id),) for id in ids]
        if gone:
            with self._mutex, self._told(), self._transaction() as run:
                run.executemany("DELETE FROM images WHERE id = ?", gone)
                run.executemany("DELETE FROM thumbnails WHERE id = ?", gone)

    def _of_ids(self, query: str, ids: Sequence[int] | NDArray[np.int64]) -> list[Any]:
        found: list[Any] = []
        with self._mutex, self._told():
            for start in range(0, len(ids), _AT_A_TIME):
                part = [int(id) for id in ids[start : start + _AT_A_TIME]]
                marks = ", ".join("?" * len(part))
                found += self._connection.execute(f"{query} ({marks})", part).fetchall()
        return found

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """SQLite's errors as those of files, or as damage, with the name of the file."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            number = {
                sqlite3.SQLITE_FULL: errno.ENOSPC,
                sqlite3.SQLITE_READONLY: errno.EACCES,
                sqlite3.SQLITE_CANTOPEN: errno.EACCES,
                sqlite3.SQLITE_IOERR: errno.EIO,
                sqlite3.SQLITE_BUSY: errno.EBUSY,
            }.get((code or 0) & 0xFF)
            if number is not None:
                raise OSError(number, f"{os.strerror(number)} ({error})", os.fspath(self._path)) from error
            raise ProjectError(f"{self._path} is damaged or no table of images: {error}") from error
