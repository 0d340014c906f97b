"""A source read into a project: only what is new, in batches that are each kept whole."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.data.decode import ImageError, reason_of
from cbid.data.image_sets import ImageSet, Problems, content_digest
from cbid.data.names import printable
from cbid.data.tables import VectorTable
from cbid.descriptors import Descriptor
from cbid.descriptors.describing import NothingDescribed, describe
from cbid.progress import image_progress
from cbid.project.table import ImageRow, ImageTable
from cbid.project.thumbnails import thumbnail
from cbid.project.vectors import write_vectors

__all__ = ["Batch", "Known", "Taken", "described_batches", "items_of", "label_of", "name_of", "take_in"]

_BATCH = 64  # images that a kill may lose


@dataclass
class Taken:
    """The images of a source as a project holds them, in the order of the source."""

    ids: NDArray[np.int64]
    names: list[str]
    labels: list[str | None]
    n_read: int  # as against those that were known
    failures: Problems = field(default_factory=list)


class _Item(NamedTuple):
    """One image or vector of the source, before it is read."""

    place: int
    name: str
    path: bytes
    label: str | None
    stamp: str
    lasting: bool  # whether its key is its own: a file, or an id; not the place where some array has it

    @property
    def key(self) -> bytes:
        return self.path or self.name.encode()


class Known:
    """What a project holds, to be found again while its content is the same: by its file, its id, or its place.

    by_content : whether what has neither file nor id is found wherever it lies. Several of a source may then be one
        and the same of the project, which a fit does not want.
    """

    def __init__(self, rows: Iterable[ImageRow], *, by_content: bool = False) -> None:
        self._by_key: dict[tuple[bytes, str], int] = {}
        self._by_content: dict[str, int] = {}
        for row in rows:
            self._by_key.setdefault((row.key, row.stamp), row.id)
            if by_content and not row.path:
                self._by_content.setdefault(row.stamp, row.id)

    def find(self, item: _Item) -> int | None:
        """Its id, or None."""
        found = self._by_key.get((item.key, item.stamp))
        return self._by_content.get(item.stamp) if found is None and not item.lasting else found


class Batch(NamedTuple):
    """Images that were described: their places in the source, vectors (n, d), and thumbnails."""

    places: list[int]
    vectors: NDArray[np.float32]
    thumbnails: list[bytes | None]
    failures: Problems


def take_in(
    source: ImageSet | VectorTable,
    descriptor: Descriptor | None,
    table: ImageTable,
    vectors: Path,
    *,
    known: Known | None,
    part: str,
    origin: str,
    n_jobs: int | None = None,
    progress: bool = False,
) -> tuple[Taken, int]:
    """Read what of the source is not ``known``, and put it into the table and the file of vectors.

    Returns all of the source's images, and the width of their vectors. Each batch is committed: a run that was killed
    finds it again. With ``known=None`` all are new, also those that come twice.
    """
    width = table.n_features()
    items, failures = items_of(source, distinct=known is not None)
    ids = np.full(len(items), -1, dtype=np.int64)
    for i, item in enumerate(items):
        id = None if known is None else known.find(item)
        if id is not None:
            ids[i] = id
    new = [i for i in range(len(items)) if ids[i] < 0]
    where = {items[i].place: i for i in new}
    with image_progress(len(new), "reading images", shown=progress and bool(new)) as tell:
        places = [items[i].place for i in new]
        for count, batch in described_batches(source, descriptor, places, n_jobs=n_jobs):
            failures += batch.failures
            if batch.places:
                width = _same_width(batch.vectors, width, items[where[batch.places[0]]].name)
                first = table.next_id()
                fresh = np.arange(first, first + len(batch.places), dtype=np.int64)
                write_vectors(vectors, fresh, batch.vectors)
                taken = [items[where[place]] for place in batch.places]
                rows = [
                    ImageRow(int(id), item.name, item.path, item.label, part, origin, item.stamp)
                    for id, item in zip(fresh, taken)
                ]
                table.insert(rows, batch.thumbnails, width)
                ids[[where[place] for place in batch.places]] = fresh
            tell(count)
    kept = np.flatnonzero(ids >= 0)
    if width is None or not len(kept):
        name, reason = failures[0] if failures else ("the source", "it is empty")
        raise ImageError(f"none of {len(items)} images could be read; {printable(name)}: {reason}")
    done = Taken(
        ids[kept],
        [items[i].name for i in kept],
        [items[i].label for i in kept],
        n_read=int(np.isin(kept, new).sum()),
        failures=failures,
    )
    return done, width


def described_batches(
    source: ImageSet | VectorTable,
    descriptor: Descriptor | None,
    places: list[int],
    *,
    thumbnails: bool = True,
    n_jobs: int | None = None,
) -> Iterator[tuple[int, Batch]]:
    """The images at these places (ascending), described a batch at a time, each with the number that it tried."""
    if isinstance(source, VectorTable):
        yield from _vector_batches(source, places)
        return
    if descriptor is None:
        raise ValueError("the project holds vectors, without a descriptor; give vectors (.npy, .npz, parquet)")
    for start in range(0, len(places), _BATCH):
        part = places[start : start + _BATCH]
        images = source.take(part)
        extra = thumbnail if thumbnails else None
        try:
            found = describe(images, descriptor, on_error="skip", n_jobs=n_jobs, extra=extra)
        except NothingDescribed as error:
            yield len(part), Batch([], np.empty((0, 0), np.float32), [], error.failures)
            continue
        good = [part[row] for row in found.rows]
        pictures = found.extras if thumbnails else [None] * len(good)
        yield len(part), Batch(good, np.asarray(found.values), pictures, found.failures)


def _vector_batches(table: VectorTable, places: list[int]) -> Iterator[tuple[int, Batch]]:
    wanted = np.asarray(places, dtype=np.int64)
    start = 0
    for rows in table.batches():
        here = wanted[(wanted >= start) & (wanted < start + len(rows))]
        if len(here):
            values = np.asarray(rows[here - start], dtype=np.float32)
            finite = np.isfinite(values).all(axis=1)
            failures = [(name_of(table, int(i)), "it has values that are not finite") for i in here[~finite]]
            good = here[finite].tolist()
            yield len(here), Batch(good, values[finite], [None] * len(good), failures)
        start += len(rows)


def items_of(source: ImageSet | VectorTable, *, distinct: bool) -> tuple[list[_Item], Problems]:
    """What the source lists, and what of it is left out."""
    if isinstance(source, VectorTable):
        failures: Problems = []
        listed = _vector_items(source)
    else:
        failures = list(source.problems)
        listed = _image_items(source, failures)
    seen: set[bytes] = set()
    items = []
    for item in listed:
        if distinct and item.key in seen:
            failures.append((item.name, "listed twice"))
            continue
        seen.add(item.key)
        items.append(item)
    return items, failures


def _image_items(images: ImageSet, failures: Problems) -> Iterator[_Item]:
    for i in range(len(images)):
        path = images.path(i)
        try:
            if path is None:
                stamp, where = content_digest(images.load(i)).hex(), b""
            else:
                info = os.stat(path)
                stamp, where = f"{info.st_size} {info.st_mtime_ns}", os.fsencode(os.path.abspath(path))
        except (OSError, ValueError) as error:
            failures.append((images.names[i], reason_of(error)))
            continue
        yield _Item(i, images.names[i], where, label_of(images, i), stamp, bool(where))


def _vector_items(table: VectorTable) -> Iterator[_Item]:
    i = 0
    for rows in table.batches():
        for row in np.asarray(rows, dtype=np.float32):
            stamp = content_digest(row).hex()
            yield _Item(i, name_of(table, i), b"", label_of(table, i), stamp, table.ids is not None)
            i += 1


def name_of(source: ImageSet | VectorTable, i: int) -> str:
    """The name of an image; of a vector its id, or its row."""
    if isinstance(source, VectorTable):
        return f"row {i}" if source.ids is None else str(source.ids[i])
    return source.names[i]


def label_of(source: Any, i: int) -> str | None:
    """The label of an image or a vector as text, or None."""
    if source.labels is None or source.labels[i] < 0:
        return None
    return str(source.classes[source.labels[i]]) or None


def _same_width(vectors: NDArray[np.float32], width: int | None, name: str) -> int:
    if width is not None and vectors.shape[1] != width:
        raise ImageError(
            f"{printable(name)} has {vectors.shape[1]} values; those before it have {width}, and all need as many"
        )
    return vectors.shape[1]
