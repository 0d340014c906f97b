"""Descriptors of more images than one process gets through: in parts, by the workers of a cluster."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cbid.bags import Bags
from cbid.checks import check_choice, check_integer
from cbid.data.arrays import read_npy
from cbid.data.describing import Described, NothingDescribed, describe, opened_images
from cbid.data.image_sets import ImageSet
from cbid.descriptors.base import LocalDescriptor
from cbid.scale.parts import IDS, Job, id_file
from cbid.scale.running import run
from cbid.tensorfile import Arrays

__all__ = ["describe_to"]

_OF_BAGS = ("values", "frames", "sizes", "shapes")


@dataclass(frozen=True)
class Describe:
    """Values of a span of images; ids are their places in the source, notes tell of those that were left out."""

    images: ImageSet
    descriptor: Any
    on_error: str

    def __call__(self, start: int, stop: int) -> tuple[Arrays, list[Any]]:
        try:
            found = describe(self.images[start:stop], self.descriptor, on_error=self.on_error)
        except NothingDescribed as error:
            return {IDS: np.empty(0, np.int64)}, [list(failure) for failure in error.failures]
        arrays: Arrays = {IDS: start + found.rows}
        values: Any = found.values
        names = _OF_BAGS if isinstance(values, Bags) else ()
        arrays |= {name: getattr(values, name) for name in names} or {"values": values}
        return arrays, [list(failure) for failure in found.failures]


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
    """Values of every image of a source, as ``cbid.data.describe``, in parts that survive a kill.

    ``out``: a ``.npy`` file for a vector descriptor; for a local one a folder, with values, frames, sizes and shapes.
    ``OUT.parts`` holds parts until all are there, ``OUT.json`` tells what the values were made of: the descriptor,
    and the names of the images, not their contents. The other arguments are those of ``encode_to``; workers read the
    images themselves, under the same paths.
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    check_integer("part_images", part_images, 1)
    descriptor._check_params()
    images = opened_images(source, on_error)
    if not len(images):
        raise ValueError("the source holds no images; give at least one")
    target = Path(os.path.abspath(out))
    local = isinstance(descriptor, LocalDescriptor)
    if local:
        target.mkdir(parents=True, exist_ok=True)
        outputs = {name: target / f"{name}.npy" for name in (*_OF_BAGS, IDS)}
    elif target.suffix == ".npy":
        outputs = {"values": target, IDS: id_file(target)}
    else:
        raise ValueError(f"out={os.fspath(out)!r} is not accepted; give the name of a .npy file")
    names = hashlib.blake2b(digest_size=16)
    for i in range(len(images)):
        names.update(images.names.raw(i) + b"\0")
    n = len(images)
    job = Job(
        task=Describe(images, descriptor, on_error),
        spans=[(start, min(start + part_images, n)) for start in range(0, n, part_images)],
        outputs=outputs,
        record=target.with_name(f"{target.name}.json"),
        plan={
            "what": "descriptors",
            "descriptor": descriptor.fingerprint(),
            "images": names.hexdigest(),
            "on_error": on_error,
        },
    )
    notes = run(job, scheduler=scheduler, n_jobs=n_jobs, timeout=timeout, overwrite=overwrite, verbose=verbose)
    rows = np.array(read_npy(outputs[IDS]))
    taken = images.take(rows)
    failures = [*images.problems, *((name, reason) for name, reason in notes)]
    return Described(_values(outputs, local), rows, taken.names, taken.labels, taken.classes, failures)


def _values(outputs: dict[str, Path], local: bool) -> Any:
    if not local:
        return read_npy(outputs["values"])
    values, frames, sizes, shapes = (read_npy(outputs[name]) for name in _OF_BAGS)
    return Bags(values, np.concatenate([[0], np.cumsum(sizes)]), frames, shapes)
