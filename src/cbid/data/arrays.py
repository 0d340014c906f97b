"""Arrays from ``.npy`` and ``.npz`` files: mapped where the file allows it, never unpickled."""

import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cbid.storage.files import DAMAGED_NPY

__all__ = ["ArrayFileError", "read_npy", "read_npz"]

# The file is there and open: an OSError is of a place outside of it, a RuntimeError of a password.
_DAMAGED_NPZ = (*DAMAGED_NPY, zlib.error, struct.error, NotImplementedError, RuntimeError, OSError)


class ArrayFileError(ValueError):
    """The file holds no arrays of numbers or text that can be read."""


def read_npy(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array of a ``.npy`` file, mapped: nothing is read yet."""
    path = Path(path)
    try:
        with open(path, "rb") as file:
            shape, order, dtype = _header(file, path.stat().st_size)
            start = file.tell()
    except DAMAGED_NPY as error:
        raise ArrayFileError(f"{path} is no .npy file of numbers: {error}") from error
    return _mapped(path, start, shape, order, dtype)


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The arrays of a ``.npz`` file: mapped if ``numpy.savez`` wrote it, read if it is compressed."""
    path = Path(path)
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
                return {info.filename.removesuffix(".npy"): _member(path, archive, info) for info in members}
        except _DAMAGED_NPZ as error:
            raise ArrayFileError(f"{path} is no .npz file of numbers and text: {error}") from error


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(info) as file:
        shape, order, dtype = _header(file, info.file_size)
        if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
            return _mapped(path, _data_start(path, info) + file.tell(), shape, order, dtype)
        # Read to the end, so that the checksum of the archive is compared.
        return np.frombuffer(bytearray(file.read()), dtype).reshape(shape, order=order)


def _header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any]]:
    """Shape, order and type of an array in a file of so many bytes, which must be those that the header claims."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the .npy format is not known")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("an array of Python objects is not read: it could run any code")
    claimed, following = int(np.prod(shape, dtype=object)) * dtype.itemsize, size - file.tell()
    if claimed != following:
        raise ValueError(f"its header claims {claimed} bytes, {following} follow")
    return shape, "F" if fortran else "C", dtype


def _mapped(
    path: Path, start: int, shape: tuple[int, ...], order: Literal["C", "F"], dtype: np.dtype[Any]
) -> NDArray[Any]:
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(np.memmap(path, dtype, "r", start, shape, order))


def _data_start(path: Path, info: zipfile.ZipInfo) -> int:
    """Where in the archive the bytes of a member begin: after its local header, whose own sizes tell."""
    with open(path, "rb") as file:
        file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
    return info.header_offset + 30 + int(name) + int(extra)
