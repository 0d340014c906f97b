"""Describe many images: in parallel, with a cache, into memory or files; images that fail are reported by name."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from cbid.bags import Bags
from cbid.checks import check_choice, check_n_jobs
from cbid.data.decode import ImageError, reason_of
from cbid.data.image_sets import ImageSet, Names, Problems, as_image_set, content_digest
from cbid.data.isolated import DecodeLimits, decode_all
from cbid.descriptors.cache import Bag, CachedValues, DescriptorCache, Value, width_of
from cbid.progress import image_progress
from cbid.storage.atomic import whole_file
from cbid.storage.tensors import GrowingArray, map_npy
from cbid.text import printable
from cbid.threads import ordered_map

if TYPE_CHECKING:
    from cbid.descriptors.base import Descriptor, LocalDescriptor

# A worker gets as many images at a time as it describes in 20 ms, and at most 128: enough to make the overhead of
# dispatch small, few enough to show progress and to keep few results in memory.
_UNIT_SECONDS, _UNIT_MOST = 0.02, 128
_ISOLATED_SECONDS = 0.1  # a decoding process works ahead within a unit only
_BATCH_BYTES = 2**24  # of decoded images for one call of ``describe_many``
_AHEAD_BYTES = 2**22  # of image files that are read before the first is described


@dataclass(frozen=True)
class Described:
    """The values of the images that could be described.

    Attributes
    ----------
    values : array (n, d) of float32, or Bags
        In memory or memory-mapped; ``Bags`` of n images for a local descriptor.
    rows : array (n,) of int64
        The row of each image in the source.
    names, labels, classes
        Of these images, as in ``ImageSet``.
    failures : list of (name, reason)
        The images that were skipped, in the order of the source.
    extras : list
        The results of ``extra``, one for each image; empty without ``extra``.
    """

    values: NDArray[np.float32] | Bags
    rows: NDArray[np.int64]
    names: Names
    labels: NDArray[np.int64] | None
    classes: NDArray[Any] | None
    failures: Problems = field(default_factory=list)
    extras: list[Any] = field(default_factory=list)


class NothingDescribed(ImageError):
    """No image could be described; ``failures`` holds (name, reason) of each."""

    def __init__(self, failures: Problems) -> None:
        name, reason = failures[0]
        super().__init__(f"none of {len(failures)} images could be described; {printable(name)}: {reason}")
        self.failures = failures

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.failures,)


def describe(
    source: Any,
    descriptor: "Descriptor | LocalDescriptor",
    *,
    on_error: str = "raise",
    n_jobs: int | None = None,
    cache: "str | os.PathLike[str] | DescriptorCache | None" = None,
    out: str | os.PathLike[str] | None = None,
    extra: Callable[[NDArray[Any]], Any] | None = None,
    limits: DecodeLimits | None = None,
    verbose: int = 0,
) -> Described:
    """Describe every image of a source.

    Parameters
    ----------
    source : ImageSet, path or sequence
        A path is opened with ``open_source``; a sequence holds arrays and paths.
    descriptor : Descriptor or LocalDescriptor
        An object with the same methods also works. If it has ``describe_many``, a function from a list of images to
        a list of values, that is used; a subclass that overrides only ``describe`` is called image by image.
    on_error : {"raise", "skip"}, default="raise"
        Raise at the first image that cannot be read or described, or skip it and report it in ``failures``.
    n_jobs : int, optional
        Number of threads or processes, as suits the descriptor; None means 1, -1 one per core.
    cache : path or DescriptorCache, optional
        Values in the cache are not computed again. New values are stored chunk by chunk, so that a killed run
        continues after its last chunk.
    out : path, optional
        For values larger than memory: a vector descriptor writes this ``.npy`` file, a local descriptor several
        ``.npy`` files in this folder. ``values`` is then memory-mapped.
    extra : callable, optional
        A function of the decoded image, called in the worker, for other values that are needed of each image (a
        thumbnail). Its results are in ``extras``. It must be picklable and cannot be combined with ``cache``.
    limits : DecodeLimits, optional
        Decode image files in separate processes with these limits of memory and time, for files that you do not
        trust. A file that exceeds them cannot be read. None decodes in the calling process.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    Described

    Notes
    -----
    Memory: the values (twice while bags are concatenated; none with ``out``); per worker one decoded image, or 16 MB
    of images with ``describe_many``, and the values of up to two batches of at most 128 images; with a cache, four
    chunks of at most 256 images and 16 MB (or one larger image); and for each image its name and, with a cache, 24
    bytes.
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    check_n_jobs(n_jobs)
    if extra is not None and cache is not None:
        raise ValueError("extra and cache cannot be combined: images in the cache are not decoded")
    descriptor._check_params()
    images = opened_images(source, on_error)
    if not len(images):
        raise ValueError("the source holds no images: expected at least one")
    store = None
    if cache is not None:
        store = (cache if isinstance(cache, DescriptorCache) else DescriptorCache(cache)).open(descriptor)
    failures: Problems = []
    rows: list[int] = []
    extras: list[Any] = []

    def kept() -> Iterator[Value]:
        width: int | None = None
        with image_progress(len(images), type(descriptor).__name__, shown=bool(verbose)) as progress:
            for i, (value, more, error) in enumerate(_outcomes(images, descriptor, store, extra, limits, n_jobs)):
                progress(1)
                if value is not None:
                    width = width_of(value) if width is None else width
                    if width_of(value) == width:
                        rows.append(i)
                        if extra is not None:
                            extras.append(more)
                        yield value
                        continue
                    error = ImageError(
                        f"it gives {width_of(value)} values, the first image {width}; set a size for all images"
                    )
                assert error is not None
                name, reason = images.names[i], reason_of(error)
                if on_error == "raise":
                    raise ImageError(f"{printable(name)}: {reason}") from error
                failures.append((name, reason))

    try:
        values = _collect(kept(), len(images), out)
    finally:
        if store is not None:
            store.commit()
    if values is None:
        raise NothingDescribed(failures)
    taken = images if len(rows) == len(images) else images.take(rows)
    everything = [*images.problems, *failures]
    return Described(values, np.array(rows, np.int64), taken.names, taken.labels, taken.classes, everything, extras)


