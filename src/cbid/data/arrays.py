"""Arrays from ``.npy`` and ``.npz`` files: mapped where the file allows it, never unpickled."""

import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ArrayFileError", "read_npy", "read_npz"]


class ArrayFileError(ValueError):
    """The file holds no arrays of numbers or text that can be read."""


def read_npy(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array of a ``.npy`` file, mapped: nothing is read yet."""
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, EOFError, SyntaxError, OverflowError) as error:
        raise ArrayFileError(f"{os.fspath(path)} is no .npy file of numbers: {error}") from error


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The arrays of a ``.npz`` file: mapped if ``numpy.savez`` wrote it, read if it is compressed."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            return {info.filename.removesuffix(".npy"): _member(path, archive, info) for info in members}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, SyntaxError, NotImplementedError) as error:
        raise ArrayFileError(f"{path} is no .npz file of numbers and text: {error}") from error


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(info) as file:
        shape, fortran, dtype = _header(file)
        start = file.tell()
        n_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if n_bytes != info.file_size - start:
            raise ValueError(f"{info.filename} claims {n_bytes} bytes, {info.file_size - start} follow")
        order: Any = "F" if fortran else "C"
        if info.compress_type == zipfile.ZIP_STORED and n_bytes and not info.flag_bits & 1:
            return np.asarray(np.memmap(path, dtype, "r", _data_start(path, info) + start, shape, order))
        # Read to the end, so that the checksum of the archive is compared.
        return np.frombuffer(bytearray(file.read()), dtype).reshape(shape, order=order)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the .npy format is not known")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("an array of Python objects is not read: it could run any code")
    return shape, fortran, dtype


def _data_start(path: Path, info: zipfile.ZipInfo) -> int:
    """Where in the archive the bytes of a member begin: after its local header, whose own sizes tell."""
    with open(path, "rb") as file:
        file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
    return info.header_offset + 30 + int(name) + int(extra)
