"""Reading a source into a project: find what is new, describe it in batches, and commit each batch."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.data.decode import ImageError, reason_of
from cbid.data.image_sets import ImageItems, ImageSet, Problems, content_digest
from cbid.data.images import thumbnail as _thumbnail
from cbid.data.isolated import DecodeLimits
from cbid.data.tables import VectorTable
from cbid.descriptors import Descriptor
from cbid.descriptors.describing import NothingDescribed, describe
from cbid.labels import encode_labels
from cbid.progress import image_progress
from cbid.project.files import write_vectors
from cbid.project.table import ImageRow, ImageTable, join_labels
from cbid.search.checks import as_float32
from cbid.text import printable

Source = ImageSet | VectorTable
_BATCH = 64  # images that a killed run may lose
_LARGE = 100_000_000  # pixels of an image for which the default limits of memory and time are enough


@dataclass
class Intake:
    """The images of a source that a project holds, in the order of the source."""

    ids: NDArray[np.int64]
    names: list[str]
    labels: list[str | None]
    n_read: int  # new images; the others were known
    failures: Problems = field(default_factory=list)  # (name, reason) of what was skipped


class _Item(NamedTuple):
    """One image or vector of a source, before it is described."""

    place: int  # in the source
    name: str
    path: bytes
    label: str | None
    stamp: str  # changes with the content
    has_identity: bool  # a file or an id, not just a row number

    @property
    def key(self) -> bytes:
        return self.path or self.name.encode()


class KnownImages:
    """The images that a project holds, found by file, id or row number as long as their content is the same.

    Parameters
    ----------
    rows : iterable of ImageRow
    by_content : bool, default=False
        Find items without file and id by their content alone. Several items of a source may then be the same image
        of the project, which a fit cannot use.
    """

    def __init__(self, rows: Iterable[ImageRow], *, by_content: bool = False) -> None:
        self._by_key: dict[tuple[bytes, str], int] = {}
        self._by_content: dict[str, int] = {}
        for row in rows:
            self._by_key.setdefault((row.key, row.stamp), row.id)
            if by_content and not row.path:
                self._by_content.setdefault(row.stamp, row.id)

    def find(self, item: _Item) -> int | None:
        """Return the id of an item, or None."""
        found = self._by_key.get((item.key, item.stamp))
        return self._by_content.get(item.stamp) if found is None and not item.has_identity else found


class Batch(NamedTuple):
    """Described images: their places in the source, vectors (n, d), thumbnails, and what failed."""

    places: list[int]
    vectors: NDArray[np.float32]
    thumbnails: list[bytes | None]
    failures: Problems


def as_source(given: Any, labels: Sequence[Any] | None, names: Iterable[str] | None, *, vectors: bool) -> Source:
    """Return images (arrays, bytes of files, paths) or vectors (n, d) as a source with these labels and names.

    A label is a text, None, or a list or set of labels.
    """
    if isinstance(given, (ImageSet, VectorTable)):
        if labels is not None or names is not None:
            raise ValueError("labels and names are not accepted with a source, which has its own")
        return given
    if isinstance(given, (str, bytes, os.PathLike)):
        raise ValueError(f"images_or_paths={given!r:.80}: expected a list of images, not one image")
    items = np.atleast_2d(as_float32(given, "vectors")) if vectors else given
    if not isinstance(items, (Sequence, np.ndarray)):
        items = list(items)
    name_list = None if names is None else [str(name) for name in names]
    for what, values in (("labels", labels), ("names", name_list)):
        if values is not None and len(values) != len(items):
            raise ValueError(f"{what} has {len(values)} entries for {len(items)} images; expected one per image")
    classes, numbers = None, None
    if labels is not None:
        texts = [join_labels(v) if isinstance(v, (list, set, tuple)) else v or None for v in labels]
        classes, numbers = encode_labels(texts, missing=True)
    if vectors:
        return VectorTable(np.asarray(items), None if name_list is None else np.array(name_list), numbers, classes)
    return ImageItems(items, name_list, numbers, classes)


def take_in(
    source: Source,
    descriptor: Descriptor | None,
    table: ImageTable,
    vectors: Path,
    *,
    known: KnownImages | None,
    part: str,
    origin: str,
    strict: bool = False,
    limits: DecodeLimits | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> tuple[Intake, int]:
    """Describe the images of the source that are not known, and write them to the table and the file of vectors.

    Each batch is committed, so a run that is killed and repeated does not read it again. With ``known=None`` all
    images are new, even if they are listed twice. With ``strict``, the first image that cannot be read raises an
    ``ImageError``. Returns the images of the source and the length of their vectors.
    """
    width = table.n_features()
    items, failures = items_of(source, distinct=known is not None)
    n_found = len(failures)
    ids = np.full(len(items), -1, dtype=np.int64)
    if known is not None:
        for i, item in enumerate(items):
            id = known.find(item)
            ids[i] = -1 if id is None else id
    index_of = {items[i].place: i for i in np.flatnonzero(ids < 0)}
    with image_progress(len(index_of), "reading images", shown=progress and bool(index_of)) as advance:
        for count, batch in described_batches(
            source, descriptor, list(index_of), on_error="raise" if strict else "skip", limits=limits, n_jobs=n_jobs
        ):
            failures += batch.failures
            if batch.places:
                rows = [index_of[place] for place in batch.places]
                width = _check_width(batch.vectors, width, items[rows[0]].name)
                first = table.next_id()
                ids[rows] = new_ids = np.arange(first, first + len(rows), dtype=np.int64)
                write_vectors(vectors, new_ids, batch.vectors)
                new_rows = [
                    ImageRow(id, item.name, item.path, item.label, part, origin, item.stamp)
                    for id, item in zip(new_ids.tolist(), (items[row] for row in rows))
                ]
                table.insert(new_rows, batch.thumbnails, width, batch.vectors)
            advance(count)
    kept = np.flatnonzero(ids >= 0).tolist()
    if width is None or not kept:
        unread = failures[n_found:] or failures or [("the source", "it is empty")]
        name, reason = unread[0]
        raise ImageError(f"none of {len(items)} images can be read; {printable(name)}: {reason}")
    n_read = sum(items[i].place in index_of for i in kept)
    return Intake(ids[kept], [items[i].name for i in kept], [items[i].label for i in kept], n_read, failures), width


def described_batches(
    source: Source,
    descriptor: Descriptor | None,
    places: list[int],
    *,
    thumbnails: bool = True,
    on_error: str = "skip",
    limits: DecodeLimits | None = None,
    n_jobs: int | None = None,
) -> Iterator[tuple[int, Batch]]:
    """Describe the images at these places (ascending) in batches; yield the number of images tried and the batch.

    Each image is decoded once, for its vector and its thumbnail, in a separate process with limits (None: those for
    a source that the user names, which has its own limit of pixels).
    """
    if isinstance(source, VectorTable):
        yield from _vector_batches(source, places)
        return
    if descriptor is None:
        raise ValueError("the project has no descriptor, because it was made from vectors; give vectors")
    limits = limits or _own_limits(source.max_pixels)
    for start in range(0, len(places), _BATCH):
        part = places[start : start + _BATCH]
        extra = _thumbnail if thumbnails else None
        try:
            found = describe(
                source.take(part), descriptor, on_error=on_error, n_jobs=n_jobs, extra=extra, limits=limits
            )
        except NothingDescribed as error:
            yield len(part), Batch([], np.empty((0, 0), np.float32), [], error.failures)
            continue
        described = [part[row] for row in found.rows]
        extras = found.extras if thumbnails else [None] * len(described)
        yield len(part), Batch(described, np.asarray(found.values), extras, found.failures)


def _own_limits(max_pixels: int) -> DecodeLimits:
    """Return limits that let images of this size pass: memory and time grow with the pixels."""
    share = max(1.0, max_pixels / _LARGE)
    return DecodeLimits(share * DecodeLimits.seconds, int(share * DecodeLimits.memory), max_pixels)


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


def items_of(source: Source, *, distinct: bool) -> tuple[list[_Item], Problems]:
    """Return the items of a source, and what was skipped; with ``distinct``, also what is listed twice."""
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


def name_of(source: Source, i: int) -> str:
    """Return the name of an image; for a vector its id, or its row number."""
    if isinstance(source, VectorTable):
        return f"row {i}" if source.ids is None else str(source.ids[i])
    return source.names[i]


def label_of(source: Source, i: int) -> str | None:
    """Return the label of an image or a vector as stored text, or None; several labels are one text."""
    if source.label_sets is not None:
        return join_labels(source.label_sets[i])
    if source.labels is None or source.classes is None or source.labels[i] < 0:
        return None
    return str(source.classes[source.labels[i]]) or None


def _check_width(vectors: NDArray[np.float32], width: int | None, name: str) -> int:
    if width is not None and vectors.shape[1] != width:
        raise ImageError(
            f"{printable(name)} has {vectors.shape[1]} values; expected {width}, as the images before it"
        )
    return vectors.shape[1]
