"""A whole source of images through one descriptor: chunk by chunk, in parallel, with what failed told by name."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from cbid.bags import Bags
from cbid.checks import check_choice, check_n_jobs
from cbid.data.decode import ImageError, reason_of
from cbid.data.image_sets import ImageSet, Problems, as_image_set, content_digest
from cbid.data.names import Names, printable
from cbid.descriptors.cache import DescriptorCache, Shelf
from cbid.descriptors.gather import Value, gather, width_of
from cbid.descriptors.parallel import ordered_map
from cbid.progress import image_progress

__all__ = ["Described", "NothingDescribed", "describe", "opened_images"]

# Images that a worker gets at a time: about as many as take it so long, so that handing them over costs little beside
# them, and no more, so that progress is seen and little waits in memory.
_UNIT_SECONDS, _UNIT_MOST = 0.02, 128
_TOGETHER_BYTES = 2**24  # of decoded images that are described at once


class _Describes(Protocol):
    """What is asked of a descriptor (``cbid.descriptors.base``).

    It may also have ``describe_many``, from a list of images to their values, where that is faster. A subclass with
    another ``describe`` does without it, or has its own.
    """

    _threads: bool

    def _check_params(self) -> None: ...

    def describe(self, image: NDArray[Any]) -> Value: ...

    def fingerprint(self) -> str: ...

    def settings(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Described:
    """The values of the images that could be described.

    values: (n, d) float32, in memory or mapped; ``Bags`` of n images for a local descriptor.
    rows: (n,) the places of these images in the source.
    names, labels, classes: theirs, as in ``ImageSet``.
    failures: (name, reason) of each image that was left out, in the source's order.
    extras: the results of ``extra``, one for each row of ``values``; empty without it.
    """

    values: NDArray[np.float32] | Bags
    rows: NDArray[np.int64]
    names: Names
    labels: NDArray[np.int64] | None
    classes: NDArray[Any] | None
    failures: Problems = field(default_factory=list)
    extras: list[Any] = field(default_factory=list)


class NothingDescribed(ImageError):
    """Not one image could be described; ``failures`` tells (name, reason) of each."""

    def __init__(self, failures: Problems) -> None:
        name, reason = failures[0]
        super().__init__(f"none of {len(failures)} images could be described; {printable(name)}: {reason}")
        self.failures = failures

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.failures,)


def describe(
    source: Any,
    descriptor: _Describes,
    *,
    on_error: str = "raise",
    n_jobs: int | None = None,
    cache: "str | os.PathLike[str] | DescriptorCache | None" = None,
    out: str | os.PathLike[str] | None = None,
    extra: Callable[[NDArray[Any]], Any] | None = None,
    verbose: int = 0,
) -> Described:
    """Values of every image of a source.

    Parameters
    ----------
    source
        An ``ImageSet``, a path for ``open_source``, or a sequence of arrays and paths.
    descriptor
        A descriptor of ``cbid.descriptors``, or anything with its verbs.
    on_error
        "raise" at the first image that cannot be read or described, or "skip" it and tell in ``failures``.
    n_jobs
        Threads or processes, whichever serves the descriptor; None is one, -1 is one for each core.
    cache
        A folder, or ``DescriptorCache``. What is in there is not computed again, and what is computed is stored chunk
        by chunk, so that a run that was killed goes on where its last chunk ended.
    out
        For values larger than memory. A vector descriptor writes this ``.npy`` file, a local one these ``.npy`` files
        in this folder; ``values`` is mapped from there.
    extra
        A function of the decoded image, called in the worker that decodes it, for what else is needed of each image
        (a thumbnail). Its results are in ``extras``. It must be picklable and cannot be combined with ``cache``.
    verbose
        1 shows progress.

    Notes
    -----
    Memory: the values themselves (twice while bags are joined; none with ``out``); for each worker, the image that it
    decodes, or 16 MB of images where it describes many at once, and the values of two units that are not taken yet,
    each of one image or of as many as it does in 20 ms, 128 at most; with a cache, four chunks (one filled, one being
    written, one that was read), each of at most 256 images and 16 MB, or one image if that is larger. Besides that it
    grows with the number of images only by their names and 24 bytes for each image stored in the cache.
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    check_n_jobs(n_jobs)
    if extra is not None and cache is not None:
        raise ValueError("extra and cache cannot be combined: images in the cache are not decoded")
    descriptor._check_params()
    images = opened_images(source, on_error)
    if not len(images):
        raise ValueError("the source holds no images; give at least one")
    shelf = None
    if cache is not None:
        shelf = (cache if isinstance(cache, DescriptorCache) else DescriptorCache(cache)).shelf(descriptor)
    failures: Problems = []
    rows: list[int] = []
    extras: list[Any] = []

    def kept() -> Iterator[Value]:
        width: int | None = None
        with image_progress(len(images), type(descriptor).__name__, shown=bool(verbose)) as progress:
            for i, (value, more, error) in enumerate(_outcomes(images, descriptor, shelf, extra, n_jobs)):
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
                        f"it gave {width_of(value)} values where the first image gave {width}; "
                        "set a size to bring all images to"
                    )
                assert error is not None
                name, reason = images.names[i], reason_of(error)
                if on_error == "raise":
                    raise ImageError(f"{printable(name)}: {reason}") from error
                failures.append((name, reason))

    try:
        values = gather(kept(), len(images), out)
    finally:
        if shelf is not None:
            shelf.commit()
    if values is None:
        raise NothingDescribed(failures)
    taken = images if len(rows) == len(images) else images.take(rows)
    everything = [*images.problems, *failures]
    places = np.array(rows, np.int64)
    return Described(values, places, taken.names, taken.labels, taken.classes, everything, extras)


