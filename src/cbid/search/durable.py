"""An index that lives in a directory: opening, committing, and following what others commit."""

import copy
import dataclasses
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cbid.search.checks import as_count
from cbid.search.collection import Collection
from cbid.search.store import State, Store
from cbid.storage.lock import WriterLock

__all__ = ["Durable"]


class Durable(Collection):
    """A collection with, once it was opened or saved, a directory of its own."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._store: Store | None = None
        self._lock: WriterLock | None = None
        self.n_threads: int | None = None

    @property
    def path(self) -> Path | None:
        """The directory that `save` commits to, or None."""
        return None if self._store is None else self._store.directory

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        writable: bool = False,
        verify: bool = False,
        n_threads: int | None = None,
    ) -> Self:
        """Map an index that `save` has written; nothing is read until it is needed.

        ``writable=True`` takes the writer lock and holds it until `close`. Otherwise changes stay in this
        process until `save`, which takes the lock for the moment of the commit, and refuses if another writer
        has committed since. Sizes and the manifest are always checked, ``verify=True`` reads and checks all.
        """
        threads = None if n_threads is None else as_count(n_threads, "n_threads")
        directory = Path(path)
        store = Store(directory)
        lock = None
        if writable:
            store.read()  # before the lock: nothing may be made in a directory that is no index
            try:
                lock = WriterLock(directory)
            except PermissionError as error:
                raise PermissionError(error.errno, f"{directory} cannot be opened for writing") from error
        try:
            state = store.read()
            if verify:
                store.verify()
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        index = cls.__new__(cls)
        Durable.__init__(index, state)
        index._store, index._lock, index._dirty = store, lock, False
        index.n_threads = threads
        return index

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Commit to ``path``, all at once: a process killed at any moment leaves the state before or after.

        Without ``path``: the directory that the index was opened from or first saved to; only what is new is
        written. Elsewhere a whole copy is written; an index that is there already is replaced, anything else
        is an error. Readers in other processes keep what they have open, until they `refresh`.
        """
        with self._mutex:
            if path is None and self._store is None:
                raise ValueError("path is None, and this index was neither opened nor saved before; give a directory")
            self._segments()  # trains the cells if it is time
            self._levels.seal()
            self._levels.merge()
            self._state.segments = list(self._levels.sealed)
            own = self.path
            target = own if path is None else Path(path)
            assert target is not None
            if own is not None and not _same(target, own):
                # The copy must not take over which files of our own directory the segments are stored in.
                segments = [dataclasses.replace(segment, stored_as=None) for segment in self._state.segments]
                Store(target).commit(dataclasses.replace(self._state, segments=segments), None)
                return
            if self._store is not None and self._store.directory.exists():
                self._store.commit(self._state, self._lock, dirty=self._dirty)
            else:  # the first save, or somebody has removed the directory: all is written
                store = Store(target)
                store.commit(self._state, None)
                self._store = store
                if self._lock is not None:  # that of the directory that is gone
                    self._lock.release()
                    self._lock = WriterLock(target)
            self._dirty = False

    def refresh(self) -> bool:
        """Show what other processes have committed since; returns whether anything had changed."""
        with self._mutex:
            if self._store is None:
                raise ValueError("refresh: this index was neither opened nor saved; there is nothing to read again")
            if not self._store.changed():
                return False
            if self._dirty:
                raise ValueError(
                    "refresh: this index has changes that are not saved; open the directory anew to see both"
                )
            self._take(self._store.read())
            return True

    def verify(self) -> None:
        """Read every committed file and compare it with its checksum; raises on the first that differs."""
        if self._store is None:
            raise ValueError("verify: this index was neither opened nor saved; there are no files to check")
        self._store.verify()

    def close(self) -> None:
        """Release the writer lock. What is not saved stays in memory only."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __copy__(self) -> Self:
        with self._mutex:
            return copy.deepcopy(self)  # segments are changed by removals, so that two indexes cannot share them

    def __getstate__(self) -> dict[str, Any]:
        # For copies within a program (joblib, deepcopy): they hold the codes, and no claim on a directory.
        return {**self.__dict__, "_mutex": None, "_store": None, "_lock": None, "_dirty": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _mutex=threading.RLock())


def _same(a: Path, b: Path) -> bool:
    return os.path.realpath(a) == os.path.realpath(b)
