"""The ``.npy`` format: checked headers, memory maps, and files that grow row by row. Nothing is unpickled."""

import io
import os
import tokenize
import zipfile
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cbid.storage.atomic import check_regular

__all__ = ["DAMAGED_NPY", "GrowingArray", "NpyHeader", "header_bytes", "map_array", "map_npy", "read_header"]

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
