"""Routes that search and classify: with a stored image, a vector, a code, or an uploaded image."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, File, Query, UploadFile
from numpy.typing import NDArray
from pydantic import Field

from cbid.codes import check_codes
from cbid.project import Examples, Project
from cbid.web import models
from cbid.web.errors import error_docs
from cbid.web.served import Served, ServedProject, work_in

router = APIRouter(prefix="/api", tags=["search"], responses=error_docs())
ImageFile = Annotated[UploadFile, File(description="A JPEG, PNG, WebP, GIF, BMP, TIFF or PPM file.")]
Code = NDArray[np.uint8]  # (ceil(n_bits / 8),)
Vector = NDArray[np.float32]  # (d,)
_TRIES = 5  # searches, if matches are removed before their records are read


class ImageSearchOptions(models.SearchOptions):
    """Options of a search with an uploaded image."""

    vector: bool = Field(default=False, description="Also return the raw vector of the image.")


@router.post("/search")
@work_in("search", consistently=True)
def search(body: models.SearchRequest, served: Served) -> models.SearchResult:
    """Find the images most similar to a stored image, a vector or a code. A stored image does not find itself."""
    exclude = list(body.exclude)
    record = None
    if isinstance(body.query, models.ById):
        exclude.append(body.query.id)
        record = served.project.record(body.query.id)
    examples = [body.query, *body.also]
    exclude += [query.id for query in [*body.also, *body.unlike] if isinstance(query, models.ById)]
    like, unlike = _examples(served.project, examples), _examples(served.project, body.unlike)
    result = _search(served, like, body, exclude, unlike)
    if record is not None:
        result.label, result.labels = record.label, record.labels
    return result


@router.post("/search/image", responses=error_docs(415))
async def search_image(
    image: ImageFile, served: Served, options: Annotated[ImageSearchOptions, Query()]
) -> models.SearchResult:
    """Find the images most similar to an uploaded image.

    With ``vector=true`` the response holds the raw vector, which can be the query of further searches.
    """
    data = await image.read()
    vector = await served.image_pool.run(served.project.describe_image, data)

    def work() -> models.SearchResult:
        result = _search(served, Examples(served.project.encode(vector), vector[None]), options)
        result.vector = vector.tolist() if options.vector else None
        return result

    return await served.search_pool.run(served.read_consistently, work)


@router.post("/classify")
@work_in("search", consistently=True)
def classify(body: models.ClassifyRequest, served: Served) -> models.Classification:
    """Predict a class by a vote of the nearest labelled images."""
    exclude = [body.query.id] if isinstance(body.query, models.ById) else None
    code, vector = _code_and_vector(served.project, body.query)
    return _classify(served.project, code, vector, body.k, body.n_bits, exclude, body.weights, body.unknown)


@router.post("/classify/image", responses=error_docs(415))
@work_in("image")
def classify_image(
    image: ImageFile,
    served: Served,
    k: Annotated[int, Query(ge=1, le=models.MAX_MATCHES, description="Number of neighbours that vote.")] = 5,
    n_bits: Annotated[models.Bits | None, Query()] = None,
    unknown: Annotated[models.Unknown | None, Query()] = None,
) -> models.Classification:
    """Predict the class of an uploaded image."""
    project = served.project
    vector = project.describe_image(image.file.read())
    return served.read_consistently(
        lambda: _classify(project, project.encode(vector)[0], vector, k, n_bits, None, unknown=unknown)
    )


def code_of(project: Project, query: models.SearchQuery) -> Code:
    """Return the packed code of a query."""
    code: Code
    if isinstance(query, models.ById):
        code = project.code(query.id)
    elif isinstance(query, models.ByCode):
        code = check_codes(np.frombuffer(bytes.fromhex(query.code), dtype=np.uint8), project.n_bits, name="code")[0]
    else:
        code = project.encode(np.asarray(query.vector))[0]
    return code


def _code_and_vector(project: Project, query: models.SearchQuery) -> tuple[Code, Vector | None]:
    """Return the code of a query, and its vector unless the query is a code."""
    code = code_of(project, query)
    if isinstance(query, models.ById):
        return code, project.vector(query.id)
    return code, None if isinstance(query, models.ByCode) else np.asarray(query.vector, dtype=np.float32)


def _examples(project: Project, queries: Sequence[models.SearchQuery]) -> Examples:
    """Return codes and vectors of queries; no vectors if one of them is a code."""
    pairs = [_code_and_vector(project, query) for query in queries]
    codes = np.array([code for code, _ in pairs], dtype=np.uint8)
    vectors = [vector for _, vector in pairs if vector is not None]
    return Examples(codes, np.stack(vectors) if vectors and len(vectors) == len(pairs) else None)


def _search(
    served: ServedProject,
    like: Examples,
    options: models.SearchOptions,
    exclude: list[int] | None = None,
    unlike: Examples | None = None,
) -> models.SearchResult:
    """Search, and look up the records of the matches."""
    project = served.project
    raw = options.how == "raw"
    wanted = [*options.labels, *([] if options.label is None else [options.label])]
    settings = options.model_dump(include={"n_bits", "how", "match", "likeness"})
    for _ in range(_TRIES):
        total = len(project)
        if not total:
            raise ValueError("the project is empty")
        k = min(options.first + options.k, total)
        found = project.search_examples(like, unlike, k, exclude=exclude, label=wanted or None, **settings)
        served.metrics.search(options.how, found.seconds)
        places = {id: place for place, id in enumerate(found.ids[0].tolist())}
        shown = found.ids[0][options.first :]
        records = served.records(shown[shown >= 0])
        if len(records) == (shown >= 0).sum():  # else a match was removed since: another takes its place
            break
    return models.SearchResult(
        matches=[
            models.Match(
                **models.Image.of(r).model_dump(),
                distance=found.distances[0, places[r.id]],
                similarity=found.similarity[0, places[r.id]],
                agree=None if raw or found.agree[0, places[r.id]] < 0 else found.agree[0, places[r.id]],
            )
            for r in records
        ],
        how=options.how,
        n_bits=None if raw else options.n_bits or project.n_bits,
        bytes_per_image=found.n_bytes,
        searched=total,
        seconds=found.seconds,
        code=like.codes[0].tobytes().hex(),
    )


def _classify(
    project: Project,
    code: Code,
    vector: Vector | None,
    k: int,
    n_bits: int | None,
    exclude: list[int] | None,
    weights: str = "uniform",
    unknown: float | None = None,
) -> models.Classification:
    common: dict[str, Any] = {"exclude": exclude, "vectors": vector, "weights": weights, "unknown": unknown}
    classes, voted = project.classes, project.classify(code, k, n_bits, **common)
    while classes != project.classes:  # another request has added an image of a new class
        classes, voted = project.classes, project.classify(code, k, n_bits, **common)
    # The winner has slightly more votes than a class it ties with. Show whole votes.
    votes = voted.votes[0]
    shown = [
        models.Vote(label=classes[i], votes=round(votes[i]), share=votes[i] / votes.sum())
        for i in np.argsort(-votes, kind="stable")
        if votes[i] > 0
    ]
    return models.Classification(label=str(voted.labels[0]), labels=voted.label_sets[0], votes=shown)
