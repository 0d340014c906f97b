"""An index on disk: a directory of files that never change, and a manifest that says which of them count.

A commit writes new files under new names, flushes them, and then replaces the manifest by renaming. Whatever
moment a process is killed at, the manifest names a complete state. Files that it no longer names are removed
by the writer; readers that have them mapped keep them (POSIX), a reader that comes in between starts again.
"""

import secrets
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.codes import n_bytes
from cbid.search.blocks import BLOCK
from cbid.search.errors import IndexConflictError, IndexCorruptError
from cbid.search.files import FileRecord, check_content, map_array, write_array
from cbid.search.ivf import Cells
from cbid.search.manifest import MANIFEST_NAME, Manifest, SegmentRecord, is_ours
from cbid.search.segments import Segment
from cbid.search.vocabulary import Vocabulary
from cbid.storage.atomic import flush
from cbid.storage.lock import LOCK_NAME, WriterLock

__all__ = ["State", "Store"]

_LABEL_TYPES = ("|u1", "<u2", "<u4", "<u8")
_TRIES = 20  # a reader starts again when a commit came between its manifest and its files


@dataclass
class State:
    """What an index consists of, in memory or on disk."""

    n_bits: int
    weights: NDArray[np.float64] | None  # (t,) or (t, n_classes)
    vocabulary: Vocabulary | None
    next_id: int
    n_cells: int | None
    probes: int
    cells: Cells | None
    segments: list[Segment]


