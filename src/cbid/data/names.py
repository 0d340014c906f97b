"""Many file names in little memory, whatever bytes they are made of."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Names", "printable", "row_numbers"]


class Names(Sequence[str]):
    """Names one after the other in one buffer, as the bytes that the file system has.

    Item i is text: bytes that are no UTF-8 are shown as ``\\xff``. ``raw(i)`` gives the bytes themselves.

    >>> names = Names(["a/1.jpg", b"caf\\xe9.jpg"])
    >>> list(names), names.raw(1)
    (['a/1.jpg', 'caf\\\\xe9.jpg'], b'caf\\xe9.jpg')
    """

    def __init__(self, names: Iterable[str | bytes]) -> None:
        encoded = [name if isinstance(name, bytes) else os.fsencode(name) for name in names]
        self._buffer = b"".join(encoded)
        self._ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends)

    def raw(self, i: int) -> bytes:
        i = range(len(self))[i]
        return self._buffer[self._ends[i - 1] if i else 0 : self._ends[i]]

    def __getitem__(self, i: Any) -> str:
        return self.raw(i).decode("utf-8", "backslashreplace")

    def take(self, rows: ArrayLike) -> "Names":
        """The names of these rows, in this order."""
        return Names(self.raw(i) for i in row_numbers(rows, len(self)).tolist())

    def __repr__(self) -> str:
        return f"<{len(self)} names>"


def row_numbers(rows: ArrayLike, n: int) -> NDArray[np.int64]:
    """Indices or a mask of n rows, as numpy takes them, as indices from 0 to n - 1."""
    index = np.asarray(rows)
    if index.dtype == bool:
        if index.shape != (n,):
            raise IndexError(f"the mask has shape {index.shape}; there are {n} rows")
        return np.flatnonzero(index)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise IndexError(f"rows have type {index.dtype} and shape {index.shape}; give whole numbers, or a mask")
    index = index.astype(np.int64)
    if index.size and (index.min() < -n or index.max() >= n):
        raise IndexError(f"rows from {index.min()} to {index.max()} are asked for; there are {n}")
    return np.where(index < 0, index + n, index)


def printable(path: str | bytes | os.PathLike[str]) -> str:
    """A path as it can be shown on one line: what does not print, undecodable bytes included, is escaped."""
    text = os.fsdecode(path)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
