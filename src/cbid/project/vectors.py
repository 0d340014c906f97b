"""The raw vectors of a project: one file of float32 rows, that of an image at the place of its id."""

import mmap
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbid.project.errors import ProjectError

__all__ = ["check_rows", "map_vectors", "write_vectors"]


def write_vectors(path: Path, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
    """Rows (n, d) at the places of ids, on the device when this returns.

    The ids are new ones: nobody reads their places yet, so what a killed writer left there does no harm. The file
    only ever grows, since readers have it mapped.
    """
    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        edges = np.flatnonzero(np.diff(ids) != 1) + 1
        for run in np.split(np.arange(len(ids)), edges):
            if len(run):
                _write_all(descriptor, rows[run[0] : run[-1] + 1], int(ids[run[0]]) * rows.shape[1] * 4)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, rows: NDArray[np.float32], offset: int) -> None:
    content = memoryview(rows.data).cast("B")
    while len(content):
        written = os.pwrite(descriptor, content, offset)
        content, offset = content[written:], offset + written


def map_vectors(path: Path, n_features: int) -> NDArray[np.float32]:
    """All whole rows of the file, (rows, d), read-only and mapped."""
    width = 4 * n_features
    with open(path, "rb") as file:
        rows = os.fstat(file.fileno()).st_size // width
        if not rows:
            return np.empty((0, n_features), np.float32)
        mapped = mmap.mmap(file.fileno(), rows * width, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, np.float32).reshape(rows, n_features)


def check_rows(path: Path, vectors: NDArray[np.float32], ids: NDArray[np.int64]) -> None:
    """A ``ProjectError`` where the mapped file ends before the row of one of the ids: it was cut."""
    missing = ids[ids >= len(vectors)]
    if len(missing):
        raise ProjectError(f"{path} is too short: it has no vector for id={missing.min()}")
