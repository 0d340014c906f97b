"""Arrays in files: safetensors files with JSON values and a checksum, written atomically, and the ``.npy`` format.

Nothing in a file is executed or unpickled. Sizes in the header are compared with the size of the file before anything
is allocated, and the checksum of a safetensors file over JSON and arrays detects any change. ``.npy`` files can be
mapped, and can grow row by row.
"""

import hashlib
import io
import json
import os
import struct
import tokenize
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from cbid.storage.atomic import check_regular, whole_file

_LARGEST_HEADER = 16 * 2**20

Arrays = dict[str, NDArray[Any]]
Made = TypeVar("Made")


@dataclass(frozen=True)
class FileKind:
    """A kind of file.

    Parameters
    ----------
    format, version : str, int
        Written into the header and required when reading.
    noun : str
        The word for such a file in error messages.
    error : type
        Raised for a file that is not of this kind or is damaged.
    """

    format: str
    version: int
    noun: str
    error: type[ValueError]

    def write(self, path: str | os.PathLike[str], content: Any, arrays: Arrays) -> None:
        """Write a file of JSON values and arrays; an existing file is replaced atomically."""
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        text = json.dumps(content, sort_keys=True)
        metadata = {
            "format": self.format,
            "version": str(self.version),
            "content": text,
            "sha256": _digest(text, arrays),
        }
        with whole_file(path) as temporary:
            temporary.write_bytes(save_tensors(arrays, metadata=metadata))

    def read(self, path: str | os.PathLike[str]) -> tuple[Any, Arrays]:
        """Return JSON content and arrays of a file after checking its checksum."""
        path = Path(path)
        metadata = self._checked_header(path)
        try:
            arrays = load_tensors(path.read_bytes())
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise self.error(f"{path} is damaged: {error}") from error
        if _digest(metadata["content"], arrays) != metadata["sha256"]:
            raise self.error(f"{path} is damaged or was modified: its checksum does not match its content")
        try:
            return json.loads(metadata["content"]), arrays
        except (ValueError, RecursionError) as error:
            raise self.error(f"{path} is damaged: its content is not a {self.noun}") from error

    def peek(self, path: str | os.PathLike[str], name: str) -> NDArray[Any]:
        """Return one array without reading the others: sizes are checked, the checksum is not."""
        self._checked_header(Path(path))
        try:
            with safe_open(path, framework="numpy") as file:
                return np.asarray(file.get_tensor(name))
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise self.error(f"{path} is damaged: {error}") from error

    def restore(self, path: str | os.PathLike[str], make: Callable[[Any, Arrays, str], Made]) -> Made:
        """Return ``make(content, arrays, name of the file)``; its errors are raised as this kind's error.

        Values that are not finite are rejected first.
        """
        content, arrays = self.read(path)
        source = os.fspath(path)
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise self.error(f"{source}: array {name!r} holds values that are not finite")
        try:
            return make(content, arrays, source)
        except self.error:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
            raise self.error(f"{source} does not hold a complete {self.noun}: {error}") from error

    def _checked_header(self, path: Path) -> dict[str, str]:
        """Return the metadata of the header after comparing the sizes in it with the size of the file."""
        size = check_regular(path)
        with open(path, "rb") as file:
            prefix = file.read(8)
            if len(prefix) < 8:
                raise self.error(f"{path} is not a {self.noun} file: it has only {size} bytes")
            (length,) = struct.unpack("<Q", prefix)
            if length > min(size - 8, _LARGEST_HEADER):
                raise self.error(
                    f"{path} is not a {self.noun} file or is truncated: "
                    f"the header claims {length} bytes, the file has {size}"
                )
            try:
                header = json.loads(file.read(length))
            except (ValueError, RecursionError) as error:
                raise self.error(f"{path} is not a {self.noun} file: its header is not JSON") from error
        metadata = header.get("__metadata__") if isinstance(header, dict) else None
        if not isinstance(metadata, dict) or metadata.get("format") != self.format:
            raise self.error(
                f"{path} is not a cbid {self.noun}: expected a safetensors file with format {self.format!r}"
            )
        if metadata.get("version") != str(self.version):
            raise self.error(
                f"{path} has format version {metadata.get('version')!r}: expected {self.version}; "
                "a newer release of cbid may read it"
            )
        if not all(isinstance(metadata.get(name), str) for name in ("content", "sha256")):
            raise self.error(f"{path} is damaged: content or checksum is missing in its header")
        ends = [0]
        for name, tensor in header.items():
            if name != "__metadata__":
                try:
                    ends.append(int(tensor["data_offsets"][1]))
                except (TypeError, KeyError, IndexError, ValueError, OverflowError) as error:
                    raise self.error(f"{path} is damaged: array {name!r} has no valid offsets") from error
        if max(ends) != size - 8 - length:
            raise self.error(
                f"{path} is truncated or has trailing bytes: "
                f"arrays end at byte {max(ends)}, the data at {size - 8 - length}"
            )
        return metadata


