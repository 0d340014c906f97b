"""The values of many images put together: in memory, or in files that grow row by row."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.bags import Bags
from cbid.storage.atomic import whole_file
from cbid.storage.npy import GrowingArray, map_npy

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
        rows = GrowingArray(file, "<f4", (width,))
        for vector in vectors:
            rows.append(vector[None])
        rows.finish()
    return map_npy(path)


def _bags_on_disk(bags: Iterator[Bag], folder: Path, width: int) -> Bags:
    folder.mkdir(parents=True, exist_ok=True)
    sizes, shapes = [0], []
    with ExitStack() as stack:
        temporary = {
            name: stack.enter_context(whole_file(folder / f"{name}.npy"))
            for name in ("values", "frames", "offsets", "shapes")
        }
        with open(temporary["values"], "wb") as value_file, open(temporary["frames"], "wb") as frame_file:
            values, frames = GrowingArray(value_file, "<f4", (width,)), GrowingArray(frame_file, "<f4", (3,))
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
    return Bags(*(map_npy(folder / f"{name}.npy") for name in ("values", "offsets", "frames", "shapes")))
