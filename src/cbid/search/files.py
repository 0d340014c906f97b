"""Files that are whole or absent: arrays flushed and with a checksum, names put in place by renaming."""

import hashlib
import io
import os
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from cbid.search.errors import IndexCorruptError
from cbid.storage.files import DAMAGED_NPY, flush

__all__ = ["FileRecord", "check_content", "map_array", "replace_text", "write_array"]

_CHUNK = 1 << 24


class FileRecord(TypedDict):
    """What the manifest remembers of a file."""

    file: str
    bytes: int
    blake2b: str


def write_array(path: Path, array: NDArray[Any]) -> FileRecord:
    """Write a new ``.npy`` file and flush it to the device."""
    header = io.BytesIO()
    array = np.ascontiguousarray(array)
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    digest = hashlib.blake2b(header.getvalue(), digest_size=16)
    content = array.reshape(-1).view(np.uint8).data
    with open(path, "xb", buffering=0) as file:
        _write_fully(file, memoryview(header.getvalue()))
        for first in range(0, len(content), _CHUNK):
            chunk = content[first : first + _CHUNK]
            digest.update(chunk)
            _write_fully(file, chunk)
        os.fsync(file.fileno())
    return {"file": path.name, "bytes": len(header.getvalue()) + len(content), "blake2b": digest.hexdigest()}


def _write_fully(file: io.FileIO, content: memoryview) -> None:
    while len(content):
        content = content[file.write(content) :]  # a nearly full disk takes a part first, and then raises


def replace_text(path: Path, text: str) -> None:
    """Put ``text`` under a name at once: readers see the old content or the new, also after a power cut."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb", buffering=0) as file:
        _write_fully(file, memoryview(text.encode()))
        os.fsync(file.fileno())
    os.replace(temporary, path)
    flush(path.parent)


def map_array(
    directory: Path, record: FileRecord, dtype: np.dtype[Any] | type, shape: tuple[int, ...]
) -> NDArray[Any]:
    """Map a ``.npy`` file; its size, type and shape must be those the manifest tells. Nothing is read yet."""
    path = directory / record["file"]
    size = path.stat().st_size
    if size != record["bytes"]:
        raise IndexCorruptError(f"{path} has {size} bytes; {record['bytes']} were committed")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGED_NPY as error:
        raise IndexCorruptError(f"{path} is not the array that was committed ({error})") from error
    if array.shape != shape or array.dtype != np.dtype(dtype) or not array.flags.c_contiguous:
        raise IndexCorruptError(f"{path} holds {array.dtype} {array.shape}; {np.dtype(dtype)} {shape} was committed")
    return np.asarray(array)  # a plain array over the same mapping


def check_content(directory: Path, record: FileRecord) -> None:
    """Read a whole file and compare it with its checksum."""
    path = directory / record["file"]
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != record["blake2b"]:
        raise IndexCorruptError(f"{path} is not as it was committed (its checksum differs)")
