"""Files that are written whole or not at all."""

import errno
import os
import tempfile
import tokenize
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["DAMAGED_NPY", "flush", "whole_file"]

# What numpy raises at a ``.npy`` file whose header is damaged: it reads it as a Python literal.
DAMAGED_NPY = (
    ValueError,
    EOFError,
    SyntaxError,
    OverflowError,
    RecursionError,
    tokenize.TokenError,
    zipfile.BadZipFile,  # where it has become the mark of another format
)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path``, renamed to it when the block ends well and removed when it does not."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:  # which names the temporary file
        raise OSError(error.errno, error.strerror, str(target)) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # What a library wrote through its own handle is on its way to the disk; the name must come after it.
        flush(temporary)
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp keeps it private; a file of the user's has the usual mode
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    flush(target.parent)


def flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file, or the names in a directory, are on the device."""
    if os.path.isdir(path) and os.name != "posix":
        return  # only there can a directory be opened for that
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
