"""Atomic file writes: a file is complete or absent."""

import errno
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

__all__ = ["check_regular", "deferred_signals", "flush", "whole_directory", "whole_file"]


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
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
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
    flush(target.parent)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM wait until the end of the block, if their handlers are Python functions.

    For short blocks that must know their outcome, such as a commit. Only the main thread handles signals; elsewhere
    this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    handlers = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, lambda number, frame: arrived.append((number, frame)))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for arrived_number, frame in arrived:
            handlers[signal.Signals(arrived_number)](arrived_number, frame)


def check_regular(path: str | os.PathLike[str]) -> int:
    """Return the size of a regular file. Anything else raises: to open a FIFO or a device may block forever."""
    info = os.stat(path)
    if not stat.S_ISREG(info.st_mode):
        number = errno.EISDIR if stat.S_ISDIR(info.st_mode) else errno.EINVAL
        raise OSError(number, "expected a regular file", os.fspath(path))
    return info.st_size


def flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file, or the entries of a directory, are on the device."""
    if os.path.isdir(path) and os.name != "posix":
        return  # only POSIX can open a directory
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
