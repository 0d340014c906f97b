"""Arrays from ``.npy``, ``.npz`` and IDX files: memory-mapped if possible, never unpickled."""

import gzip
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.storage.atomic import check_regular
from cbid.storage.tensors import DAMAGED_NPY, map_array, map_npy, read_header

# The file is open: an OSError means an offset outside the file, a RuntimeError a password.
_DAMAGED_NPZ = (*DAMAGED_NPY, zlib.error, struct.error, NotImplementedError, RuntimeError, OSError)

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_LARGEST_RATIO = 1100  # the largest compression ratio of deflate


class ArrayFileError(ValueError):
    """The file does not hold readable arrays of numbers or text."""


def read_npy(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Return the array of a ``.npy`` file as a memory map."""
    path = Path(path)
    try:
        return map_npy(path)
    except DAMAGED_NPY as error:
        raise ArrayFileError(f"{path} is not a .npy file of numbers or text: {error}") from error


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a ``.npz`` file: memory maps, or arrays in memory if the file is compressed."""
    path = Path(path)
    check_regular(path)
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
                return {info.filename.removesuffix(".npy"): _member(path, archive, info) for info in members}
        except _DAMAGED_NPZ as error:
            raise ArrayFileError(f"{path} is not a .npz file of numbers or text: {error}") from error


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(info) as file:
        header = read_header(file, info.file_size)
        if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
            return map_array(path, _data_start(path, info) + file.tell(), header)
        # Reading to the end verifies the checksum of the archive.
        return np.frombuffer(bytearray(file.read()), header.dtype).reshape(header.shape, order=header.order)


def _data_start(path: Path, info: zipfile.ZipInfo) -> int:
    """Return the offset of a member's bytes in the archive, after its local header."""
    with open(path, "rb") as file:
        file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
    return info.header_offset + 30 + int(name) + int(extra)


class IdxError(ValueError):
    """The file is not an IDX file, or is damaged."""


def read_idx(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Return the array of an IDX file (the format of MNIST): a memory map, or in memory if gzipped."""
    path = Path(path)
    size = path.stat().st_size
    packed = _is_gzip(path)
    try:
        with gzip.open(path) if packed else open(path, "rb") as file:
            dtype, shape, start = _idx_header(file, path)
            n_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
            if not packed:
                if n_bytes != size - start:
                    raise IdxError(
                        f"{path}: the header describes {n_bytes} bytes of data, the file has {size - start}"
                    )
                if not n_bytes:
                    return np.empty(shape, dtype)
                return np.asarray(np.memmap(path, dtype, "r", start, shape))
            if n_bytes > size * _LARGEST_RATIO:
                raise IdxError(f"{path}: the header describes {n_bytes} bytes, more than {size} can hold")
            values = np.empty(n_bytes, np.uint8)
            got = file.readinto(values.data) if n_bytes else 0  # a buffered reader fills the buffer
            if got != n_bytes or file.read(1):
                raise IdxError(
                    f"{path}: the header describes {n_bytes} bytes, {'more' if got == n_bytes else got} follow"
                )
            return values.view(dtype).reshape(shape)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise IdxError(f"{path} is damaged: {error}") from error


def is_idx(path: Path) -> bool:
    """Return whether a file starts with an IDX header."""
    try:
        with gzip.open(path) if _is_gzip(path) else open(path, "rb") as file:
            _idx_header(file, path)
        return True
    except (IdxError, EOFError, zlib.error, OSError):
        return False


def labels_beside(path: Path) -> Path | None:
    """Return the file of labels beside a file of images, by the naming of MNIST, or None."""
    stem = path.name.removesuffix(".gz").replace("images", "labels").replace("idx3", "idx1")
    for name in (stem, stem + ".gz"):
        if name != path.name and (path.parent / name).exists():
            return path.parent / name
    return None


def _is_gzip(path: Path) -> bool:
    check_regular(path)
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _idx_header(file: Any, path: Path) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES or not 1 <= head[3] <= 4:
        raise IdxError(f"{path} is not an IDX file: it starts with {head.hex()}")
    sizes = file.read(4 * head[3])
    if len(sizes) < 4 * head[3]:
        raise IdxError(f"{path} is truncated: it ends inside its header")
    return np.dtype(_TYPES[head[2]]), struct.unpack(f">{head[3]}I", sizes), 4 + len(sizes)