def _digest(content: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(content.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


# What numpy raises for a damaged header, which it parses as a Python literal.
DAMAGED_NPY = (
    ValueError,
    EOFError,
    SyntaxError,
    OverflowError,
    RecursionError,
    tokenize.TokenError,
    zipfile.BadZipFile,
)


class NpyHeader(NamedTuple):
    """Shape, memory order and type of an array in a file."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: np.dtype[Any]


def read_header(file: IO[bytes], size: int) -> NpyHeader:
    """Read the header at the start of ``file`` and compare it with the ``size`` of the file in bytes.

    The file position is then the start of the data. Raises one of ``DAMAGED_NPY`` if the header is damaged, if the
    array holds Python objects, or if the data is shorter or longer than the header says.
    """
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the .npy format is unknown")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("arrays of Python objects are rejected: reading them could run any code")
    expected, present = int(np.prod(shape, dtype=object)) * dtype.itemsize, size - file.tell()
    if expected != present:
        raise ValueError(f"the header describes {expected} bytes of data, the file has {present}")
    return NpyHeader(shape, "F" if fortran else "C", dtype)


def header_bytes(dtype: DTypeLike, shape: tuple[int, ...]) -> bytes:
    """Return the header of a C-ordered array."""
    header = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
    return header.getvalue()


def map_npy(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Map the array of a ``.npy`` file read-only; raises one of ``DAMAGED_NPY`` if the file is damaged."""
    check_regular(path)
    with open(path, "rb") as file:
        header = read_header(file, os.fstat(file.fileno()).st_size)
        return map_array(path, file.tell(), header)


def map_array(path: str | os.PathLike[str], start: int, header: NpyHeader) -> NDArray[Any]:
    """Map an array whose data begins at byte ``start`` of a file."""
    if 0 in header.shape:  # numpy cannot map zero bytes
        return np.empty(header.shape, header.dtype)
    return np.asarray(np.memmap(path, header.dtype, "r", start, header.shape, header.order))


class GrowingArray:
    """A ``.npy`` file whose number of rows is known at the end; ``finish`` writes it into the header.

    numpy pads the header so that the number of rows can grow in place.
    """

    def __init__(self, file: IO[bytes], dtype: DTypeLike, row: tuple[int, ...]) -> None:
        self._file, self._dtype, self._row, self._rows = file, np.dtype(dtype), row, 0
        self._start = file.write(header_bytes(self._dtype, (0, *row)))

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows (n, ...) after those already written."""
        if rows.dtype != self._dtype or rows.shape[1:] != self._row:
            raise ValueError(f"rows of {rows.dtype} {rows.shape[1:]}: expected {self._dtype} {self._row} as before")
        self._file.write(np.ascontiguousarray(rows).data)
        self._rows += len(rows)

    def finish(self) -> None:
        """Write the number of rows into the header."""
        self._file.seek(0)
        if self._file.write(header_bytes(self._dtype, (self._rows, *self._row))) != self._start:
            raise RuntimeError("the .npy header is longer than the space reserved for it")
        self._file.seek(0, os.SEEK_END)
