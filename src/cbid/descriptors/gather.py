"""The values of many images put together: in memory, or in files that grow row by row."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from cbid.bags import Bags
from cbid.storage.files import whole_file

__all__ = ["Value", "gather", "width_of"]

Bag = tuple[NDArray[np.float32], NDArray[np.float32], tuple[int, int]]  # values, frames, height and width
Value = NDArray[np.float32] | Bag


def width_of(value: Value) -> int:
    """The number of values in a row."""
    return int(value[0].shape[1] if isinstance(value, tuple) else value.shape[0])


def gather(
    values: Iterator[Value], most: int, out: str | os.PathLike[str] | None = None
) -> NDArray[np.float32] | Bags | None:
    """All of ``values``, at most ``most``, as one array or ``Bags``; in the file or the folder ``out`` if given."""
    first = next(values, None)
    if first is None:
        return None
    everything: Iterator[Any] = chain([first], values)
    if isinstance(first, tuple):
        return _bags(everything) if out is None else _bags_on_disk(everything, Path(out), width_of(first))
    if out is not None:
        return _vectors_on_disk(everything, Path(out), len(first))
    array = np.empty((most, len(first)), dtype=np.float32)
    count = 0
    for count, row in enumerate(everything, 1):
        array[count - 1] = row
    return array[:count]


def _bags(bags: Iterator[Bag]) -> Bags:
    values, frames, shapes = (list(part) for part in zip(*bags))
    return Bags.from_list(values, frames, shapes)


def _vectors_on_disk(vectors: Iterator[NDArray[np.float32]], path: Path, width: int) -> NDArray[np.float32]:
    with whole_file(path) as temporary, open(temporary, "wb") as file:
        rows = _GrowingArray(file, width)
        for vector in vectors:
            rows.append(vector[None])
        rows.finish()
    return _mapped(path)


def _bags_on_disk(bags: Iterator[Bag], folder: Path, width: int) -> Bags:
    folder.mkdir(parents=True, exist_ok=True)
    sizes, shapes = [0], []
    with ExitStack() as stack:
        temporary = {
            name: stack.enter_context(whole_file(folder / f"{name}.npy"))
            for name in ("values", "frames", "offsets", "shapes")
        }
        with open(temporary["values"], "wb") as value_file, open(temporary["frames"], "wb") as frame_file:
            values, frames = _GrowingArray(value_file, width), _GrowingArray(frame_file, 3)
            for bag, frame, shape in bags:
                values.append(bag)
                frames.append(frame)
                sizes.append(len(bag))
                shapes.append(shape)
            values.finish()
            frames.finish()
        for name, array in (("offsets", np.cumsum(sizes, dtype=np.int64)), ("shapes", np.array(shapes, np.int64))):
            with open(temporary[name], "wb") as file:
                np.save(file, array)
    return Bags(*(_mapped(folder / f"{name}.npy") for name in ("values", "offsets", "frames", "shapes")))


def _mapped(path: Path) -> NDArray[Any]:
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


class _GrowingArray:
    """A float32 ``.npy`` file whose number of rows is known at the end.

    numpy pads the header so that the number of rows can grow in place.
    """

    def __init__(self, file: IO[bytes], width: int) -> None:
        self._file, self._width, self._rows = file, width, 0
        self._write_header()
        self._start = file.tell()

    def append(self, rows: NDArray[np.float32]) -> None:
        self._file.write(np.ascontiguousarray(rows, dtype=np.float32).data)
        self._rows += len(rows)

    def finish(self) -> None:
        self._file.seek(0)
        self._write_header()
        if self._file.tell() != self._start:
            raise RuntimeError("the header of a .npy file has grown with its rows")
        self._file.seek(0, os.SEEK_END)

    def _write_header(self) -> None:
        header = {"descr": "<f4", "fortran_order": False, "shape": (self._rows, self._width)}
        np.lib.format.write_array_header_1_0(self._file, header)
