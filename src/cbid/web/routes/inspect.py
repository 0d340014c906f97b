"""Routes that explain: the served project, two codes bit by bit, examples of a bit, and the confusion matrix."""

import csv
import io
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Path, Query, Response
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

import cbid
from cbid.checks import check_integer
from cbid.codes import unpack
from cbid.data.isolated import decode_isolated
from cbid.web import models
from cbid.web.errors import error_docs
from cbid.web.routes.search import ImageFile, code_of
from cbid.web.served import Served, ServedProject, work_in

router = APIRouter(prefix="/api", tags=["inspect"], responses=error_docs())
_MAX_GROUP = 100  # images shown of one group of near-duplicates


@router.get("/project")
@work_in("search")
def project(served: Served) -> models.ProjectInfo:
    """Return the size, classes, code lengths, accuracy and limits of the served project."""
    settings = served.settings
    project = served.project
    descriptor = project.descriptor
    return models.ProjectInfo(
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
        weighted=bool(np.ptp(project.weights(project.n_bits)) > 0),
        writable=not settings.read_only and descriptor is not None,
        relabels=not settings.read_only,
        needs_key=settings.api_key is not None,
        unlearned=project.n_unlearned,
        max_upload=settings.max_upload,
        max_files=settings.max_files,
        max_pixels=settings.max_pixels,
        evaluation=project.evaluation,
        version=cbid.__version__,
    )


@router.get("/classes")
@work_in("search")
def classes(served: Served) -> list[models.ClassCount]:
    """Return the classes, sorted, with their numbers of stored images; images without a label come last."""
    counts = served.project.class_counts
    named = [models.ClassCount(label=name, images=n) for name, n in counts.items() if name]
    return named + [models.ClassCount(label=None, images=n) for name, n in counts.items() if not name]


@router.post("/explain")
@work_in("search")
def explain(body: models.ExplainRequest, served: Served) -> models.Explanation:
    """Compare two codes bit by bit, with the weight of each bit."""
    project = served.project
    a, b = code_of(project, body.a), code_of(project, body.b)
    compared = project.explain(a, b, body.n_bits, body.likeness)
    return models.Explanation(
        agree=compared.agree.tolist(),
        weights=compared.weight.tolist(),
        bits=(unpack(a, project.n_bits)[: len(compared.agree)] > 0).tolist(),
        distance=float(compared.weight[~compared.agree].sum()),
        differing=int(np.count_nonzero(~compared.agree)),
    )


@router.get("/bits")
@work_in("search")
def bits(served: Served, n_bits: Annotated[models.Bits | None, Query()] = None) -> models.BitWeights:
    """Return the weight of each bit at a code length."""
    length = served.project.n_bits if n_bits is None else n_bits
    return models.BitWeights(n_bits=length, weights=served.project.weights(length)[:length].tolist())


@router.get("/bits/{bit}")
@work_in("search")
def bit(
    served: Served,
    bit: Annotated[int, Path(ge=0, le=2**16)],
    count: Annotated[int, Query(ge=1, le=200, description="Number of images for each value of the bit.")] = 24,
) -> models.BitExamples:
    """Return images where the bit is 0 and where it is 1, furthest from the threshold first."""
    project = served.project
    check_integer("bit", bit, 0, project.n_bits - 1)
    empty = np.empty(0, dtype=np.int64)
    negative, positive = project.bit(bit, count) if len(project) else (empty, empty)
    shares = zip(*project.bit_classes(bit)) if len(project) else []
    return models.BitExamples(
        bit=bit,
        weight=float(project.weights(project.n_bits)[bit]),
        classes=[models.ClassShare(label=name, images=n, ones=ones) for name, n, ones in shares],
        negative=[models.Image.of(record) for record in served.records(negative)],
        positive=[models.Image.of(record) for record in served.records(positive)],
    )


# Routes that compare many images run in the image pool, so that searches do not wait for them.


@router.get("/confusion")
@work_in("image")
def confusion(served: Served) -> models.Confusion:
    """Return the confusion matrix of the held-out images, with the current labels; empty if there are none."""
    found = served.project.predictions()
    known = found.predicted != ""
    if not known.any():
        return models.Confusion(classes=[], matrix=[])
    classes = sorted({*found.labels.tolist(), *found.predicted[known].tolist(), *served.project.classes})
    matrix = confusion_matrix(found.labels[known], found.predicted[known], labels=classes)
    return models.Confusion(classes=classes, matrix=matrix.tolist())