def _collect(
    values: Iterator[Value], most: int, out: str | os.PathLike[str] | None = None
) -> NDArray[np.float32] | Bags | None:
    """Return at most ``most`` values as one array or ``Bags``, in the file or folder ``out`` if given."""
    first = next(values, None)
    if first is None:
        return None
    everything: Iterator[Any] = chain([first], values)
    if isinstance(first, tuple):
        if out is not None:
            return _bags_on_disk(everything, Path(out), width_of(first))
        return Bags.from_list(*(list(part) for part in zip(*everything)))
    if out is not None:
        return _vectors_on_disk(everything, Path(out), len(first))
    array = np.empty((most, len(first)), dtype=np.float32)
    count = 0
    for count, row in enumerate(everything, 1):
        array[count - 1] = row
    return array[:count]


def _vectors_on_disk(vectors: Iterator[NDArray[np.float32]], path: Path, width: int) -> NDArray[np.float32]:
    with whole_file(path) as temporary, open(temporary, "wb") as file:
        rows = GrowingArray(file, "<f4", (width,))
        for vector in vectors:
            rows.append(np.asarray(vector, np.float32)[None])
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
                values.append(np.asarray(bag, np.float32))
                frames.append(np.asarray(frame, np.float32))
                sizes.append(len(bag))
                shapes.append(shape)
            values.finish()
            frames.finish()
        for name, array in (("offsets", np.cumsum(sizes, dtype=np.int64)), ("shapes", np.array(shapes, np.int64))):
            with open(temporary[name], "wb") as file:
                np.save(file, array)
    return Bags(*(map_npy(folder / f"{name}.npy") for name in ("values", "offsets", "frames", "shapes")))


def opened_images(source: Any, on_error: str) -> ImageSet:
    """Return the images of a source of ``describe``."""
    if isinstance(source, (str, os.PathLike)):
        from cbid.data.sources import open_source

        source = open_source(source, on_error=on_error)
        if not isinstance(source, ImageSet):
            raise ValueError(f"{source!r} holds vectors: expected images")
    return as_image_set(source)


Outcome = tuple[Value | None, Any, ImageError | None]  # value and extra, or error
_Found = tuple[bytes, Value | None, Any, ImageError | None]  # the same after the digest of the image
_Extra = Callable[[NDArray[Any]], Any]
_Batch = Callable[[list[NDArray[Any]]], list[Value]]


