"""Routes that explain: the served project, two codes bit by bit, examples of a bit, and the confusion matrix."""

import csv
import io
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response
from numpy.typing import NDArray

import cbid
from cbid.checks import check_integer
from cbid.codes import unpack
from cbid.data.isolated import decode_isolated
from cbid.web.errors import error_docs
from cbid.web.models import (
    MAX_ID,
    BitExamples,
    Bits,
    BitWeights,
    ClassCount,
    ClassShare,
    Confusion,
    DuplicateImages,
    DuplicatePage,
    ExplainRequest,
    Explanation,
    Image,
    Label,
    Likeness,
    OcclusionMap,
    OcclusionRequest,
    Prediction,
    PredictionPage,
    ProjectInfo,
)
from cbid.web.routes.search import ImageFile, code_of
from cbid.web.served import ServedProject, served_by

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["inspect"])
_MAX_GROUP = 100  # images shown of one group of near-duplicates


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
            relabels=not settings.read_only,
            unlearned=project.n_unlearned,
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
        shares = zip(*project.bit_classes(bit)) if len(project) else []
        return BitExamples(
            bit=bit,
            weight=float(project.weights(project.n_bits)[bit]),
            classes=[ClassShare(label=name, images=n, ones=ones) for name, n, ones in shares],
            negative=[Image.of(record) for record in served.records(negative)],
            positive=[Image.of(record) for record in served.records(positive)],
        )

    return await served.search_pool.run(work)


# What compares many images runs beside the searches, not before them.


@router.get("/confusion", responses=error_docs())
async def confusion(request: Request) -> Confusion:
    """Return the confusion matrix of the held-out images, with the current labels; empty if there are none."""
    served = served_by(request)

    def work() -> Confusion:
        found = served.project.predictions()
        known = found.predicted != ""
        classes = sorted({*found.labels.tolist(), *found.predicted[known].tolist(), *served.project.classes})
        matrix = np.zeros((len(classes), len(classes)), dtype=np.int64)
        places = (np.searchsorted(classes, names[known]) for names in (found.labels, found.predicted))
        np.add.at(matrix, tuple(places), 1)
        return Confusion(classes=classes, matrix=matrix.tolist()) if known.any() else Confusion(classes=[], matrix=[])

    return await served.image_pool.run(work)


@router.get("/predictions", responses=error_docs())
async def predictions(
    request: Request,
    label: Annotated[Label | None, Query(description="Only images of this class.")] = None,
    predicted: Annotated[Label | None, Query(description="Only images for which this class is predicted.")] = None,
    wrong: Annotated[bool, Query(description="Only images whose class is not the predicted one.")] = False,
    first: Annotated[int, Query(ge=0, le=MAX_ID, description="Number of images to skip.")] = 0,
    count: Annotated[int, Query(ge=0, le=1000, description="Number of images to return.")] = 100,
) -> PredictionPage:
    """List held-out images with the class that the training images predict."""
    served = served_by(request)

    def work() -> PredictionPage:
        found = served.project.predictions()
        keep = np.ones(len(found.ids), dtype=bool)
        if label is not None:  # one of several labels, or all of them as the confusion matrix shows them
            keep &= (found.labels == label) | np.isin(found.ids, served.project.ids_of(label))
        keep &= True if predicted is None else found.predicted == predicted
        keep &= found.labels != found.predicted if wrong else True
        names = dict(zip(found.ids.tolist(), found.predicted.tolist()))
        return PredictionPage(
            total=int(keep.sum()),
            images=[
                Prediction(**Image.of(record).model_dump(), predicted=names[record.id] or None)
                for record in served.records(found.ids[keep][first : first + count])
            ],
        )

    return await served.image_pool.run(work)