@router.get("/predictions")
@work_in("image")
def predictions(
    served: Served,
    label: Annotated[models.Label | None, Query(description="Only images of this class.")] = None,
    predicted: Annotated[
        models.Label | None, Query(description="Only images for which this class is predicted.")
    ] = None,
    wrong: Annotated[bool, Query(description="Only images whose class is not the predicted one.")] = False,
    first: Annotated[int, Query(ge=0, le=models.MAX_ID, description="Number of images to skip.")] = 0,
    count: Annotated[int, Query(ge=0, le=1000, description="Number of images to return.")] = 100,
) -> models.PredictionPage:
    """List held-out images with the class that the training images predict."""
    found = served.project.predictions()
    keep = np.ones(len(found.ids), dtype=bool)
    if label is not None:  # one of several labels, or all of them as the confusion matrix shows them
        keep &= (found.labels == label) | np.isin(found.ids, served.project.ids_of(label))
    keep &= True if predicted is None else found.predicted == predicted
    keep &= found.labels != found.predicted if wrong else True
    names = dict(zip(found.ids.tolist(), found.predicted.tolist()))
    return models.PredictionPage(
        total=int(keep.sum()),
        images=[
            models.Prediction(**models.Image.of(record).model_dump(), predicted=names[record.id] or None)
            for record in served.records(found.ids[keep][first : first + count])
        ],
    )


@router.get(
    "/mistakes.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}, "description": "A CSV file"}},
)
@work_in("image")
def mistakes(served: Served) -> Response:
    """Return the held-out images whose class is not the predicted one, as CSV."""
    found = served.project.predictions()
    names = dict(zip(found.ids.tolist(), found.predicted.tolist()))
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["id", "name", "label", "predicted"])
    for record in served.records(found.ids[found.labels != found.predicted]):
        rows.writerow([record.id, *map(_csv_cell, (record.name, record.label or "", names[record.id]))])
    content = text.getvalue().encode(errors="backslashreplace")
    headers = {"Content-Disposition": 'attachment; filename="mistakes.csv"'}
    return Response(content, media_type="text/csv; charset=utf-8", headers=headers)


def _csv_cell(text: str) -> str:
    """Return text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


@router.get("/duplicates")
@work_in("image")
def duplicates(
    served: Served,
    radius: Annotated[
        int | None, Query(ge=0, le=2**16, description="Bits in which two codes may differ (default: a twentieth).")
    ] = None,
    similarity: Annotated[float, Query(ge=0, le=1, description="Least similarity of two raw vectors.")] = 0.95,
    first: Annotated[int, Query(ge=0, le=models.MAX_ID, description="Number of groups to skip.")] = 0,
    count: Annotated[int, Query(ge=0, le=200, description="Number of groups to return.")] = 50,
) -> models.DuplicatePage:
    """Return groups of near-duplicates: near codes and near raw vectors."""
    project = served.project
    found = project.duplicates(project.n_bits // 20 if radius is None else radius, similarity)
    groups = [
        models.DuplicateImages(
            similarity=value,
            images=[models.Image.of(record) for record in served.records(np.array(ids[:_MAX_GROUP], dtype=np.int64))],
        )
        for ids, value in found[first : first + count]
    ]
    return models.DuplicatePage(total=len(found), groups=groups)


@router.post("/occlusion")
@work_in("image", consistently=True)
def occlusion(body: models.OcclusionRequest, served: Served) -> models.OcclusionMap:
    """Return which parts of a stored picture decide the bits that it shares with another code."""
    project = served.project
    picture, own = project.thumbnail(body.id), project.code(body.id)
    return _occlude(served, picture, code_of(project, body.other), body.n_bits, body.likeness, body.grid, own)


@router.post("/occlusion/image", responses=error_docs(415))
@work_in("image")
def occlusion_image(
    image: ImageFile,
    served: Served,
    id: Annotated[int, Query(ge=0, le=models.MAX_ID, description="A stored image to compare with.")],
    n_bits: Annotated[models.Bits | None, Query()] = None,
    likeness: Annotated[models.Likeness | None, Query()] = None,
    grid: Annotated[models.Grid | None, Query()] = None,
) -> models.OcclusionMap:
    """Return which parts of an uploaded picture decide the bits that it shares with a stored image."""
    data = image.file.read()
    return served.read_consistently(lambda: _occlude(served, data, served.project.code(id), n_bits, likeness, grid))


def _occlude(
    served: ServedProject,
    data: bytes,
    other: NDArray[np.uint8],
    n_bits: int | None,
    likeness: float | None,
    grid: int | None,
    own: NDArray[np.uint8] | None = None,
) -> models.OcclusionMap:
    settings = served.settings
    picture = decode_isolated(data, settings.limits)
    seconds = 0.2 * settings.seconds
    found = served.project.occlude(picture, other, n_bits, likeness=likeness, own=own, grid=grid, seconds=seconds)
    return models.OcclusionMap(heat=found.heat.tolist(), flipped=found.flipped.tolist(), n_bits=found.n_bits)
