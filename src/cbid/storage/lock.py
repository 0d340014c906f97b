"""One writer at a time: an advisory lock that the system drops when its process ends, however it ends."""

import os
import weakref
from pathlib import Path

from cbid.search.errors import IndexLockedError

__all__ = ["LOCK_NAME", "WriterLock"]

LOCK_NAME = "lock"


class WriterLock:
    """The writer lock of one directory, held from construction until ``release`` (or garbage collection)."""

    def __init__(self, directory: Path) -> None:
        import fcntl  # POSIX only, as is replacing files that others have mapped

        path = directory / LOCK_NAME
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A writer that gives up a new directory removes its lock file: is this still the one?
                current = os.stat(path)
                if os.path.samestat(os.fstat(descriptor), current):
                    break
            except BlockingIOError:
                os.close(descriptor)
                raise IndexLockedError(
                    f"{directory} is open for writing elsewhere; one writer at a time, any number of readers"
                ) from None
            except FileNotFoundError:
                pass
            os.close(descriptor)
        self._close = weakref.finalize(self, _let_go, descriptor, os.getpid())

    def release(self) -> None:
        """Let others write; harmless when already released."""
        self._close()


def _let_go(descriptor: int, owner: int) -> None:
    import fcntl

    # A forked child shares the lock: its copy must not keep the lock when the owner lets go, nor end it.
    if os.getpid() == owner:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
