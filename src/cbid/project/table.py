"""The table of images and thumbnails of a project, in SQLite.

The index of the project alone decides which images exist. A row without a code in the index belongs to an unfinished
fit (part "pending"), which the next fit continues, or to an addition that was killed, which the next writer removes.
"""

import contextlib
import errno
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from cbid.project.files import ProjectError
from cbid.search import UnknownIdError

TRAIN, HELD_OUT, ADDED, PENDING = "train", "held-out", "added", "pending"  # parts
_MAX_IDS = 500  # ids per statement; SQLite accepts at least 999 values
_SCHEMA = """
CREATE TABLE images (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused
    name TEXT NOT NULL,
    path BLOB NOT NULL,                    -- bytes, empty if there is no file
    label TEXT,
    part TEXT NOT NULL,
    origin TEXT NOT NULL,                  -- "fit" or "add": a fit removes only rows of "fit"
    stamp TEXT NOT NULL                    -- changes with the content
);
CREATE INDEX by_path ON images (path);
CREATE TABLE vectors (n_features INTEGER PRIMARY KEY);
CREATE TABLE thumbnails (id INTEGER PRIMARY KEY, jpeg BLOB NOT NULL);
PRAGMA user_version = 1;
"""


@dataclass(frozen=True)
class ImageRecord:
    """One image of a project.

    Attributes
    ----------
    id : int
    name : str
        Name in the source.
    path : str
        Absolute path of the file; empty if there is none.
    label : str or None
    part : str
        "train" (used for learning), "held-out" (used for measuring) or "added" (neither).
    """

    id: int
    name: str
    path: str
    label: str | None
    part: str


class ImageRow(NamedTuple):
    """A row of the table."""

    id: int
    name: str
    path: bytes
    label: str | None
    part: str
    origin: str
    stamp: str

    @property
    def key(self) -> bytes:
        """The path, or the name if there is no file. Key and stamp identify an image in the next run."""
        return self.path or self.name.encode()


class ImageTable:
    """Rows and thumbnails by id. All threads may use it; one process writes."""

    def __init__(self, path: Path, *, write: bool = False) -> None:
        self._path = path
        self._mutex = threading.RLock()
        if not write and not path.is_file():
            raise ProjectError(f"{path} is missing: {path.parent} is not a complete project")
        with self._locked():
            # A reader may have to roll back the transaction of a killed writer, if permissions allow it.
            writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
            mode = "rwc" if write else "rw" if writable else "ro"
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
                    raise ProjectError(f"{path} has format version {version}; this cbid reads version 1")
            except BaseException:
                self._connection.close()
                raise
        self._close = weakref.finalize(self, self._connection.close)
        self._file = _file_id(path)

    def close(self) -> None:
        """Close the file."""
        with self._mutex:
            self._close()

    def is_replaced(self) -> bool:
        """Return whether another file has this path now."""
        return _file_id(self._path) != self._file

    # Reading

    def records(self, ids: Sequence[int] | NDArray[np.int64]) -> list[ImageRecord]:
        """Return the records of ids in their order. An unknown id raises an ``UnknownIdError``."""
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
        """Return a JPEG, or None if the image has no thumbnail."""
        found = self._of_ids("SELECT jpeg FROM thumbnails WHERE id IN", [id])
        return found[0][0] if found else None

    def ids_of(self, path: bytes) -> list[int]:
        """Return the ids of the images with this path."""
        with self._locked():
            found = self._connection.execute("SELECT id FROM images WHERE path = ?", (path,)).fetchall()
        return [int(row[0]) for row in found]

    def rows(self) -> Iterator[ImageRow]:
        """Return all rows by id, including those of unfinished work."""
        query = "SELECT id, name, path, label, part, origin, stamp FROM images ORDER BY id"
        with self._locked():
            for row in self._connection.execute(query):
                yield ImageRow(*row)

    def finished(self) -> tuple[int, int]:
        """Return the number and the sum of the ids, without those of an unfinished fit."""
        query = "SELECT count(*), coalesce(sum(id), 0) FROM images WHERE part != ?"
        with self._locked():
            count, total = self._connection.execute(query, (PENDING,)).fetchone()
        return int(count), int(total)

    def next_id(self) -> int:
        """Return the smallest id that was never used."""
        with self._locked():
            row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'images'").fetchone()
        return 0 if row is None else int(row[0]) + 1

    def n_features(self) -> int | None:
        """Return the length of a raw vector, or None before the first image."""
        with self._locked():
            row = self._connection.execute("SELECT n_features FROM vectors").fetchone()
        return None if row is None else int(row[0])

    # Writing: each call is one transaction

    def insert(self, rows: Sequence[ImageRow], thumbnails: Sequence[bytes | None], n_features: int) -> None:
        """Insert rows and their thumbnails."""
        with self._transaction() as run:
            run.execute("INSERT OR IGNORE INTO vectors VALUES (?)", (n_features,))
            run.executemany("INSERT INTO images VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            pictures = ((row.id, jpeg) for row, jpeg in zip(rows, thumbnails) if jpeg is not None)
            run.executemany("INSERT INTO thumbnails VALUES (?, ?)", pictures)

    def finish(self, ids: Iterable[int], labels: Iterable[str | None], parts: Iterable[str]) -> None:
        """Set the labels and parts of a committed fit; the rows belong to the fit from now on."""
        with self._transaction() as run:
            run.executemany(
                "UPDATE images SET label = ?, part = ?, origin = 'fit' WHERE id = ?", zip(labels, parts, ids)
            )

    def delete(self, ids: Iterable[int]) -> None:
        """Delete rows and thumbnails. Unknown ids are ignored."""
        gone = [(int(id),) for id in ids]
        if gone:
            with self._transaction() as run:
                run.executemany("DELETE FROM images WHERE id = ?", gone)
                run.executemany("DELETE FROM thumbnails WHERE id = ?", gone)

    def _of_ids(self, query: str, ids: Sequence[int] | NDArray[np.int64]) -> list[Any]:
        found: list[Any] = []
        with self._locked():
            for start in range(0, len(ids), _MAX_IDS):
                part = [int(id) for id in ids[start : start + _MAX_IDS]]
                marks = ", ".join("?" * len(part))
                found += self._connection.execute(f"{query} ({marks})", part).fetchall()
        return found

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._locked():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite has often rolled back already. A second error must not hide the first.
                with contextlib.suppress(sqlite3.Error):
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the mutex, and turn SQLite's errors into an ``OSError`` or a ``ProjectError`` that names the file."""
        try:
            with self._mutex:
                yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            number = {
                sqlite3.SQLITE_FULL: errno.ENOSPC,
                sqlite3.SQLITE_READONLY: errno.EACCES,
                sqlite3.SQLITE_CANTOPEN: errno.EACCES,
                sqlite3.SQLITE_IOERR: errno.EIO,
                sqlite3.SQLITE_BUSY: errno.EBUSY,
                sqlite3.SQLITE_LOCKED: errno.EBUSY,
                sqlite3.SQLITE_NOMEM: errno.ENOMEM,
                sqlite3.SQLITE_PERM: errno.EACCES,
                sqlite3.SQLITE_INTERRUPT: errno.EINTR,
            }.get((code or 0) & 0xFF)
            if number is not None:
                raise OSError(number, f"{os.strerror(number)} ({error})", os.fspath(self._path)) from error
            raise ProjectError(f"{self._path} is damaged or not a table of images: {error}") from error


def _file_id(path: Path) -> tuple[int, int]:
    try:
        info = os.stat(path)
    except OSError:
        return (0, 0)
    return info.st_dev, info.st_ino
