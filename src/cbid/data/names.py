"""Many file names in little memory; names can hold any bytes."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Names(Sequence[str]):
    """A sequence of file names, stored as bytes in one buffer.

    Item i is text, in which bytes that are not UTF-8 appear as ``\\xff``. ``raw(i)`` returns the bytes.

    Examples
    --------
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
        """Return name i as bytes."""
        i = range(len(self))[i]
        return self._buffer[self._ends[i - 1] if i else 0 : self._ends[i]]

    def __getitem__(self, i: Any) -> str:
        return self.raw(i).decode("utf-8", "backslashreplace")

    def take(self, rows: ArrayLike) -> "Names":
        """Return the names of these rows, in this order."""
        return Names(self.raw(i) for i in row_numbers(rows, len(self)).tolist())

    def __repr__(self) -> str:
        return f"<{len(self)} names>"


def row_numbers(rows: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return indices (negative ones allowed) or a mask of n rows as indices from 0 to n - 1."""
    index = np.asarray(rows)
    if index.dtype == bool:
        if index.shape != (n,):
            raise IndexError(f"the mask has shape {index.shape}: expected ({n},)")
        return np.flatnonzero(index)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise IndexError(f"rows have type {index.dtype} and shape {index.shape}: expected integers (m,) or a mask")
    index = index.astype(np.int64)
    if index.size and (index.min() < -n or index.max() >= n):
        raise IndexError(f"rows from {index.min()} to {index.max()}: expected less than {n}")
    return np.where(index < 0, index + n, index)


def printable(path: str | bytes | os.PathLike[str]) -> str:
    """Return a path as one line of printable text; other characters and undecodable bytes are escaped."""
    text = os.fsdecode(path)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
