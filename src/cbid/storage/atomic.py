"""Atomic file writes: a file is complete or absent."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["flush", "whole_file"]


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` and rename it to ``path`` when the block succeeds.

    If the block raises, the temporary file is removed and ``path`` is left as it was.
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
    flush(target.parent)


def flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file, or the entries of a directory, are on the device."""
    if os.path.isdir(path) and os.name != "posix":
        return  # only POSIX can open a directory
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