@router.get(
    "/mistakes.csv",
    response_class=Response,
    responses={**error_docs(), 200: {"content": {"text/csv": {}}, "description": "A CSV file"}},
)
async def mistakes(request: Request) -> Response:
    """Return the held-out images whose class is not the predicted one, as CSV."""
    served = served_by(request)

    def work() -> str:
        found = served.project.predictions()
        wrong = found.labels != found.predicted
        names = dict(zip(found.ids.tolist(), found.predicted.tolist()))
        text = io.StringIO()
        rows = csv.writer(text)
        rows.writerow(["id", "name", "label", "predicted"])
        for record in served.records(found.ids[wrong]):
            rows.writerow([record.id, *map(_csv_cell, (record.name, record.label or "", names[record.id]))])
        return text.getvalue()

    text = await served.image_pool.run(work)
    headers = {"Content-Disposition": 'attachment; filename="mistakes.csv"'}
    return Response(text.encode(errors="backslashreplace"), media_type="text/csv; charset=utf-8", headers=headers)


def _csv_cell(text: str) -> str:
    """Return text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


@router.get("/duplicates", responses=error_docs())
async def duplicates(
    request: Request,
    radius: Annotated[
        int | None, Query(ge=0, le=2**16, description="Bits in which two codes may differ (default: a twentieth).")
    ] = None,
    similarity: Annotated[float, Query(ge=0, le=1, description="Least similarity of two raw vectors.")] = 0.95,
    first: Annotated[int, Query(ge=0, le=MAX_ID, description="Number of groups to skip.")] = 0,
    count: Annotated[int, Query(ge=0, le=200, description="Number of groups to return.")] = 50,
) -> DuplicatePage:
    """Return groups of near-duplicates: near codes and near raw vectors."""
    served = served_by(request)

    def work() -> DuplicatePage:
        project = served.project
        found = project.duplicates(project.n_bits // 20 if radius is None else radius, similarity)
        groups = [
            DuplicateImages(
                similarity=value,
                images=[Image.of(record) for record in served.records(np.array(ids[:_MAX_GROUP], dtype=np.int64))],
            )
            for ids, value in found[first : first + count]
        ]
        return DuplicatePage(total=len(found), groups=groups)

    return await served.image_pool.run(work)


@router.post("/occlusion", responses=error_docs())
async def occlusion(body: OcclusionRequest, request: Request) -> OcclusionMap:
    """Return which parts of a stored picture decide the bits that it shares with another code."""
    served = served_by(request)

    def work() -> OcclusionMap:
        project = served.project
        picture, own = project.thumbnail(body.id), project.code(body.id)
        return _occlude(served, picture, code_of(project, body.other), body.n_bits, body.likeness, own)

    return await served.image_pool.run(served.read_consistently, work)


@router.post("/occlusion/image", responses=error_docs(415))
async def occlusion_image(
    image: ImageFile,
    request: Request,
    id: Annotated[int, Query(ge=0, le=MAX_ID, description="A stored image to compare with.")],
    n_bits: Annotated[Bits | None, Query()] = None,
    likeness: Annotated[Likeness | None, Query()] = None,
) -> OcclusionMap:
    """Return which parts of an uploaded picture decide the bits that it shares with a stored image."""
    served = served_by(request)
    data = await image.read()

    def work() -> OcclusionMap:
        return _occlude(served, data, served.project.code(id), n_bits, likeness)

    return await served.image_pool.run(served.read_consistently, work)


def _occlude(
    served: ServedProject,
    data: bytes,
    other: NDArray[np.uint8],
    n_bits: int | None,
    likeness: float | None,
    own: NDArray[np.uint8] | None = None,
) -> OcclusionMap:
    settings = served.settings
    picture = decode_isolated(data, settings.limits)
    seconds = 0.2 * settings.seconds
    found = served.project.occlude(picture, other, n_bits, likeness=likeness, own=own, seconds=seconds)
    return OcclusionMap(heat=found.heat.tolist(), flipped=found.flipped.tolist(), n_bits=found.n_bits)
