"""IDX files, the format of MNIST: a header of sizes, then the values, plain or gzipped."""

import gzip
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["IdxError", "is_idx", "labels_beside", "read_idx"]

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_LARGEST_RATIO = 1100  # no deflate stream gives more bytes for one


class IdxError(ValueError):
    """The file is no whole IDX file."""


def read_idx(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array of an IDX file: mapped if plain, read if gzipped. The header must fit the size of the file."""
    path = Path(path)
    size = path.stat().st_size
    packed = _is_gzip(path)
    try:
        with gzip.open(path) if packed else open(path, "rb") as file:
            dtype, shape, start = _header(file, path)
            n_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
            if not packed:
                if n_bytes != size - start:
                    raise IdxError(f"{path}: its header claims {n_bytes} bytes, {size - start} follow")
                if not n_bytes:
                    return np.empty(shape, dtype)
                return np.asarray(np.memmap(path, dtype, "r", start, shape))
            if n_bytes > size * _LARGEST_RATIO:
                raise IdxError(f"{path}: its header claims {n_bytes} bytes, more than {size} can hold")
            values = np.empty(n_bytes, np.uint8)
            got = file.readinto(values.data) if n_bytes else 0  # a buffered reader fills what it is given, if it can
            if got != n_bytes or file.read(1):
                raise IdxError(
                    f"{path}: its header claims {n_bytes} bytes, {'more' if got == n_bytes else got} follow"
                )
            return values.view(dtype).reshape(shape)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise IdxError(f"{path} is damaged: {error}") from error


def is_idx(path: Path) -> bool:
    """Whether a file begins as IDX files do."""
    try:
        with gzip.open(path) if _is_gzip(path) else open(path, "rb") as file:
            _header(file, path)
        return True
    except (IdxError, EOFError, zlib.error, OSError):
        return False


def labels_beside(path: Path) -> Path | None:
    """The file of labels for a file of images, by the names that MNIST uses."""
    stem = path.name.removesuffix(".gz").replace("images", "labels").replace("idx3", "idx1")
    for name in (stem, stem + ".gz"):
        if name != path.name and (path.parent / name).exists():
            return path.parent / name
    return None


def _is_gzip(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _header(file: Any, path: Path) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES or not 1 <= head[3] <= 4:
        raise IdxError(f"{path} is no IDX file: it begins with {head.hex()}")
    sizes = file.read(4 * head[3])
    if len(sizes) < 4 * head[3]:
        raise IdxError(f"{path} ends within its header")
    return np.dtype(_TYPES[head[2]]), struct.unpack(f">{head[3]}I", sizes), 4 + len(sizes)
