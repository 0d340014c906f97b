"""The table of images and thumbnails of a project, in SQLite.

The index of the project alone decides which images exist. A row without a code in the index belongs to an unfinished
fit (part "pending"), which the next fit continues, or to an addition that was killed, which the next writer removes.

Every row, thumbnail and vector has a checksum. The seal holds the number and the sum of the checksums, so that
missing or added rows are found too. A transaction changes rows, checksums and the seal together. Opening compares the
seal with the schema; reading a row compares the row with its checksum; ``damage`` and ``differences`` compare all.
"""

import contextlib
import errno
import json
import os
import re
import sqlite3
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from cbid.project.files import ProjectError
from cbid.search import UnknownIdError
from cbid.storage.atomic import check_no_link, check_regular
from cbid.storage.digests import digest_bytes

TRAIN, HELD_OUT, ADDED, PENDING = "train", "held-out", "added", "pending"  # parts
LABEL_SEPARATOR = "\x1f"  # between the labels of one image in the table and in the index
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
"""
_UNSEALED, _SEALED = 1, 2  # versions of the table; 0.1.0 wrote the first and rejects the second
_SEAL = "CREATE TABLE seal (content TEXT NOT NULL, checksum BLOB NOT NULL)"  # one row: a list, see ``_seal_of``
_CHECKSUMS = """
CREATE TABLE IF NOT EXISTS checksums (     -- since 0.2; of a row, its thumbnail and its raw vector
    id INTEGER PRIMARY KEY,
    row BLOB NOT NULL,
    jpeg BLOB,
    vector BLOB
)
"""

_GIVEN = """
CREATE TABLE IF NOT EXISTS given_labels (  -- since 0.2; labels that were given by hand
    id INTEGER PRIMARY KEY,
    label TEXT,
    source TEXT,                           -- the label in the source; if that changes, it replaces the given one
    state TEXT NOT NULL                    -- asked: not committed yet; given: committed; learned: used by a fit
)
"""


def _normal(sql: str | None) -> str:
    """Return SQL without comments and needless space, as SQLite stores it."""
    text = " ".join(re.sub(r"--[^\n]*", "", sql or "").split())
    return text.replace("CREATE TABLE IF NOT EXISTS", "CREATE TABLE")


# All that a table may have. A view or trigger of somebody else could run without end when it is read.
_KNOWN_SCHEMA = frozenset(
    map(_normal, (*_SCHEMA.split(";")[:-1], _CHECKSUMS, _GIVEN, _SEAL, "CREATE TABLE sqlite_sequence(name,seq)"))
)


def join_labels(labels: Iterable[Any]) -> str | None:
    """Return labels as one text, as the table and the index store them; None without labels."""
    names = sorted({str(label) for label in labels} - {""})
    for name in names:
        if LABEL_SEPARATOR in name:
            raise ValueError(f"label {name!r} has the character U+001F: expected other characters")
    return LABEL_SEPARATOR.join(names) or None


def split_labels(text: str | None) -> list[str]:
    """Return the labels of a stored text."""
    return text.split(LABEL_SEPARATOR) if text else []


def shown_labels(text: str) -> str:
    """Return a stored text as people read it."""
    return text.replace(LABEL_SEPARATOR, ", ")


@dataclass(frozen=True)
class ImageRecord:
    """One image of a project.

    Attributes
    ----------
    id : int
    name : str
        Name in the source.
    path : str
        Absolute path of the file; empty for images without a file.
    label : str or None
        With several labels, all of them, separated by commas.
    part : str
        "train" (used for learning), "held-out" (used for measuring) or "added" (neither).
    labels : list of str
        The labels, empty if there are none.
    """

    id: int
    name: str
    path: str
    label: str | None
    part: str
    labels: list[str]


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
        for suffix in ("", "-journal", "-wal", "-shm"):  # SQLite would change the files that they lead to
            check_no_link(f"{path}{suffix}")
            if os.path.exists(f"{path}{suffix}"):
                check_regular(f"{path}{suffix}")  # SQLite would wait for a pipe
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
                self._connection.execute("PRAGMA trusted_schema = OFF")
                self._check_schema()
                version = self._connection.execute("PRAGMA user_version").fetchone()[0]
                if version == 0 and write:
                    with self._transaction():
                        for statement in (*_SCHEMA.split(";")[:-1], _CHECKSUMS, _GIVEN):
                            self._connection.execute(statement)
                        self._add_seal()
                elif version not in (_UNSEALED, _SEALED):
                    raise ProjectError(f"{path} has format version {version}; this cbid reads versions 1 and 2")
                elif version == _SEALED:
                    with self._transaction("BEGIN"):
                        self._check_seal()
                elif write:
                    self._connection.execute(_CHECKSUMS)
                    self._connection.execute(_GIVEN)
                self.is_sealed = version != _UNSEALED  # False: made by 0.1.0, some rows may have no checksums
            except BaseException:
                self._connection.close()
                raise
        self._close = weakref.finalize(self, self._connection.close)
        self._file = _file_id(path)

    def _check_schema(self) -> None:
        for (sql,) in self._connection.execute("SELECT sql FROM sqlite_master"):
            if _normal(sql) not in _KNOWN_SCHEMA:
                raise ProjectError(f"{self._path} is damaged or not a table of images: {_normal(sql)[:60]!r}")

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
        columns = "i.id, i.name, i.path, i.label, i.part, i.origin, i.stamp"
        found = {row[0]: row for row in self._with_sums(columns, "row", "images", ids)}
        records = []
        for id in map(int, ids):
            if id not in found:
                raise UnknownIdError(f"id={id} is not in the project")
            row, checksum = ImageRow(*found[id][:-1]), found[id][-1]
            self._compare(id, "row", self.is_sealed and _row_checksum(row) != checksum)
            shown = None if row.label is None else shown_labels(row.label)
            records.append(ImageRecord(id, row.name, os.fsdecode(row.path), shown, row.part, split_labels(row.label)))
        return records

    def thumbnail(self, id: int) -> bytes | None:
        """Return a JPEG, or None if the image has no thumbnail."""
        found = self._with_sums("i.jpeg", "jpeg", "thumbnails", [id])
        if not found:
            return None
        jpeg, checksum = found[0]
        self._compare(id, "thumbnail", self.is_sealed and _jpeg_checksum(jpeg) != checksum)
        return bytes(jpeg)

    def check_vector(self, id: int, vector: NDArray[np.float32]) -> None:
        """Compare a raw vector with its checksum."""
        if self.is_sealed:
            found = self._of_ids("SELECT vector FROM checksums WHERE id IN", [id])
            self._compare(id, "vector", not found or found[0][0] != _vector_checksum(vector))

    def _with_sums(self, columns: str, sums: str, name: str, ids: Sequence[int] | NDArray[np.int64]) -> list[Any]:
        """Return columns of a table with the checksums of the same rows, NULL in an older project."""
        join, sums = (" LEFT JOIN checksums c ON c.id = i.id", f"c.{sums}") if self.is_sealed else ("", "NULL")
        return self._of_ids(f"SELECT {columns}, {sums} FROM {name} i{join} WHERE i.id IN", ids)

    def _compare(self, id: int, what: str, differs: bool) -> None:
        if differs:
            raise ProjectError(f"{self._path.parent} is damaged: id={id}: its {what} differs from its checksum")

    def ids_of(self, path: bytes) -> list[int]:
        """Return the ids of the images with this path."""
        return [int(id) for (id,) in self._all("SELECT id FROM images WHERE path = ?", path)]

    def ids_in(self, part: str) -> NDArray[np.int64]:
        """Return the ids of the images of one part."""
        found = self._all("SELECT id FROM images WHERE part = ?", part)
        return np.array([id for (id,) in found], dtype=np.int64)

    def rows(self) -> Iterator[ImageRow]:
        """Return all rows by id, including those of unfinished work."""
        query = "SELECT id, name, path, label, part, origin, stamp FROM images ORDER BY id"
        with self._locked():
            for row in self._connection.execute(query):
                yield ImageRow(*row)

    def finished(self) -> tuple[int, int]:
        """Return the number and the sum of the ids, without those of an unfinished fit."""
        query = "SELECT count(*), coalesce(sum(id), 0) FROM images WHERE part != ?"
        ((count, total),) = self._all(query, PENDING)
        return int(count), int(total)

    def next_id(self) -> int:
        """Return the smallest id that was never used."""
        found = self._all("SELECT seq FROM sqlite_sequence WHERE name = 'images'")
        return int(found[0][0]) + 1 if found else 0

    def n_features(self) -> int | None:
        """Return the length of a raw vector, or None before the first image."""
        found = self._all("SELECT n_features FROM vectors")
        return int(found[0][0]) if found else None

    # Writing: each call is one transaction

    def insert(
        self,
        rows: Sequence[ImageRow],
        thumbnails: Sequence[bytes | None],
        n_features: int,
        vectors: NDArray[np.float32] | None = None,
    ) -> None:
        """Insert rows, their thumbnails, and the checksums of both and of the raw vectors (n, d)."""
        sums = map(_checksums, rows, thumbnails, [None] * len(rows) if vectors is None else vectors)
        with self._changing([row.id for row in rows]) as run:
            run.execute("INSERT OR IGNORE INTO vectors VALUES (?)", (n_features,))
            run.executemany("INSERT INTO images VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            pictures = ((row.id, jpeg) for row, jpeg in zip(rows, thumbnails) if jpeg is not None)
            run.executemany("INSERT INTO thumbnails VALUES (?, ?)", pictures)
            run.executemany("INSERT OR REPLACE INTO checksums VALUES (?, ?, ?, ?)", sums)

    def finish(
        self, ids: Iterable[int], labels: Iterable[str | None], parts: Iterable[str], *, own: bool = True
    ) -> None:
        """Set the labels and parts of a committed fit; with ``own`` the rows belong to the fit from now on."""
        wanted = list(zip(labels, parts, ids))
        origin = ", origin = 'fit'" if own else ""
        changed = {id for _, _, id in wanted}
        with self._changing(changed) as run:
            run.executemany(f"UPDATE images SET label = ?, part = ?{origin} WHERE id = ?", wanted)
            self._update_checksums(changed)

    def delete(self, ids: Iterable[int]) -> None:
        """Delete rows and thumbnails. Unknown ids are ignored."""
        gone = [(int(id),) for id in ids]
        if gone:
            with self._changing([id for (id,) in gone]) as run:
                for name in ("images", "thumbnails", "checksums", "given_labels"):
                    run.executemany(f"DELETE FROM {name} WHERE id = ?", gone)

    # Labels given by hand. The index commits them: asked before, settled after.

    def ask_labels(self, ids: Sequence[int], label: str | None) -> None:
        """Note that these images are about to get this label."""
        known = {id for (id,) in self._of_ids("SELECT id FROM given_labels WHERE id IN", ids)}
        with self._changing(ids) as run:
            run.executemany(
                "INSERT INTO given_labels SELECT id, label, label, 'asked' FROM images WHERE id = ?",
                [(id,) for id in ids if id not in known],
            )
            run.executemany(
                "UPDATE given_labels SET label = ?, state = 'asked' WHERE id = ?", [(label, i) for i in ids]
            )

    def asked_labels(self) -> list[int]:
        """Return the ids of images whose new label is not settled."""
        return [int(id) for (id,) in self._all("SELECT id FROM given_labels WHERE state = 'asked' ORDER BY id")]

    def settle_labels(self, labels: dict[int, str | None]) -> None:
        """Set the labels that the index holds for the images with unsettled labels; others are forgotten."""
        with self._changing({*labels, *self.asked_labels()}) as run:
            run.executemany("UPDATE images SET label = ? WHERE id = ?", [(label, id) for id, label in labels.items()])
            run.executemany(
                "UPDATE given_labels SET label = ?, state = 'given' WHERE id = ? AND state = 'asked'",
                [(label, id) for id, label in labels.items()],
            )
            run.execute("DELETE FROM given_labels WHERE state = 'asked'")
            self._update_checksums(labels.keys())

    def with_given(self, ids: NDArray[np.int64], labels: list[str | None]) -> list[str | None]:
        """Return labels of a source with those given by hand in their place, unless the source has changed them."""
        given = {id: (label, source) for id, label, source in self._all("SELECT id, label, source FROM given_labels")}
        listed = list(zip(ids.tolist(), labels))
        changed = [id for id, label in listed if id in given and given[id][1] != label]
        if changed:
            with self._changing(changed) as run:
                run.executemany("DELETE FROM given_labels WHERE id = ?", [(id,) for id in changed])
        return [given[id][0] if id in given and given[id][1] == label else label for id, label in listed]

    def n_unlearned(self) -> int:
        """Return the number of labels given by hand since the last fit."""
        if not self._has_table("given_labels"):
            return 0
        return int(self._all("SELECT count(*) FROM given_labels WHERE state != 'learned'")[0][0])

    def note_learned(self) -> None:
        """Note that a fit has used all labels given by hand."""
        with self._changing([id for (id,) in self._all("SELECT id FROM given_labels")]) as run:
            run.execute("DELETE FROM given_labels WHERE label IS source")
            run.execute("UPDATE given_labels SET state = 'learned'")

    # Checksums

    def damage(self) -> str | None:
        """Return what SQLite's integrity check or a comparison with the seal finds, or None. Reads everything."""
        with self._transaction("BEGIN") as run:
            found = [row[0] for row in run.execute("PRAGMA integrity_check(1)")]
            if found != ["ok"]:
                return str(found[0])
            if self.is_sealed and self._sums_of() != self._check_seal()[:4]:
                return "checksums are missing, added or changed: they differ from the seal"
        return None

    def differences(self, vectors: NDArray[np.float32]) -> tuple[list[tuple[int, str]], list[int]]:
        """Compare rows, thumbnails and raw vectors (rows, d) with their checksums.

        Returns the ids that differ, with what differs, and the ids without checksums.
        """
        wrong, missing = [], []
        for row, jpeg, sums in self._with_checksums():
            if sums is None or (sums[2] is None and row.id < len(vectors)):
                missing.append(row.id)
                continue
            if _row_checksum(row) != sums[0]:
                wrong.append((row.id, "its row differs from its checksum"))
            if _jpeg_checksum(jpeg) != sums[1]:
                wrong.append((row.id, "its thumbnail differs from its checksum"))
            if row.id >= len(vectors):
                wrong.append((row.id, "its vector is missing"))
            elif _vector_checksum(vectors[row.id]) != sums[2]:
                wrong.append((row.id, "its vector differs from its checksum"))
        return wrong, missing

    def add_checksums(self, vectors: NDArray[np.float32]) -> int:
        """Write the missing checksums of the present content, and the seal; return the number of checksums."""
        sums = [
            _checksums(row, jpeg, vectors[row.id] if row.id < len(vectors) else None)
            for row, jpeg, found in self._with_checksums()
            if found is None or found[2] is None
        ]
        with self._changing([id for id, *_ in sums]) as run:
            run.executemany("INSERT OR REPLACE INTO checksums VALUES (?, ?, ?, ?)", sums)
            if not self.is_sealed:
                self._add_seal()
        self.is_sealed = True
        return len(sums)

    def _update_checksums(self, ids: Collection[int]) -> None:
        """Write the checksums of rows that have changed."""
        sums = [(_row_checksum(row), row.id) for row in self.rows() if row.id in ids]
        self._connection.executemany("UPDATE checksums SET row = ? WHERE id = ?", sums)

    def _add_seal(self) -> None:
        self._connection.execute(_SEAL)
        self._write_seal(self._sums_of())
        self._connection.execute(f"PRAGMA user_version = {_SEALED}")

    def _write_seal(self, sums: list[int]) -> None:
        text = json.dumps(self._seal_of(sums))
        self._connection.execute("DELETE FROM seal")
        self._connection.execute("INSERT INTO seal VALUES (?, ?)", (text, _checksum(text.encode())))

    def _seal_of(self, sums: list[int]) -> list[Any]:
        """Return what the seal holds: the sums, the length of a vector, the next id, and a digest of the schema."""
        schema = self._connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name")
        return [*sums, self.n_features(), self.next_id(), _checksum(ascii(schema.fetchall()).encode()).hex()]

    def _check_seal(self) -> list[Any]:
        """Return the content of the seal after a fast comparison of everything except the sums."""
        rows = self._connection.execute("SELECT content, checksum FROM seal").fetchall()
        if len(rows) != 1 or not isinstance(rows[0][0], str) or _checksum(rows[0][0].encode()) != rows[0][1]:
            raise ProjectError(f"{self._path} is damaged: its seal differs from its checksum")
        sealed: list[Any] = json.loads(rows[0][0])
        if sealed != self._seal_of(sealed[:4]):
            raise ProjectError(f"{self._path} is damaged: its schema or next id differs from the seal")
        return sealed

    def _sums_of(self, ids: Iterable[int] | None = None) -> list[int]:
        """Return the number and the sum of the digests of checksums and of given labels, of these ids or of all."""
        found = []
        wanted = None if ids is None else list(ids)
        for columns, name in (("id, row, jpeg, vector", "checksums"), ("id, label, source, state", "given_labels")):
            query = f"SELECT {columns} FROM {name}"
            rows = self._connection.execute(query) if wanted is None else self._of_ids(f"{query} WHERE id IN", wanted)
            digests = [int.from_bytes(_checksum(ascii(row).encode()), "little") for row in rows]
            found += [len(digests), sum(digests) % 2**64]
        return found

    @contextlib.contextmanager
    def _changing(self, ids: Iterable[int]) -> Iterator[sqlite3.Connection]:
        """A transaction that changes rows of these ids only, and the seal with them."""
        changed = set(ids)  # an id that is given twice counts once
        with self._transaction() as run:
            before = self._sums_of(changed) if self.is_sealed else None
            yield run
            if before is not None:
                # The schema and the next id of the old seal differ already, so only its own checksum is compared.
                text, checksum = run.execute("SELECT content, checksum FROM seal").fetchone()
                if _checksum(text.encode()) != checksum:
                    raise ProjectError(f"{self._path} is damaged: its seal differs from its checksum")
                old, after = json.loads(text), self._sums_of(changed)
                self._write_seal([(n + new - gone) % 2**64 for n, new, gone in zip(old, after, before)])

    def _with_checksums(self) -> Iterator[tuple[ImageRow, bytes | None, tuple[bytes, bytes | None, bytes] | None]]:
        """Return every row with its thumbnail and its checksums."""
        with self._locked():
            stored = self._has_table("checksums")
            sums = "c.row, c.jpeg, c.vector" if stored else "NULL, NULL, NULL"
            join = "LEFT JOIN checksums c ON c.id = i.id" if stored else ""
            rows = self._connection.execute(
                f"SELECT i.id, i.name, i.path, i.label, i.part, i.origin, i.stamp, t.jpeg, {sums} FROM images i "
                f"LEFT JOIN thumbnails t ON t.id = i.id {join} ORDER BY i.id"
            )
            for row in rows:
                yield ImageRow(*row[:7]), row[7], None if row[8] is None else row[8:]

    def _all(self, query: str, *values: Any) -> list[Any]:
        """Return all rows that a query finds."""
        with self._locked():
            return self._connection.execute(query, values).fetchall()

    def _has_table(self, name: str) -> bool:
        return bool(self._all("SELECT 1 FROM sqlite_master WHERE name = ?", name))

    def _of_ids(self, query: str, ids: Sequence[int] | NDArray[np.int64]) -> list[Any]:
        found: list[Any] = []
        with self._locked():
            for start in range(0, len(ids), _MAX_IDS):
                part = [int(id) for id in ids[start : start + _MAX_IDS]]
                found += self._all(f"{query} ({', '.join('?' * len(part))})", *part)
        return found

    @contextlib.contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        with self._locked():
            self._connection.execute(begin)
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


def _checksum(content: bytes) -> bytes:
    return digest_bytes(content, size=8)


def _checksums(
    row: ImageRow, jpeg: bytes | None, vector: NDArray[np.float32] | None
) -> tuple[int, bytes, bytes | None, bytes | None]:
    """Return a row of the table of checksums."""
    return row.id, _row_checksum(row), _jpeg_checksum(jpeg), None if vector is None else _vector_checksum(vector)


def _row_checksum(row: ImageRow) -> bytes:
    return _checksum(ascii(tuple(row)).encode())  # ascii: the repr of a character depends on the version of Python


def _jpeg_checksum(jpeg: bytes | None) -> bytes | None:
    if jpeg is None:
        return None
    return _checksum(jpeg) if isinstance(jpeg, bytes) else b""  # damage has changed its type


def _vector_checksum(vector: NDArray[np.float32]) -> bytes:
    return _checksum(np.ascontiguousarray(vector, dtype=np.float32).tobytes())


def _file_id(path: Path) -> tuple[int, int]:
    try:
        info = os.stat(path)
    except OSError:
        return (0, 0)
    return info.st_dev, info.st_ino
