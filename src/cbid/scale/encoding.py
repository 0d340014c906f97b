"""Encode more vectors, or describe more images, than memory holds: in parts, here or on the workers of a cluster."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from cbid.bags import Bags
from cbid.checks import check_choice, check_integer
from cbid.coders.base import Coder
from cbid.data.arrays import read_npy
from cbid.data.decode import ImageError
from cbid.data.image_sets import ImageSet
from cbid.descriptors.base import LocalDescriptor
from cbid.descriptors.describing import Described, NothingDescribed, describe, opened_images
from cbid.scale.parts import IDS, Job, id_file, stored_ids
from cbid.scale.running import as_bytes, n_threads, run, used_budget
from cbid.scale.sources import MemoryRows, RowSource, open_rows
from cbid.storage import code_files
from cbid.storage.digests import digest_of, new_digest
from cbid.storage.models import model_digest
from cbid.storage.tensors import Arrays
from cbid.text import printable

_ROWS = 1 << 16  # rows of a part, if memory allows them
_SLICE_BYTES = 3 * 64 * 2**20  # what a coder needs to project one slice


@dataclass(frozen=True)
class Encode:
    """Codes and ids of a span of rows."""

    rows: RowSource
    coder: Coder

    def __call__(self, start: int, stop: int) -> tuple[Arrays, list[Any]]:
        """Return the arrays and the notes of one span."""
        codes = self.coder.encode(self.rows.read(start, stop))
        return {"codes": codes, IDS: stored_ids(self.rows.ids_of(start, stop))}, []


def encode_to(
    source: Any,
    coder: Coder,
    out: str | os.PathLike[str],
    *,
    ids: ArrayLike | None = None,
    scheduler: Any = None,
    n_jobs: int | None = None,
    max_memory: int | str = "2GB",
    part_rows: int | None = None,
    timeout: float = 30.0,
    overwrite: bool = False,
    verbose: int = 0,
) -> NDArray[np.uint8]:
    """Encode all rows of a source to the ``.npy`` file ``out`` and return the codes, mapped from it.

    The file is written atomically. Until then ``OUT.parts`` holds finished parts, and a run that was killed or lost
    its cluster continues from them. ``OUT.json`` records what the codes were made of. The bytes are those of
    ``coder.encode`` with one thread, in this process and on a cluster.

    Parameters
    ----------
    source
        An array (n, d), mapped or not; a ``.npy`` or ``.npz`` file of one; one or several parquet files, or a folder
        of them. For a cluster, files that the workers see under the same path.
    coder
        A fitted coder.
    out
        The file to write, in a folder that the workers see too. Ids of the source go to ``OUT`` with ``.ids.npy``
        for ``.npy``.
    ids
        Integers or strings (n,), instead of those of the source.
    scheduler
        None for this process; the address of a Dask scheduler, or a ``distributed.Client``.
    n_jobs
        Threads in this process, each with its own part.
    max_memory
        The limit for this process, or for each worker in addition to what it uses at the start.
    part_rows
        Rows of a part. None: 65,536, or as many as ``max_memory`` allows; a continued run keeps its parts.
    timeout
        Seconds to wait for the scheduler and its workers.
    overwrite
        Whether to replace results or parts of another plan. The old result stays until the new one is complete.
    verbose
        1 shows progress.
    """
    check_is_fitted(coder)
    rows = open_rows(source, ids=ids)
    if rows.shape[1] != coder.n_features_in_:
        raise ValueError(f"source has vectors of {rows.shape[1]} values; coder was fitted to {coder.n_features_in_}")
    if scheduler is not None and isinstance(rows, MemoryRows):
        raise ValueError(
            "source is an array in the memory of this process, which the workers cannot read; save it as .npy and "
            "give the path or the mapped array"
        )
    if part_rows is not None:
        check_integer("part_rows", part_rows, 1)
    budget = as_bytes(max_memory)
    target = Path(os.path.abspath(out))
    if target.suffix != ".npy":
        raise ValueError(f"out={os.fspath(out)!r}: expected the name of a .npy file")
    outputs = {"codes": target}
    plan = {"what": "codes", "coder": model_digest(coder), "source": rows.identity()}
    if rows.ids is not None:
        outputs[IDS] = id_file(target)
        plan[IDS] = digest_of(stored_ids(rows.ids))
    job = Job(
        task=Encode(rows.without_labels(), coder),
        spans=[] if part_rows is None else rows.spans(part_rows),
        outputs=outputs,
        record=target.with_name(f"{target.name}.json"),
        plan=plan,
        sources=rows.files(),
        ids_file=id_file(target) if rows.ids is None else None,
        fixed=part_rows is not None,
    ).with_earlier_spans()
    if part_rows is None and not (job.spans and job.is_done(overwrite=overwrite)):
        size = _part_rows(rows, coder, budget, 1 if scheduler is not None else n_jobs)
        job = replace(job, spans=job.spans or rows.spans(size))
    run(job, scheduler=scheduler, n_jobs=n_jobs, timeout=timeout, overwrite=overwrite, verbose=verbose)
    return code_files.load(target)


def _part_rows(rows: RowSource, coder: Coder, budget: int, n_jobs: int | None) -> int:
    """Return the number of rows of a part that the budget allows."""
    left = (budget - used_budget()) // n_threads(n_jobs) - _SLICE_BYTES
    # For each row: the vector, a float copy for the coder if it holds integers, and the code.
    allowed = left // (rows.row_bytes + 8 * rows.shape[1] * (rows.dtype.kind != "f") + coder.n_bits_ + 64)
    if allowed < 1:
        raise ValueError(f"max_memory={budget:,} bytes is too small to encode any row; give more")
    cut = coder.slice_rows()  # a span that starts at a multiple of it has the codes of the whole array
    most = max(min(allowed, _ROWS) // cut * cut, min(allowed, cut))
    largest = max((stop - start for start, stop in rows.spans(most)), default=0)
    if largest > allowed:
        raise ValueError(
            f"max_memory={budget:,} bytes allows parts of {allowed} rows; a row group of the source has {largest}. "
            "Give more memory, or write the parquet files with smaller row groups"
        )
    return int(most)


_BAG_ARRAYS = ("values", "frames", "sizes", "shapes")


@dataclass(frozen=True)
class Describe:
    """Values of a span of images; ids are positions in the source, notes name the skipped images.

    ``first`` is the first image of the source that can be described, ``width`` the number of its values. All images
    must have that number.
    """

    images: ImageSet
    descriptor: Any
    on_error: str
    first: int = 0
    width: int = 0

    def __call__(self, start: int, stop: int) -> tuple[Arrays, list[Any]]:
        """Return the arrays and the notes of one span."""
        rows = np.arange(start, stop)
        try:
            found: Described | None = self._described(rows)
        except NothingDescribed as error:
            return {IDS: np.empty(0, np.int64)}, [list(failure) for failure in error.failures]
        except ImageError:
            found = None  # perhaps only an image that differs from the first of this span
        if found is None or _width(found.values) != self.width:
            found = self._described(np.concatenate([[self.first], rows]))
            if found.rows[0] != 0:
                raise ImageError(f"{printable(self.images.names[self.first])} can no longer be described")
            rows, found = rows[found.rows[1:] - 1], _without_first(found)
        else:
            rows = rows[found.rows]
        arrays: Arrays = {IDS: rows}
        values: Any = found.values
        if isinstance(values, Bags):
            arrays |= {name: getattr(values, name) for name in _BAG_ARRAYS}
        else:
            arrays["values"] = values
        return arrays, [list(failure) for failure in found.failures]

    def _described(self, rows: NDArray[np.int64]) -> Described:
        return describe(self.images.take(rows), self.descriptor, on_error=self.on_error)


def describe_to(
    source: Any,
    descriptor: Any,
    out: str | os.PathLike[str],
    *,
    on_error: str = "raise",
    scheduler: Any = None,
    n_jobs: int | None = None,
    part_images: int = 256,
    timeout: float = 30.0,
    overwrite: bool = False,
    verbose: int = 0,
) -> Described:
    """Describe every image of a source, like ``cbid.descriptors.describe``, in parts that survive a kill.

    ``OUT.parts`` holds the parts until all are finished. ``OUT.json`` records what the values were made of: the
    descriptor, and the images (files by path, size and modification time, others by content). The other arguments are
    those of ``encode_to``. Workers read the images themselves, under the same paths.

    Parameters
    ----------
    source
        Anything that ``describe`` accepts.
    descriptor
        A vector or local descriptor.
    out
        A ``.npy`` file for a vector descriptor; for a local one, a folder for values, frames, sizes and shapes.
    on_error
        "raise", or "skip" images that cannot be described and list them in ``failures``.
    part_images
        Images of a part.
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    check_integer("part_images", part_images, 1)
    images = opened_images(source, on_error)
    if not len(images):
        raise ValueError("source holds no images; expected at least one")
    target = Path(os.path.abspath(out))
    local = isinstance(descriptor, LocalDescriptor)
    if local:
        outputs = {name: target / f"{name}.npy" for name in (*_BAG_ARRAYS, IDS)}
    elif target.suffix == ".npy":
        outputs = {"values": target, IDS: id_file(target)}
    else:
        raise ValueError(f"out={os.fspath(out)!r}: expected the name of a .npy file")
    n = len(images)
    job = Job(
        task=Describe(images, descriptor, on_error),
        spans=[(start, min(start + part_images, n)) for start in range(0, n, part_images)],
        outputs=outputs,
        record=target.with_name(f"{target.name}.json"),
        plan={
            "what": "descriptors",
            "descriptor": descriptor.fingerprint(),
            "images": _digest(images),
            "on_error": on_error,
        },
        sources=_files(source, images),
        uneven=frozenset({"values", "frames"} if local else ()),
    )
    if not job.is_done(overwrite=overwrite):
        first, width = _first(images, descriptor, on_error)
        job = replace(job, task=Describe(images, descriptor, on_error, first, width))
    notes = run(job, scheduler=scheduler, n_jobs=n_jobs, timeout=timeout, overwrite=overwrite, verbose=verbose)
    rows = np.array(read_npy(outputs[IDS]))
    taken = images.take(rows)
    failures = [*images.problems, *((name, reason) for name, reason in notes)]
    return Described(_values(outputs, local), rows, taken.names, taken.labels, taken.classes, failures)


