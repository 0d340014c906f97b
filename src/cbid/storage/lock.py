"""A writer lock on a directory: advisory, and released by the system when the process ends."""

import os
import weakref
from pathlib import Path

__all__ = ["LOCK_NAME", "DirectoryLockedError", "WriterLock"]

LOCK_NAME = "lock"
_HELD: "weakref.WeakSet[WriterLock]" = weakref.WeakSet()


class DirectoryLockedError(OSError):
    """Another process, or another object in this one, holds the writer lock of a directory."""


class WriterLock:
    """The writer lock of one directory, held from construction until `release` or garbage collection.

    Raises `DirectoryLockedError` if the lock is held elsewhere.
    """

    def __init__(self, directory: Path) -> None:
        import fcntl  # POSIX only, like replacing files that other processes have mapped

        path = directory / LOCK_NAME
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A writer that abandons a new directory deletes its lock file: check that this one still exists.
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    break
            except BlockingIOError:
                os.close(descriptor)
                raise DirectoryLockedError(
                    f"{directory} is locked by another writer; only one writer is allowed at a time"
                ) from None
            except FileNotFoundError:
                pass
            os.close(descriptor)
        self._close = weakref.finalize(self, _unlock, descriptor)
        _HELD.add(self)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        self._close()

    def _drop_in_child(self) -> None:
        """Close the descriptor that a forked child has inherited: the lock is that of the parent alone."""
        finalizer = self._close.detach()
        if finalizer is not None:
            os.close(finalizer[2][0])


def _unlock(descriptor: int) -> None:
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _drop_all_in_child() -> None:
    for lock in list(_HELD):
        lock._drop_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_all_in_child)
