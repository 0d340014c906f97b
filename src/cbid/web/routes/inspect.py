"""Routes that explain: the served project, two codes bit by bit, examples of a bit, and the confusion matrix."""

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Path, Query, Request

import cbid
from cbid.checks import check_integer
from cbid.codes import unpack
from cbid.web.errors import error_docs
from cbid.web.models import (
    BitExamples,
    Bits,
    BitWeights,
    ClassCount,
    Confusion,
    ExplainRequest,
    Explanation,
    Image,
    ProjectInfo,
)
from cbid.web.routes.search import code_of
from cbid.web.served import served_by

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["inspect"])


@router.get("/project", responses=error_docs())
async def project(request: Request) -> ProjectInfo:
    """Return the size, classes, code lengths, accuracy and limits of the served project."""
    served = served_by(request)
    settings = served.settings

    def work() -> ProjectInfo:
        project = served.project
        descriptor = project.descriptor
        return ProjectInfo(
            name=project.path.resolve().name,
            total=len(project),
            classes=project.classes,
            n_bits=project.n_bits,
            lengths=project.lengths,
            n_values=project.n_features,
            descriptor=None if descriptor is None else type(descriptor).__name__,
            coder=type(project.coder).__name__,
            has_pictures=project.has_thumbnails,
            likeness=float(project.coder.likeness_) if project.has_dial else None,
            writable=not settings.read_only and descriptor is not None,
            max_upload=settings.max_upload,
            max_files=settings.max_files,
            max_pixels=settings.max_pixels,
            evaluation=project.evaluation,
            version=cbid.__version__,
        )

    return await served.search_pool.run(work)


@router.get("/classes", responses=error_docs())
async def classes(request: Request) -> list[ClassCount]:
    """Return the classes, sorted, with their numbers of stored images; images without a label come last."""
    served = served_by(request)

    def work() -> list[ClassCount]:
        counts = served.project.class_counts
        named = [ClassCount(label=name, images=n) for name, n in counts.items() if name]
        return named + [ClassCount(label=None, images=n) for name, n in counts.items() if not name]

    return await served.search_pool.run(work)


@router.post("/explain", responses=error_docs())
async def explain(body: ExplainRequest, request: Request) -> Explanation:
    """Compare two codes bit by bit, with the weight of each bit."""
    served = served_by(request)

    def work() -> Explanation:
        project = served.project
        a, b = code_of(project, body.a), code_of(project, body.b)
        compared = project.explain(a, b, body.n_bits, body.likeness)
        return Explanation(
            agree=compared.agree.tolist(),
            weights=compared.weight.tolist(),
            bits=(unpack(a, project.n_bits)[: len(compared.agree)] > 0).tolist(),
            distance=float(compared.weight[~compared.agree].sum()),
            differing=int(np.count_nonzero(~compared.agree)),
        )

    return await served.search_pool.run(work)


@router.get("/bits", responses=error_docs())
async def bits(request: Request, n_bits: Annotated[Bits | None, Query()] = None) -> BitWeights:
    """Return the weight of each bit at a code length."""
    served = served_by(request)

    def work() -> BitWeights:
        length = served.project.n_bits if n_bits is None else n_bits
        return BitWeights(n_bits=length, weights=served.project.weights(length)[:length].tolist())

    return await served.search_pool.run(work)


@router.get("/bits/{bit}", responses=error_docs())
async def bit(
    request: Request,
    bit: Annotated[int, Path(ge=0, le=2**16)],
    count: Annotated[int, Query(ge=1, le=200, description="Number of images for each value of the bit.")] = 24,
) -> BitExamples:
    """Return images where the bit is 0 and where it is 1, furthest from the threshold first."""
    served = served_by(request)

    def work() -> BitExamples:
        project = served.project
        check_integer("bit", bit, 0, project.n_bits - 1)
        empty = np.empty(0, dtype=np.int64)
        negative, positive = project.bit(bit, count) if len(project) else (empty, empty)
        return BitExamples(
            bit=bit,
            weight=float(project.weights(project.n_bits)[bit]),
            negative=[Image.of(record) for record in served.records(negative)],
            positive=[Image.of(record) for record in served.records(positive)],
        )

    return await served.search_pool.run(work)


@router.get("/confusion", responses=error_docs())
async def confusion(request: Request) -> Confusion:
    """Return the confusion matrix of the held-out images; empty if no images were held out."""
    return Confusion(**served_by(request).project.confusion)
