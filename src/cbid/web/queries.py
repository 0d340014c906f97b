"""From what a request names (an image, a vector, a code) to what the project searches with."""

import numpy as np
from numpy.typing import NDArray

from cbid.codes import check_codes
from cbid.data.decode import decode_image
from cbid.project import Project
from cbid.web.library import Library
from cbid.web.models import Asked, ByCode, ById, Found, Match, SearchOptions

__all__ = ["code_of", "described", "found", "queried"]


def code_of(project: Project, asked: Asked) -> NDArray[np.uint8]:
    """The packed code (bytes,)."""
    if isinstance(asked, ById):
        return project.code(asked.id)
    if isinstance(asked, ByCode):
        return check_codes(np.frombuffer(bytes.fromhex(asked.code), dtype=np.uint8), project.n_bits, name="code")[0]
    return project.encode(np.asarray(asked.vector))[0]


def queried(project: Project, asked: Asked, how: str) -> NDArray[np.uint8] | NDArray[np.float32]:
    """A code, or for the raw search a vector; a code alone has no vector."""
    if how != "raw":
        return code_of(project, asked)
    if isinstance(asked, ById):
        return project.vector(asked.id)
    if isinstance(asked, ByCode):
        raise ValueError("how: raw compares vectors; a code was given")
    return np.asarray(asked.vector, dtype=np.float32)


def described(project: Project, data: bytes, max_pixels: int) -> NDArray[np.float32]:
    """The vector of an uploaded file."""
    return project.describe_image(decode_image(data, max_pixels=max_pixels))


def found(
    library: Library,
    query: NDArray[np.uint8] | NDArray[np.float32],
    options: SearchOptions,
    *,
    exclude: list[int] | None = None,
) -> Found:
    """Search, and what is known of the images that were found."""
    project = library.project
    raw = options.how == "raw"
    if raw and options.n_bits is not None:
        raise ValueError("n_bits: raw compares whole vectors")
    code = query if query.dtype == np.uint8 else project.encode(query)[0]
    total = len(project)
    if not total:
        raise ValueError("the project holds no image that could be found")
    near = project.search(
        query if raw else code,
        min(options.k, total),
        n_bits=options.n_bits,
        how=options.how,
        exclude=exclude or None,
        label=options.label,
    )
    library.metrics.search(options.how, near.seconds)
    distances = dict(zip(near.ids[0].tolist(), near.distances[0].tolist()))
    records = library.records(near.ids[0][near.ids[0] >= 0])
    return Found(
        matches=[Match(id=r.id, name=r.name, label=r.label, part=r.part, distance=distances[r.id]) for r in records],
        how=options.how,
        n_bits=None if raw else options.n_bits or project.n_bits,
        bytes_per_image=near.n_bytes,
        searched=total,
        seconds=near.seconds,
        code=code.tobytes().hex(),
    )
