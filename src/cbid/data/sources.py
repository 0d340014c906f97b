"""Open any supported source of images or vectors by its path."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.data.arrays import ArrayFileError, is_idx, labels_beside, read_idx, read_npy, read_npz
from cbid.data.decode import MAX_PIXELS
from cbid.data.folders import SUFFIXES, ImageFolder
from cbid.data.image_sets import ImageFiles, ImageItems, ImageSet
from cbid.data.lists import ImageList, open_with_sidecar
from cbid.data.tables import ParquetTable, VectorTable
from cbid.labels import encode_labels, unmarked
from cbid.storage.atomic import check_regular
from cbid.text import printable

ACCEPTED = """a folder of class folders, or of images; a list file (.csv, .tsv, .txt: path, label); an image;
.npy or .npz with images (n, h, w) or (n, h, w, 3), or vectors (n, d); parquet with a column of vectors; an
IDX file"""

_DATA = ("images", "X", "x", "vectors", "features", "embeddings", "data", "arr_0")
_LABELS = ("labels", "y", "label", "targets", "arr_1")
_IDS = ("ids", "paths", "names")


def open_source(
    path: str | os.PathLike[str],
    *,
    tree: bool = False,
    label_depth: int = 1,
    label: str | None = None,
    on_error: str = "raise",
    max_pixels: int = MAX_PIXELS,
    **columns: str | None,
) -> ImageSet | VectorTable:
    """Open a path as images (an ``ImageSet``) or vectors (a ``VectorTable``).

    - A folder gives an ``ImageFolder``; with ``tree`` nested folders are path labels such as "animal/dog". If a file
      labels.csv is beside the images, it gives their labels (``path,label`` or ``path,labels``).
    - A list file (``.csv``, ``.tsv``, ``.txt`` or ``.lst``) gives an ``ImageList``, an image file a set of one.
    - ``.npy``, or ``.npz`` with one array called images, X, vectors, features, embeddings or data, and optionally
      labels or y, and ids, paths or names. Arrays (n, d) are vectors; with more axes they are images.
    - ``.parquet`` gives a ``ParquetTable``; ``vectors``, ``ids`` and ``labels`` name its columns.
    - An IDX file, plain or gzipped, with the labels from the matching file beside it.

    Only names and labels are read at once. ``label_depth``, ``label``, ``on_error`` and ``max_pixels`` are those of
    ``ImageFolder``. An integer label -1 in a file means that the label is missing, unless the only other label is 1.
    """
    where = Path(path)
    if not where.exists():
        raise FileNotFoundError(f"{printable(path)} does not exist")
    if not where.is_dir():
        check_regular(where)
        if label is not None or label_depth != 1:
            raise ValueError(f"label and label_depth are for folders: {printable(path)} is a file")
    suffix = where.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return ParquetTable(where, **columns)
    if columns:
        raise ValueError(f"{', '.join(columns)} name columns of a parquet file: {printable(path)} is not one")
    if where.is_dir():
        labelled = tree or label is not None or label_depth != 1
        beside = None if labelled else open_with_sidecar(where, on_error=on_error, max_pixels=max_pixels)
        if beside is not None:
            return beside
        return ImageFolder(
            where, tree=tree, label_depth=label_depth, label=label, on_error=on_error, max_pixels=max_pixels
        )
    if suffix in (".csv", ".tsv", ".txt", ".lst"):
        return ImageList(where, on_error=on_error, max_pixels=max_pixels)
    if os.fsencode(suffix) in SUFFIXES:
        return ImageFiles(where.parent, [where.name], max_pixels=max_pixels)
    if suffix == ".npy":
        return _from_array(where, read_npy(where))
    if suffix == ".npz":
        return _from_arrays(where, read_npz(where))
    if is_idx(where):
        labels = labels_beside(where)
        return _from_array(where, read_idx(where), None if labels is None else read_idx(labels))
    raise ValueError(f"{printable(path)} has an unknown format: expected {' '.join(ACCEPTED.split())}")


def _from_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> ImageSet | VectorTable:
    data = [name for name in _DATA if name in arrays]
    if not data and len(arrays) == 1:
        data = list(arrays)
    if len(data) != 1:
        raise ArrayFileError(
            f"{printable(path)} holds {', '.join(arrays) or 'no arrays'}: expected one called {', '.join(_DATA[:-1])}"
        )
    labels, ids = (next((arrays[n] for n in names if n in arrays), None) for names in (_LABELS, _IDS))
    return _from_array(path, arrays[data[0]], labels, ids)


def _from_array(
    path: Path, array: NDArray[Any], labels: NDArray[Any] | None = None, ids: NDArray[Any] | None = None
) -> ImageSet | VectorTable:
    for name, column in (("labels", labels), ("ids", ids)):
        if column is not None and column.shape != array.shape[:1]:
            raise ArrayFileError(f"{printable(path)}: {name} has shape {column.shape}: expected {array.shape[:1]}")
    classes, codes = (None, None) if labels is None else encode_labels(unmarked(labels), missing=True)
    if array.ndim == 2:
        return VectorTable(array, ids, codes, classes)
    if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[3] != 3) or not len(array):
        raise ArrayFileError(
            f"{printable(path)} holds an array of shape {array.shape}: "
            "expected vectors (n, d), or images (n, h, w) or (n, h, w, 3)"
        )
    if array.dtype not in (np.uint8, np.float32, np.float64):
        raise ArrayFileError(
            f"{printable(path)} holds images of type {array.dtype}: expected uint8, or floats in 0..1"
        )
    return ImageItems(array, None if ids is None else [str(v) for v in ids], codes, classes)
