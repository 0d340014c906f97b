"""An index on disk: a directory of immutable files, and a manifest that names the committed ones.

A commit writes new files under new names, flushes them, and then replaces the manifest by renaming. A process
may be killed at any moment: the manifest always names a complete state. The writer deletes files that are no
longer named. Readers that have them mapped keep them (POSIX); a reader that opens during a commit retries.
"""

import contextlib
import dataclasses
import functools
import secrets
import shutil
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.codes import n_bytes
from cbid.search.blocks import BLOCK
from cbid.search.checks import IndexConflictError, IndexCorruptError
from cbid.search.collection import Attached, AttachedFile, IndexState
from cbid.search.ivf import Cells
from cbid.search.manifest import (
    MANIFEST_NAME,
    FileRecord,
    IndexManifest,
    LongerRecord,
    SegmentRecord,
    check_content,
    is_index_file,
    map_array,
    record_of,
    write_array,
)
from cbid.search.segments import Segment
from cbid.search.vocabulary import Vocabulary
from cbid.storage.atomic import LOCK_NAME, WriterLock, flush

_LABEL_TYPES = ("|u1", "<u2", "<u4", "<u8")
_TRIES = 20  # a reader retries when a commit happens between its manifest and its files


class IndexStore:
    """One index directory, and the state of it that this process last read or wrote."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest: IndexManifest | None = None
        self.stamp: str | None = None
        self.is_committed: bool | None = True  # whether the last commit took place; None: it could not be found out
        self._lock: WriterLock | None = None
        # By name, so that unchanged segments are not mapped again; weak, so that merged ones free their memory.
        self._segments: weakref.WeakValueDictionary[str, Segment] = weakref.WeakValueDictionary()
        self._cells: Cells | None = None
        self._vocabulary: Vocabulary | None = None
        self._weights: list[tuple[NDArray[np.float64], FileRecord]] = []

    def acquire(self) -> None:
        """Take the writer lock of an existing index, and hold it until `close`."""
        IndexManifest.read(self.directory)  # first: no lock file may be created in a directory that is not an index
        try:
            self._lock = WriterLock(self.directory)
        except PermissionError as error:
            raise PermissionError(error.errno, f"{self.directory} cannot be opened for writing") from error

    def close(self) -> None:
        """Release the writer lock, if it is held."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read(self) -> IndexState:
        """Map the committed state."""
        for attempt in range(_TRIES):
            manifest, stamp = IndexManifest.read(self.directory)
            try:
                state = self._mapped(manifest)
            except FileNotFoundError as error:
                if IndexManifest.read(self.directory)[1] != stamp and attempt + 1 < _TRIES:
                    continue
                raise IndexCorruptError(f"{error.filename} is missing") from error
            except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
                raise IndexCorruptError(
                    f"{self.directory} is damaged: its manifest is not valid ({error})"
                ) from error
            self._remember(manifest, stamp, state)
            return state
        raise IndexCorruptError(f"{self.directory} changed during each of {_TRIES} attempts to read it")

    def changed(self) -> bool:
        """Whether another process has committed since the last read or write."""
        return IndexManifest.read(self.directory)[1] != self.stamp

    def verify(self) -> None:
        """Compare every file of the state last read or written with its checksum."""
        assert self.manifest is not None
        for record in self.manifest.files():
            try:
                check_content(self.directory, record)
            except FileNotFoundError as error:
                if self.changed():
                    raise IndexConflictError(
                        f"{self.directory}: another writer has committed and deleted files of the state read here; "
                        "call refresh() first"
                    ) from error
                raise IndexCorruptError(f"{error.filename} is missing") from error

    def commit(self, state: IndexState, *, changed: bool = True) -> None:
        """Make ``state`` the committed one; ``changed=False``: it is the state last read or written.

        After an error, ``is_committed`` and the message say whether the commit took place. If it did not, the
        directory and this object are as before.
        """
        self.is_committed = False
        created, held = False, self._lock
        if self.manifest is not None and not self.directory.exists():  # someone deleted it: write everything again
            again = IndexStore(self.directory)
            again.commit(state)
            self.close()
            self.__dict__.update(again.__dict__)
            if held is not None:
                self.acquire()
            return
        try:
            created = self._make_directory()
            held = held or WriterLock(self.directory)
            previous = self._current()
            if self.manifest is None or changed:
                self._sweep()
                self._write(state, previous)
            self.is_committed = True
        except OSError as error:
            if error.errno is None:  # raised here, with a complete message
                raise
            outcome = {
                False: "was not saved, and its committed state is unchanged",
                True: "was saved, but a power failure may undo it",
                None: "may have been saved or not; open it again to see",
            }[self.is_committed]
            raise OSError(error.errno, f"{self.directory} {outcome}: {error.strerror}") from error
        finally:
            if held is not None and self.manifest is None and not (self.directory / MANIFEST_NAME).exists():
                with contextlib.suppress(OSError):  # the first error is the one to report
                    self._abandon(created)
            if self._lock is None and held is not None:
                held.release()

    # Reading

    def _mapped(self, manifest: IndexManifest) -> IndexState:
        n_bits = manifest.n_bits
        weights = cells = vocabulary = None
        if manifest.weights is not None:
            shape = (n_bits, manifest.n_weights) if manifest.n_weights else (n_bits,)
            weights = self._loaded(manifest.weights, np.float64, shape)
        if manifest.centres is not None:
            assert manifest.n_cells is not None
            centres = self._loaded(manifest.centres, np.float32, (manifest.n_cells, n_bits))
            per_bit = weights.mean(axis=1) if weights is not None and weights.ndim == 2 else weights
            cells = Cells(centres, per_bit)
        if manifest.label_kind is not None:
            vocabulary = Vocabulary(manifest.label_kind, manifest.label_values, closed=bool(manifest.n_weights))
        if manifest.label_sets is not None and manifest.label_kind is not None:
            packed = self._loaded(manifest.label_sets, np.int64, None)
            n_sets = manifest.n_label_sets or 0
            vocabulary = Vocabulary.from_packed(manifest.label_kind, manifest.label_values, packed, n_sets)
        segments = [self._mapped_segment(record, n_bytes(n_bits)) for record in manifest.segments]
        longer = None
        if manifest.longer is not None:
            length, stored = manifest.longer.n_bits, manifest.longer.weights
            n_longer = sum(record.n_live for record in manifest.longer.segments)
            if length <= n_bits or n_longer >= sum(record.n_live for record in manifest.segments):
                raise IndexCorruptError(
                    f"{self.directory} has {n_longer} codes of {length} bits besides those of {n_bits}; expected "
                    "more bits and fewer codes"
                )
            longer_weights = None if stored is None else self._loaded(stored, np.float64, (length,))
            longer_segments = [self._mapped_segment(record, n_bytes(length)) for record in manifest.longer.segments]
            longer = IndexState(length, longer_weights, None, 0, None, 0, None, longer_segments)
        return IndexState(
            n_bits,
            weights,
            vocabulary,
            manifest.next_id,
            manifest.n_cells,
            manifest.probes,
            cells,
            segments,
            self._attached(manifest),
            longer,
        )

    def _attached(self, manifest: IndexManifest) -> Attached | None:
        if manifest.attached is None:
            return None
        files = {}
        for key, record in manifest.attached["files"].items():
            path = self.directory / record["file"]
            size = path.stat().st_size
            if size != record["bytes"]:
                raise IndexCorruptError(f"{path} is damaged: it has {size} bytes; expected {record['bytes']}")
            files[key] = AttachedFile(path.suffix, functools.partial(shutil.copyfile, path), record["file"])
        return Attached(manifest.attached["values"], files)

    def _mapped_segment(self, record: SegmentRecord, width: int) -> Segment:
        directory, n, known = self.directory, record.n, self._segments.get(record.name)
        if known is not None:
            blocks, ids, labels, runs = known.blocks, known.ids, known.labels, known.runs
        else:
            blocks = map_array(directory, record.codes, np.uint8, (-(-n // BLOCK), width, BLOCK))
            ids = map_array(directory, record.ids, np.int64, (n,))
            # Scans trust the start and end of each run, so these are read and checked.
            runs = self._loaded(record.runs, np.int64, (record.n_runs, 3))
            starts = np.append(runs[:, 0], n)
            if starts[0] != 0 or np.any(starts[1:] <= starts[:-1]):
                raise IndexCorruptError(f"{directory / record.runs['file']} does not divide {n} codes into runs")
            labels = None
            if record.labels is not None:
                if record.label_type not in _LABEL_TYPES:
                    raise IndexCorruptError(f"{directory} has labels of unknown type {record.label_type!r}")
                labels = map_array(directory, record.labels, np.dtype(record.label_type), (n,))
        keep = None
        if record.removed is not None:
            removed = self._loaded(record.removed, np.uint8, (n_bytes(n),))
            keep = 1 - np.unpackbits(removed, count=n)
        if record.n_live != (n if keep is None else int(keep.sum())):
            raise IndexCorruptError(f"{directory} is damaged: {record.name} has another number of codes")
        return Segment(blocks, ids, labels, runs, keep, record.n_live, stored_as=record.name)

    def _loaded(self, record: FileRecord, dtype: Any, shape: tuple[int, ...] | None) -> NDArray[Any]:
        """Read a small file and check its content; without a shape it holds one dimension of any length."""
        array = map_array(self.directory, record, dtype, shape)
        check_content(self.directory, record)
        return np.array(array)

    def _remember(self, manifest: IndexManifest, stamp: str, state: IndexState) -> None:
        self.manifest, self.stamp = manifest, stamp
        self._cells, self._vocabulary = state.cells, state.vocabulary
        self._segments.clear()
        self._weights = []
        for part, records in ((state, manifest), (state.longer, manifest.longer)):
            if part is None or records is None:
                continue
            for segment, record in zip(part.segments, records.segments):
                self._segments[record.name] = segment
                segment.stored_as, segment.keep_stored = record.name, True
            if part.weights is not None and records.weights is not None:
                self._weights.append((part.weights, records.weights))
        if state.attached is not None and manifest.attached is not None:
            for key, file in state.attached.files.items():
                file.stored_as = manifest.attached["files"][key]["file"]

    # Writing

    def _make_directory(self) -> bool:
        """Create the directory if it is missing; reject one that holds anything but an index."""
        directory = self.directory
        if not directory.exists():
            directory.mkdir()
            flush(directory.parent)
            return True
        if not directory.is_dir():
            raise FileExistsError(f"{directory} is a file; expected a directory")
        names = [entry.name for entry in directory.iterdir()]
        if MANIFEST_NAME in names:
            IndexManifest.read(directory)  # raises if it is not the manifest of an index
            return False
        foreign = sorted(name for name in names if not is_index_file(name))
        if foreign:
            raise FileExistsError(
                f"{directory} is not an index and holds other files ({foreign[0]!r}); "
                "expected a new name, an empty directory or an index"
            )
        return False

    def _current(self) -> IndexManifest | None:
        """Read the manifest on disk, under the lock; raise if it is not the one this object knows."""
        if not (self.directory / MANIFEST_NAME).exists() and self.manifest is None:
            return None
        current, stamp = IndexManifest.read(self.directory)
        if self.manifest is not None and stamp != self.stamp:
            raise IndexConflictError(
                f"{self.directory}: another writer has committed generation {current.generation} since this index "
                f"read generation {self.manifest.generation}; open it again and repeat the changes, or save to "
                "another path"
            )
        return current

    def _write(self, state: IndexState, previous: IndexManifest | None) -> None:
        manifest = None
        try:
            manifest = self._written(state, previous)
            flush(self.directory)
            stamp = manifest.write(self.directory)
            self._remember(manifest, stamp, state)
        except BaseException:
            # The error may have come after the renaming of the manifest: only the one on disk tells.
            self.is_committed = False if manifest is None else self._on_disk(manifest)
            if manifest is not None and self.is_committed:
                self._remember(manifest, manifest.stamp(), state)
            raise
        finally:
            # After a failure this deletes the new files, after a success those of the old state. What it cannot
            # delete does no harm, and the next commit tries again.
            with contextlib.suppress(OSError, IndexCorruptError):
                self._sweep()

    def _on_disk(self, manifest: IndexManifest) -> bool | None:
        """Return whether this manifest is the committed one; None if the directory cannot be read."""
        try:
            (self.directory / MANIFEST_NAME).stat()
        except FileNotFoundError:
            return False
        except OSError:
            return None
        try:
            return IndexManifest.read(self.directory)[1] == manifest.stamp()
        except (OSError, IndexCorruptError):
            return None

    def _written(self, state: IndexState, previous: IndexManifest | None) -> IndexManifest:
        known: dict[str, SegmentRecord] = {}
        if self.manifest is not None:
            longer = [] if self.manifest.longer is None else self.manifest.longer.segments
            known = {record.name: record for record in (*self.manifest.segments, *longer)}
        manifest = IndexManifest(
            n_bits=state.n_bits,
            generation=previous.generation + 1 if previous is not None else 1,
            next_id=state.next_id,
            n_cells=state.n_cells,
            probes=state.probes,
        )
        if state.vocabulary is not None:
            manifest.label_kind, manifest.label_values = state.vocabulary.kind, state.vocabulary.values
            if state.vocabulary.sets is not None:
                manifest.n_label_sets = state.vocabulary.sets.shape[0]
                if self.manifest is not None and state.vocabulary is self._vocabulary:
                    manifest.label_sets = self.manifest.label_sets
                if manifest.label_sets is None:
                    manifest.label_sets = write_array(self._new_path("sets"), state.vocabulary.packed_sets())
        if state.weights is not None:
            manifest.n_weights = state.weights.shape[1] if state.weights.ndim == 2 else 0
            manifest.weights = self._written_weights(state.weights)
        if state.cells is not None:
            manifest.centres = self.manifest.centres if self.manifest is not None else None
            if manifest.centres is None or state.cells is not self._cells:
                manifest.centres = write_array(self._new_path("centres"), state.cells.centres)
        manifest.segments = [self._written_segment(segment, known) for segment in state.segments]
        if state.longer is not None:
            weights = None if state.longer.weights is None else self._written_weights(state.longer.weights)
            segments = [self._written_segment(segment, known) for segment in state.longer.segments]
            manifest.longer = LongerRecord(state.longer.n_bits, weights, segments)
        if state.attached is not None:
            stored = {record["file"]: record for record in self.manifest.files()} if self.manifest is not None else {}
            files = {}
            for key, file in state.attached.files.items():
                known_file = stored.get(file.stored_as) if file.stored_as is not None else None
                files[key] = known_file if known_file is not None else self._written_file(file)
            manifest.attached = {"values": state.attached.values, "files": files}
        return manifest

    def _written_file(self, file: AttachedFile) -> FileRecord:
        path = self._new_path("attached").with_suffix(file.suffix)
        file.write(path)
        flush(path)
        return record_of(path)

    def _written_weights(self, weights: NDArray[np.float64]) -> FileRecord:
        known = [record for array, record in self._weights if array is weights]
        return known[0] if known else write_array(self._new_path("weights"), weights)

    def _written_segment(self, segment: Segment, known: dict[str, SegmentRecord]) -> SegmentRecord:
        labels = segment.labels
        record = known.get(segment.stored_as) if segment.stored_as is not None else None
        if record is None:
            path = self._new_path("segment")
            record = SegmentRecord(
                name=path.stem,
                n=len(segment),
                n_live=segment.n_live,
                n_runs=len(segment.runs),
                label_type=None if labels is None else labels.dtype.str,
                codes=write_array(path.with_suffix(".codes.npy"), segment.blocks),
                ids=write_array(path.with_suffix(".ids.npy"), segment.ids),
                runs=write_array(path.with_suffix(".runs.npy"), segment.runs),
                labels=None if labels is None else write_array(path.with_suffix(".labels.npy"), labels),
                removed=None,
            )
        elif segment.keep_stored:
            return record
        removed = None
        if segment.keep is not None:
            path = self.directory / f"{record.name}.removed-{secrets.token_hex(8)}.npy"
            removed = write_array(path, np.packbits(segment.keep == 0))
        return dataclasses.replace(record, n_live=segment.n_live, removed=removed)

    def _new_path(self, kind: str) -> Path:
        return self.directory / f"{kind}-{secrets.token_hex(8)}.npy"

    def _sweep(self) -> None:
        """Delete index files that the manifest on disk does not name."""
        named = {MANIFEST_NAME, LOCK_NAME}
        if (self.directory / MANIFEST_NAME).exists():
            named |= {record["file"] for record in IndexManifest.read(self.directory)[0].files()}
        for entry in list(self.directory.iterdir()):
            if entry.name not in named and is_index_file(entry.name):
                entry.unlink(missing_ok=True)

    def _abandon(self, created: bool) -> None:
        """Undo a failed first save: leave the directory as it was."""
        (self.directory / LOCK_NAME).unlink(missing_ok=True)
        if created:
            self.directory.rmdir()
