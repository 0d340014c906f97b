"""Files that are whole or absent: arrays flushed and with a checksum, names put in place by renaming."""

import io
import os
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from cbid.search.errors import IndexCorruptError
from cbid.storage.atomic import flush
from cbid.storage.digests import digest_file, new_digest
from cbid.storage.npy import DAMAGED_NPY, header_bytes, map_npy

__all__ = ["FileRecord", "check_content", "map_array", "replace_text", "write_array"]

_CHUNK = 1 << 24


class FileRecord(TypedDict):
    """What the manifest remembers of a file."""

    file: str
    bytes: int
    blake2b: str


def write_array(path: Path, array: NDArray[Any]) -> FileRecord:
    """Write a new ``.npy`` file and flush it to the device."""
    array = np.ascontiguousarray(array)
    header = header_bytes(array.dtype, array.shape)
    digest = new_digest(header)
    content = array.reshape(-1).view(np.uint8).data
    with open(path, "xb", buffering=0) as file:
        _write_fully(file, memoryview(header))
        for first in range(0, len(content), _CHUNK):
            chunk = content[first : first + _CHUNK]
            digest.update(chunk)
            _write_fully(file, chunk)
        os.fsync(file.fileno())
    return {"file": path.name, "bytes": len(header) + len(content), "blake2b": digest.hexdigest()}


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
        array = map_npy(path)
    except DAMAGED_NPY as error:
        raise IndexCorruptError(f"{path} is not the array that was committed ({error})") from error
    if array.shape != shape or array.dtype != np.dtype(dtype) or not array.flags.c_contiguous:
        raise IndexCorruptError(f"{path} holds {array.dtype} {array.shape}; {np.dtype(dtype)} {shape} was committed")
    return array


def check_content(directory: Path, record: FileRecord) -> None:
    """Read a whole file and compare it with its checksum."""
    path = directory / record["file"]
    if digest_file(path) != record["blake2b"]:
        raise IndexCorruptError(f"{path} is not as it was committed (its checksum differs)")