class Store:
    """One index directory, and the state of it that this process last read or wrote."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest: Manifest | None = None
        self.stamp: str | None = None
        # By name, so that unchanged ones are not mapped again; weak, so that merged ones take no memory.
        self._segments: weakref.WeakValueDictionary[str, Segment] = weakref.WeakValueDictionary()
        self._cells: Cells | None = None

    def read(self) -> State:
        """Map the committed state."""
        for attempt in range(_TRIES):
            manifest, stamp = Manifest.read(self.directory)
            try:
                state = self._mapped(manifest)
            except FileNotFoundError as error:
                if Manifest.read(self.directory)[1] != stamp and attempt + 1 < _TRIES:
                    continue
                raise IndexCorruptError(f"{error.filename} is missing; it was committed") from error
            self._remember(manifest, stamp, state)
            return state
        raise IndexCorruptError(f"{self.directory} changed at every attempt to read it")

    def changed(self) -> bool:
        """Whether another process has committed since."""
        return Manifest.read(self.directory)[1] != self.stamp

    def verify(self) -> None:
        """Compare every file of the state last read or written with its checksum."""
        assert self.manifest is not None
        for record in self.manifest.files():
            try:
                check_content(self.directory, record)
            except FileNotFoundError as error:
                if self.changed():
                    raise IndexConflictError(
                        f"{self.directory} was committed to by another writer since this index last read it, "
                        "and files of the state read then are gone; refresh() first"
                    ) from error
                raise IndexCorruptError(f"{error.filename} is missing; it was committed") from error

    def commit(self, state: State, lock: WriterLock | None, *, dirty: bool = True) -> None:
        """Make ``state`` the committed one. ``lock``: the writer lock if it is held already.

        On any error the directory is as it was, and so is this object.
        """
        created, held = False, lock
        try:
            created = self._made_directory()
            held = held or WriterLock(self.directory)
            previous = self._current()
            if self.manifest is None or dirty:
                self._sweep()
                self._write(state, previous)
        except OSError as error:
            if error.errno is None:  # one of our own, which says it all
                raise
            raise OSError(
                error.errno,
                f"{self.directory} was not saved, its committed state is unchanged: {error.strerror}",
            ) from error
        finally:
            if held is not None and self.manifest is None and not (self.directory / MANIFEST_NAME).exists():
                self._give_up(created)
            if lock is None and held is not None:
                held.release()

    # What follows is private to reading

    def _mapped(self, manifest: Manifest) -> State:
        directory, n_bits = self.directory, manifest.n_bits
        weights = cells = vocabulary = None
        if manifest.weights is not None:
            shape = (n_bits, manifest.n_weights) if manifest.n_weights else (n_bits,)
            weights = self._small(manifest.weights, np.float64, shape)
        if manifest.centres is not None:
            assert manifest.n_cells is not None
            centres = self._small(manifest.centres, np.float32, (manifest.n_cells, n_bits))
            per_bit = weights.mean(axis=1) if weights is not None and weights.ndim == 2 else weights
            cells = Cells(centres, per_bit)
        if manifest.label_kind is not None:
            vocabulary = Vocabulary(manifest.label_kind, manifest.label_values, closed=bool(manifest.n_weights))
        segments = [self._mapped_segment(record, n_bytes(n_bits), directory) for record in manifest.segments]
        return State(
            n_bits, weights, vocabulary, manifest.next_id, manifest.n_cells, manifest.probes, cells, segments
        )

    def _mapped_segment(self, record: SegmentRecord, width: int, directory: Path) -> Segment:
        n, known = record.n, self._segments.get(record.name)
        if known is not None:
            blocks, ids, labels, runs = known.blocks, known.ids, known.labels, known.runs
        else:
            blocks = map_array(directory, record.codes, np.uint8, (-(-n // BLOCK), width, BLOCK))
            ids = map_array(directory, record.ids, np.int64, (n,))
            # Scans trust where a run starts and ends, so this one is read and checked.
            runs = self._small(record.runs, np.int64, (record.n_runs, 3))
            starts = np.append(runs[:, 0], n)
            if starts[0] != 0 or np.any(starts[1:] <= starts[:-1]):
                raise IndexCorruptError(f"{directory / record.runs['file']} does not divide {n} codes into runs")
            labels = None
            if record.labels is not None:
                if record.label_type not in _LABEL_TYPES:
                    raise IndexCorruptError(f"{directory} has labels of type {record.label_type!r}")
                labels = map_array(directory, record.labels, np.dtype(record.label_type), (n,))
        keep = None
        if record.removed is not None:
            removed = self._small(record.removed, np.uint8, (n_bytes(n),))
            keep = 1 - np.unpackbits(removed, count=n)
        return Segment(blocks, ids, labels, runs, keep, record.n_live, stored_as=record.name)

    def _small(self, record: FileRecord, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        array = map_array(self.directory, record, dtype, shape)
        check_content(self.directory, record)
        return np.array(array)

    def _remember(self, manifest: Manifest, stamp: str, state: State) -> None:
        self.manifest, self.stamp, self._cells = manifest, stamp, state.cells
        self._segments.clear()
        for segment, record in zip(state.segments, manifest.segments):
            self._segments[record.name] = segment
            segment.stored_as, segment.keep_stored = record.name, True

    # What follows is private to writing

    def _made_directory(self) -> bool:
        """Make the directory if there is none; refuse one that holds anything but an index."""
        directory = self.directory
        if not directory.exists():
            directory.mkdir()
            flush(directory.parent)
            return True
        if not directory.is_dir():
            raise FileExistsError(f"{directory} is a file; an index is saved to a directory")
        names = [entry.name for entry in directory.iterdir()]
        if MANIFEST_NAME in names:
            Manifest.read(directory)  # raises when it is not the manifest of an index
            return False
        foreign = sorted(name for name in names if not is_ours(name))
        if foreign:
            raise FileExistsError(
                f"{directory} is not an index and holds other files ({foreign[0]!r}); "
                "a new name, an empty directory or an index is accepted"
            )
        return False

    def _current(self) -> Manifest | None:
        """The manifest on disk, under the lock; an error if it is not the one this object knows."""
        if not (self.directory / MANIFEST_NAME).exists() and self.manifest is None:
            return None
        current, stamp = Manifest.read(self.directory)
        if self.manifest is not None and stamp != self.stamp:
            raise IndexConflictError(
                f"{self.directory} was committed to by another writer "
                f"(generation {current.generation}) since this index last read it "
                f"(generation {self.manifest.generation}); open it anew and apply the changes again, "
                "or save to another path"
            )
        return current

    def _write(self, state: State, previous: Manifest | None) -> None:
        try:
            manifest = self._written(state, previous)
            flush(self.directory)
            stamp = manifest.write(self.directory)
            self._remember(manifest, stamp, state)
        finally:
            # After a failure this removes what was begun; after a success what the new state no longer names.
            self._sweep()

    def _written(self, state: State, previous: Manifest | None) -> Manifest:
        known = {record.name: record for record in self.manifest.segments} if self.manifest is not None else {}
        manifest = Manifest(
            n_bits=state.n_bits,
            generation=previous.generation + 1 if previous is not None else 1,
            next_id=state.next_id,
            n_cells=state.n_cells,
            probes=state.probes,
        )
        if state.vocabulary is not None:
            manifest.label_kind, manifest.label_values = state.vocabulary.kind, state.vocabulary.values
        if state.weights is not None:
            manifest.n_weights = state.weights.shape[1] if state.weights.ndim == 2 else 0
            manifest.weights = self.manifest.weights if self.manifest is not None else None
            if manifest.weights is None:  # weights never change in the life of an index
                manifest.weights = write_array(self._new_name("weights"), state.weights)
        if state.cells is not None:
            manifest.centres = self.manifest.centres if self.manifest is not None else None
            if manifest.centres is None or state.cells is not self._cells:
                manifest.centres = write_array(self._new_name("centres"), state.cells.centres)
        for segment in state.segments:
            record = known.get(segment.stored_as) if segment.stored_as is not None else None
            manifest.segments.append(self._written_segment(segment, record))
        return manifest

    def _written_segment(self, segment: Segment, record: SegmentRecord | None) -> SegmentRecord:
        labels = segment.labels
        if record is None:
            path = self._new_name("segment")
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
        return SegmentRecord(**{**vars(record), "n_live": segment.n_live, "removed": removed})

    def _new_name(self, kind: str) -> Path:
        return self.directory / f"{kind}-{secrets.token_hex(8)}.npy"

    def _sweep(self) -> None:
        """Remove what the manifest on disk does not name: litter of a killed writer, or of an old state."""
        named = {MANIFEST_NAME, LOCK_NAME}
        if (self.directory / MANIFEST_NAME).exists():
            named |= {record["file"] for record in Manifest.read(self.directory)[0].files()}
        for entry in list(self.directory.iterdir()):
            if entry.name not in named and is_ours(entry.name):
                entry.unlink(missing_ok=True)

    def _give_up(self, created: bool) -> None:
        """Leave a directory as the failed first save has found it."""
        (self.directory / LOCK_NAME).unlink(missing_ok=True)
        if created:
            self.directory.rmdir()