def _outcomes(
    images: ImageSet,
    descriptor: Any,
    store: CachedValues | None,
    extra: _Extra | None,
    limits: DecodeLimits | None,
    n_jobs: int | None,
) -> Iterator[Outcome]:
    """Yield the outcome of each image, in order."""
    n_workers = min(effective_n_jobs(n_jobs), len(images))
    unit = 1

    def tasks() -> Iterator[tuple[list[Value | None], tuple[Any, ...] | None]]:
        start = 0
        while start < len(images):
            # Smaller towards the end, so that all workers finish at about the same time.
            size = min(unit, max(1, (len(images) - start) // (4 * n_workers)))
            rows = range(start, start + size)
            found = [None if store is None else _stored(store, images, i) for i in rows]
            missing = [i for i, value in zip(rows, found) if value is None]
            yield found, (descriptor, images.take(missing), store is not None, extra, limits) if missing else None
            start += size

    for found, described in ordered_map(_describe_unit, tasks(), n_workers, threads=descriptor._threads):
        outcomes, seconds = described or ([], 0.0)
        if outcomes:
            wanted = _UNIT_SECONDS if limits is None else _ISOLATED_SECONDS
            unit = int(np.clip(wanted * len(outcomes) / max(seconds, 1e-9), 1, _UNIT_MOST))
        fresh = iter(outcomes)
        for stored in found:
            if stored is not None:
                yield stored, None, None
                continue
            digest, value, more, error = next(fresh)
            if store is not None and value is not None:
                store.put(digest, value)
            yield value, more, error


def _stored(store: CachedValues, images: ImageSet, i: int) -> Value | None:
    try:
        return store.get(images.digest(i))
    except (ImageError, OSError):
        return None  # describing the image raises the same error


def _describe_unit(
    descriptor: Any, images: ImageSet, with_digest: bool, extra: _Extra | None, limits: DecodeLimits | None
) -> tuple[list[_Found], float]:
    """Return digest (of the bytes decoded), value, extra and error of each image, and the seconds taken."""

    def finish(item: Any, image: NDArray[Any]) -> tuple[bytes, NDArray[Any], Any]:
        return content_digest(item) if with_digest else b"", image, None if extra is None else extra(image)

    start = time.perf_counter()
    batch = _batch_method(descriptor)
    most = 0 if batch is None else _BATCH_BYTES
    outcomes: list[_Found] = []
    waiting: list[Any] = []  # results of ``finish``, or errors
    held = 0
    for i, (item, image) in enumerate(_decoded(images, limits)):
        waiting.append(image if isinstance(image, ImageError) else _tried(finish, item, image))
        held += 0 if isinstance(waiting[-1], ImageError) else waiting[-1][1].nbytes
        if held > most or i == len(images) - 1:
            outcomes += _described(descriptor, batch, waiting)
            waiting, held = [], 0
    return outcomes, time.perf_counter() - start


def _described(descriptor: Any, batch: _Batch | None, decoded: list[Any]) -> list[_Found]:
    """Return the outcomes of decoded images (digest, image, extra) or errors."""
    values = iter(_values(descriptor, batch, [found[1] for found in decoded if not isinstance(found, ImageError)]))
    outcomes: list[_Found] = []
    for found in decoded:
        value = found if isinstance(found, ImageError) else next(values)
        if isinstance(value, ImageError):
            outcomes.append((b"", None, None, value))
        else:
            outcomes.append((found[0], value, found[2], None))
    return outcomes


def _decoded(images: ImageSet, limits: DecodeLimits | None) -> Iterator[tuple[Any, Any]]:
    """Yield each item as loaded, and its image or error. With limits, other processes decode ahead of the caller."""
    within = limits and replace(limits, max_pixels=min(limits.max_pixels, images.max_pixels))
    start = 0
    while start < len(images):
        items: list[Any] = []
        held = 0
        while start < len(images) and held < _AHEAD_BYTES:
            items.append(_tried(images.load, start))
            held += len(items[-1]) if isinstance(items[-1], bytes) else _AHEAD_BYTES
            start += 1
        contents = [item for item in items if isinstance(item, bytes)]
        made = iter(decode_all(contents, within) if within else ())
        for item in items:
            if isinstance(item, ImageError):
                yield item, item
            else:
                isolated = within is not None and isinstance(item, bytes)
                yield item, next(made) if isolated else _tried(images.decode, item)


def _values(descriptor: Any, batch: _Batch | None, images: list[NDArray[Any]]) -> list[Any]:
    """Return the value of each image, or its error."""
    if batch is not None:
        with suppress(Exception):  # describing the images one by one finds the one that fails
            values = list(batch(images))
            if len(values) == len(images):
                return values
    return [_tried(descriptor.describe, image) for image in images]


def _batch_method(descriptor: Any) -> _Batch | None:
    """Return ``describe_many``, unless a subclass overrides only ``describe``."""
    for kind in type(descriptor).__mro__:
        if "describe_many" in vars(kind):
            found: _Batch = descriptor.describe_many
            return found
        if "describe" in vars(kind):
            break
    return None


def _tried(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of the function, or its error as an ``ImageError``."""
    try:
        return function(*arguments)
    except ImportError:
        raise
    except Exception as error:  # any error is reported with the name of the image
        reason = reason_of(error) if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {error}"
        failure = ImageError(reason)
        # Tracebacks of expected errors are dropped: they would keep the images in memory.
        failure.__cause__ = error.with_traceback(None) if isinstance(error, (ValueError, OSError)) else error
        return failure
