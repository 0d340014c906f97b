"""Atomic file writes, where a file is complete or absent, and the writer lock of a directory."""

import errno
import os
import shutil
import signal
import stat
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` and rename it to ``path`` when the block succeeds.

    If the block raises, the temporary file is removed and ``path`` is left as it was. If the directory cannot be
    flushed after the renaming, the error says that the file was written.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:  # the original error names the temporary file
        raise OSError(error.errno, error.strerror, str(target)) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        flush(temporary)  # the data must reach the device before the new name does
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp creates a private file
        os.replace(temporary, target)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, name):
            error.filename = str(target)  # a failed write names no file
        temporary.unlink(missing_ok=True)
        raise
    _flush_name(target)


def _flush_name(target: Path) -> None:
    """Wait until the new name of a file or directory is on the device."""
    try:
        flush(target.parent)
    except OSError as error:
        raise OSError(
            error.errno, f"{target} was written, but a power failure may undo it: {error.strerror or error}"
        ) from error


@contextmanager
def whole_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary directory beside ``path``, which must not exist, and rename it when the block succeeds."""
    target = Path(path)
    if target.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    except OSError as error:  # the original error names the temporary directory
        raise OSError(error.errno, error.strerror, str(target)) from error
    try:
        yield temporary
        for part in (*temporary.rglob("*"), temporary):
            flush(part)
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o777 & ~mask)  # mkdtemp creates a private directory
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _flush_name(target)


@contextmanager
def deferred_signals(outcome: str | None = None) -> Iterator[None]:
    """Let SIGINT and SIGTERM wait until the end of the block, if their handlers are Python functions.

    For short blocks that must know their outcome, such as a commit. If the block succeeds, ``outcome`` becomes a note
    of what a handler raises. Only the main thread handles signals; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    handlers = {}
    succeeded = False
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, lambda number, frame: arrived.append((number, frame)))
        yield
        succeeded = True
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for arrived_number, frame in arrived:
            try:
                handlers[signal.Signals(arrived_number)](arrived_number, frame)
            except BaseException as error:
                if succeeded and outcome is not None:
                    error.add_note(outcome)
                raise


def check_regular(path: str | os.PathLike[str]) -> int:
    """Return the size of a regular file. Anything else raises: to open a FIFO or a device may block forever."""
    info = os.stat(path)
    if not stat.S_ISREG(info.st_mode):
        number = errno.EISDIR if stat.S_ISDIR(info.st_mode) else errno.EINVAL
        raise OSError(number, "expected a regular file", os.fspath(path))
    return info.st_size


def check_no_link(path: str | os.PathLike[str]) -> None:
    """Raise an OSError if the path is a symbolic link: what is written there would end up somewhere else."""
    if os.path.islink(path):
        raise OSError(errno.ELOOP, "is a symbolic link; expected the file itself", os.fspath(path))


def flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file, or the entries of a directory, are on the device."""
    if os.path.isdir(path) and os.name != "posix":
        return  # only POSIX can open a directory
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
            check_no_link(path)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
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
