"""Images put into a project beside those that it was fitted on."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.coders import Coder
from cbid.data.decode import ImageError
from cbid.data.image_sets import ImageItems, ImageSet
from cbid.data.names import printable
from cbid.data.tables import VectorTable
from cbid.descriptors import Descriptor
from cbid.labels import encode_labels
from cbid.project.encoding import encode_rows
from cbid.project.intake import Known, Taken, take_in
from cbid.project.manifest import VECTORS
from cbid.project.parts import ADDED
from cbid.project.table import ImageTable
from cbid.project.vectors import map_vectors
from cbid.search import CodeIndex

__all__ = ["add_images", "as_source"]


def as_source(
    given: Any, labels: Sequence[str | None] | None, names: Iterable[str] | None, *, vectors: bool
) -> ImageSet | VectorTable:
    """Images (arrays, bytes of files, paths), or vectors (n, d), as a source with these labels and names."""
    if isinstance(given, (ImageSet, VectorTable)):
        if labels is not None or names is not None:
            raise ValueError("labels and names belong to images given one by one; a source has its own")
        return given
    if isinstance(given, (str, bytes, os.PathLike)):
        raise ValueError(f"images_or_paths={given!r:.80} is one image; give a list of images")
    items = np.atleast_2d(np.asarray(given, dtype=np.float32)) if vectors else given
    if not isinstance(items, (Sequence, np.ndarray)):
        items = list(items)
    named = None if names is None else [str(name) for name in names]
    for what, values in (("labels", labels), ("names", named)):
        if values is not None and len(values) != len(items):
            raise ValueError(f"{what} has {len(values)} entries for {len(items)} images; each takes one")
    classes, numbers = (
        (None, None) if labels is None else encode_labels([label or None for label in labels], missing=True)
    )
    if vectors:
        return VectorTable(np.asarray(items), None if named is None else np.array(named), numbers, classes)
    return ImageItems(items, named, numbers, classes)


def add_images(
    source: ImageSet | VectorTable,
    *,
    directory: Path,
    table: ImageTable,
    index: CodeIndex,
    coder: Coder,
    descriptor: Descriptor | None,
    known: Known | None,
    strict: bool,
    n_jobs: int | None,
    progress: bool,
) -> Taken:
    """Describe, store, encode, index. Committing the index is what adds the images; before that nobody sees them.

    known : images that need not be added again; None adds all.
    strict : an image that cannot be read is an error, and nothing is added; otherwise it is left out.
    """
    if descriptor is not None and isinstance(source, VectorTable):
        raise ValueError("the project was made from images; give images, not vectors")
    if descriptor is None and isinstance(source, ImageSet):
        raise ValueError("the project was made from vectors and has no descriptor; give vectors")
    first = table.next_id()
    try:
        taken, _ = take_in(
            source,
            descriptor,
            table,
            directory / VECTORS,
            known=known,
            part=ADDED,
            origin="add",
            n_jobs=n_jobs,
            progress=progress,
        )
        if strict and taken.failures:
            name, reason = taken.failures[0]
            raise ImageError(f"{printable(name)}: {reason}")
        new = taken.ids >= first
        if new.any():
            ids: NDArray[np.int64] = taken.ids[new]
            labels = [label or "" for label, fresh in zip(taken.labels, new) if fresh]
            codes = encode_rows(coder, map_vectors(directory / VECTORS, coder.n_features_in_), ids)
            index.add(codes, ids=ids, labels=labels)
            try:
                index.save()
            except BaseException:
                index.remove(ids)
                raise
    except BaseException:
        table.delete(range(first, table.next_id()))
        raise
    return taken