def _digest(images: ImageSet) -> str:
    """Return a digest of the images; of files without their content, which would take as long as describing them."""
    digest = new_digest()
    for i in range(len(images)):
        path = images.path(i)
        digest.update(images.names.raw(i) + b"\0")
        try:
            if path is None:
                digest.update(images.digest(i))
            else:
                found = os.stat(path)
                state = f"{os.path.abspath(path)}\0{found.st_size} {found.st_mtime_ns}"
                digest.update(os.fsencode(state))
        except (OSError, ValueError):
            digest.update(b"no image")  # describing it reports the error
        digest.update(b"\0")
    return digest.hexdigest()


def _files(source: Any, images: ImageSet) -> list[Any]:
    """Return the files of arrays that hold images. Image files need no check: they are not ``.npy`` files."""
    items = getattr(images, "items", None)
    mapped = [items.filename] if isinstance(items, np.memmap) and items.filename is not None else []
    return [*mapped, *([source] if isinstance(source, (str, os.PathLike)) else [])]


def _first(images: ImageSet, descriptor: Any, on_error: str) -> tuple[int, int]:
    """Return the first image that can be described, and the number of its values."""
    failures: list[tuple[str, str]] = []
    for i in range(len(images)):
        try:
            return i, _width(describe(images.take([i]), descriptor, on_error=on_error).values)
        except NothingDescribed as error:
            failures += error.failures
    raise NothingDescribed(failures)


def _width(values: Any) -> int:
    return int((values.values if isinstance(values, Bags) else values).shape[1])


def _without_first(found: Described) -> Described:
    values: Any = found.values
    kept = values.take(np.arange(1, len(values))) if isinstance(values, Bags) else values[1:]
    return replace(found, values=kept)


def _values(outputs: dict[str, Path], local: bool) -> Any:
    if not local:
        return read_npy(outputs["values"])
    values, frames, sizes, shapes = (read_npy(outputs[name]) for name in _BAG_ARRAYS)
    return Bags(values, np.concatenate([[0], np.cumsum(sizes)]), frames, shapes)