def opened_images(source: Any, on_error: str) -> ImageSet:
    """The images of a source as ``describe`` takes it."""
    if isinstance(source, (str, os.PathLike)):
        from cbid.data.sources import open_source

        source = open_source(source, on_error=on_error)
        if not isinstance(source, ImageSet):
            raise ValueError(f"{source!r} holds vectors, which need no descriptor; give images")
    return as_image_set(source)


Outcome = tuple[Value | None, Any, ImageError | None]  # value and extra, or error
_Extra = Callable[[NDArray[Any]], Any]
_Together = Callable[[list[NDArray[Any]]], list[Value]]


def _outcomes(
    images: ImageSet, descriptor: _Describes, shelf: Shelf | None, extra: _Extra | None, n_jobs: int | None
) -> Iterator[Outcome]:
    """What came of each image, in order."""
    n_workers = min(effective_n_jobs(n_jobs), len(images))
    unit = 1

    def tasks() -> Iterator[tuple[list[Value | None], tuple[Any, ...] | None]]:
        start = 0
        while start < len(images):
            # Smaller towards the end, so that all workers end at about the same time.
            size = min(unit, max(1, (len(images) - start) // (4 * n_workers)))
            rows = range(start, start + size)
            found = [None if shelf is None else _stored(shelf, images, i) for i in rows]
            missing = [i for i, value in zip(rows, found) if value is None]
            yield found, (descriptor, images.take(missing), shelf is not None, extra) if missing else None
            start += size

    for found, described in ordered_map(_describe_unit, tasks(), n_workers, threads=descriptor._threads):
        outcomes, seconds = described or ([], 0.0)
        if outcomes:
            unit = int(np.clip(_UNIT_SECONDS * len(outcomes) / max(seconds, 1e-9), 1, _UNIT_MOST))
        fresh = iter(outcomes)
        for stored in found:
            if stored is not None:
                yield stored, None, None
                continue
            digest, value, more, error = next(fresh)
            if shelf is not None and value is not None:
                shelf.put(digest, value)
            yield value, more, error


def _stored(shelf: Shelf, images: ImageSet, i: int) -> Value | None:
    try:
        return shelf.get(images.digest(i))
    except (ImageError, OSError):
        return None  # whoever describes it meets the same error, and tells it


def _describe_unit(
    descriptor: _Describes, images: ImageSet, with_digest: bool, extra: _Extra | None = None
) -> tuple[list[tuple[bytes, Value | None, Any, ImageError | None]], float]:
    """Digest (of what was decoded, not of an earlier file), value, extra and error of each image; seconds."""
    start = time.perf_counter()
    together = _together(descriptor)
    most = 0 if together is None else _TOGETHER_BYTES
    outcomes: list[tuple[bytes, Value | None, Any, ImageError | None]] = []
    waiting: list[Any] = []
    held = 0
    for i in range(len(images)):
        waiting.append(_tried(_decoded, images, i, with_digest, extra))
        held += 0 if isinstance(waiting[-1], ImageError) else waiting[-1][1].nbytes
        if held > most or i == len(images) - 1:
            outcomes += _described(descriptor, together, waiting)
            waiting, held = [], 0
    return outcomes, time.perf_counter() - start


def _described(
    descriptor: _Describes, together: _Together | None, decoded: list[Any]
) -> list[tuple[bytes, Value | None, Any, ImageError | None]]:
    """The outcomes of images as ``_decoded`` gave them, or of errors instead."""
    values = iter(_values(descriptor, together, [found[1] for found in decoded if not isinstance(found, ImageError)]))
    outcomes: list[tuple[bytes, Value | None, Any, ImageError | None]] = []
    for found in decoded:
        value = found if isinstance(found, ImageError) else next(values)
        if isinstance(value, ImageError):
            outcomes.append((b"", None, None, value))
        else:
            outcomes.append((found[0], value, found[2], None))
    return outcomes


def _decoded(images: ImageSet, i: int, with_digest: bool, extra: _Extra | None) -> tuple[bytes, NDArray[Any], Any]:
    """The digest, the decoded image, and what ``extra`` makes of it."""
    item = images.load(i)
    image = images.decode(item)
    return content_digest(item) if with_digest else b"", image, None if extra is None else extra(image)


def _values(descriptor: _Describes, together: _Together | None, images: list[NDArray[Any]]) -> list[Any]:
    """The value of each image, or the error that came of it."""
    if together is not None:
        with suppress(Exception):  # one by one, it is told of the image that it came of
            values = list(together(images))
            if len(values) == len(images):
                return values
    return [_tried(descriptor.describe, image) for image in images]


def _together(descriptor: _Describes) -> _Together | None:
    """``describe_many``, unless a subclass has another ``describe``."""
    for kind in type(descriptor).__mro__:
        if "describe_many" in vars(kind):
            found: _Together = descriptor.describe_many  # type: ignore[attr-defined]
            return found
        if "describe" in vars(kind):
            break
    return None


def _tried(function: Callable[..., Any], *arguments: Any) -> Any:
    """What it returns, or an ``ImageError`` that tells why it returned nothing."""
    try:
        return function(*arguments)
    except ImportError:
        raise
    except Exception as error:  # whatever it is, it came of this image, which is told with its name
        told = reason_of(error) if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {error}"
        failure = ImageError(told)
        # The trace of what is expected of images tells nothing more, and would hold all images at work in memory.
        failure.__cause__ = error.with_traceback(None) if isinstance(error, (ValueError, OSError)) else error
        return failure
