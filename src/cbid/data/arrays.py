"""Arrays from ``.npy`` and ``.npz`` files: mapped where the file allows it, never unpickled."""

import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.storage.npy import DAMAGED_NPY, map_array, map_npy, read_header

__all__ = ["ArrayFileError", "read_npy", "read_npz"]

# The file is there and open: an OSError is of a place outside of it, a RuntimeError of a password.
_DAMAGED_NPZ = (*DAMAGED_NPY, zlib.error, struct.error, NotImplementedError, RuntimeError, OSError)


class ArrayFileError(ValueError):
    """The file holds no arrays of numbers or text that can be read."""


def read_npy(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array of a ``.npy`` file, mapped: nothing is read yet."""
    path = Path(path)
    try:
        return map_npy(path)
    except DAMAGED_NPY as error:
        raise ArrayFileError(f"{path} is not a .npy file of numbers or text: {error}") from error


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
        header = read_header(file, info.file_size)
        if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
            return map_array(path, _data_start(path, info) + file.tell(), header)
        # Read to the end, so that the checksum of the archive is compared.
        return np.frombuffer(bytearray(file.read()), header.dtype).reshape(header.shape, order=header.order)


def _data_start(path: Path, info: zipfile.ZipInfo) -> int:
    """Where in the archive the bytes of a member begin: after its local header, whose own sizes tell."""
    with open(path, "rb") as file:
        file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
    return info.header_offset + 30 + int(name) + int(extra)
