"""Why: what is served, two codes bit by bit, one bit's two sides, and which classes are confused."""

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Path, Query, Request

import cbid
from cbid.checks import check_integer
from cbid.codes import unpack
from cbid.web.models import (
    Bits,
    BitSides,
    Confusion,
    Explain,
    Explained,
    Image,
    ProjectInfo,
    Weights,
)
from cbid.web.problems import documented
from cbid.web.queries import code_of
from cbid.web.routes import library_of

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["inspect"])


@router.get("/project", responses=documented())
async def project(request: Request) -> ProjectInfo:
    """What is served: sizes, classes, code lengths, limits, and what was measured when it was fitted."""
    library = library_of(request)
    settings = library.settings

    def work() -> ProjectInfo:
        served = library.project
        descriptor = served.descriptor
        return ProjectInfo(
            name=served.path.resolve().name,
            total=len(served),
            classes=served.classes,
            n_bits=served.n_bits,
            lengths=served.lengths,
            n_values=served.n_features,
            descriptor=None if descriptor is None else type(descriptor).__name__,
            coder=type(served.coder).__name__,
            has_pictures=served.has_thumbnails,
            writable=not settings.read_only and descriptor is not None,
            max_upload=settings.max_upload,
            max_files=settings.max_files,
            max_pixels=settings.max_pixels,
            evaluation=served.evaluation,
            version=cbid.__version__,
        )

    return await library.searching.run(work)


@router.post("/explain", responses=documented())
async def explain(asked: Explain, request: Request) -> Explained:
    """In which bits two codes agree, and what each bit weighs."""
    library = library_of(request)

    def work() -> Explained:
        served = library.project
        a, b = (code_of(served, one) for one in (asked.a, asked.b))
        told = served.explain(a, b, asked.n_bits)
        return Explained(
            agree=told.agree.tolist(),
            weights=told.weight.tolist(),
            bits=(unpack(a, served.n_bits)[: len(told.agree)] > 0).tolist(),
            distance=float(told.weight[~told.agree].sum()),
            differing=int(np.count_nonzero(~told.agree)),
        )

    return await library.searching.run(work)


@router.get("/bits", responses=documented())
async def bits(request: Request, n_bits: Annotated[Bits | None, Query()] = None) -> Weights:
    """What each bit weighs at a code length."""
    library = library_of(request)

    def work() -> Weights:
        length = library.project.n_bits if n_bits is None else n_bits
        return Weights(n_bits=length, weights=library.project.weights(length)[:length].tolist())

    return await library.searching.run(work)


@router.get("/bits/{bit}", responses=documented())
async def bit(
    request: Request,
    bit: Annotated[int, Path(ge=0, le=2**16)],
    count: Annotated[int, Query(ge=1, le=200)] = 24,
) -> BitSides:
    """The images on the two sides of a bit, most certain first."""
    library = library_of(request)

    def work() -> BitSides:
        served = library.project
        check_integer("bit", bit, 0, served.n_bits - 1)
        none = np.empty(0, dtype=np.int64)
        negative, positive = served.bit(bit, count) if len(served) else (none, none)
        return BitSides(
            bit=bit,
            weight=float(served.weights(served.n_bits)[bit]),
            negative=[Image.of(record) for record in library.records(negative)],
            positive=[Image.of(record) for record in library.records(positive)],
        )

    return await library.searching.run(work)


@router.get("/confusion", responses=documented())
async def confusion(request: Request) -> Confusion:
    """How often a held-out image of one class was taken for another; empty where nothing was held out."""
    return Confusion(**library_of(request).project.confusion)
