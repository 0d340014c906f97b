"""A writer lock on a directory: advisory, and released by the system when the process ends."""

import os
import weakref
from pathlib import Path

__all__ = ["LOCK_NAME", "DirectoryLockedError", "WriterLock"]

LOCK_NAME = "lock"


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
        self._close = weakref.finalize(self, _unlock, descriptor, os.getpid())

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        self._close()


def _unlock(descriptor: int, owner: int) -> None:
    import fcntl

    # A forked child inherits the descriptor. Closing it there must not release the lock of the parent.
    if os.getpid() == owner:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
