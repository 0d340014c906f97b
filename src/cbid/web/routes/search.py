"""Search and classify: by a stored image, a vector, a code, or an uploaded image."""

from typing import Annotated

import numpy as np
from fastapi import APIRouter, File, Query, Request, UploadFile
from numpy.typing import NDArray

from cbid.project import Project
from cbid.web.models import MOST_MATCHES, Bits, ById, Classified, Classify, Found, Search, SearchOptions, Vote
from cbid.web.problems import documented
from cbid.web.queries import code_of, described, found, queried
from cbid.web.routes import library_of

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["search"])
ImageFile = Annotated[UploadFile, File(description="JPEG, PNG, WebP, GIF, BMP, TIFF or PPM.")]


class ImageSearchOptions(SearchOptions):
    vector: bool = False


@router.post("/search", responses=documented())
async def search(asked: Search, request: Request) -> Found:
    """The nearest images of a stored image (which is itself left out), a vector or a code."""
    library = library_of(request)

    def work() -> Found:
        exclude = list(asked.exclude)
        label = None
        if isinstance(asked.query, ById):
            exclude.append(asked.query.id)
            label = library.project.record(asked.query.id).label
        answer = found(library, queried(library.project, asked.query, asked.how), asked, exclude=exclude)
        return answer.model_copy(update={"label": label})

    return await library.searching.run(library.steady, work)


@router.post("/search/image", responses=documented(415))
async def search_image(image: ImageFile, request: Request, options: Annotated[ImageSearchOptions, Query()]) -> Found:
    """The nearest images of an uploaded one; with ``vector=true`` also its raw vector, to ask with again."""
    library = library_of(request)
    data = await image.read()
    vector = await library.imaging.run(described, library.project, data, library.settings.max_pixels)
    answer = await library.searching.run(library.steady, lambda: found(library, vector, options))
    return answer.model_copy(update={"vector": vector.tolist() if options.vector else None})


@router.post("/classify", responses=documented())
async def classify(asked: Classify, request: Request) -> Classified:
    """The class that wins the vote of the nearest labelled images."""
    library = library_of(request)

    def work() -> Classified:
        exclude = [asked.query.id] if isinstance(asked.query, ById) else None
        return _voted(library.project, code_of(library.project, asked.query), asked.k, asked.n_bits, exclude)

    return await library.searching.run(library.steady, work)


@router.post("/classify/image", responses=documented(415))
async def classify_image(
    image: ImageFile,
    request: Request,
    k: Annotated[int, Query(ge=1, le=MOST_MATCHES)] = 5,
    n_bits: Annotated[Bits | None, Query()] = None,
) -> Classified:
    """The class of an uploaded image."""
    library = library_of(request)
    data = await image.read()

    project = library.project

    def work() -> Classified:
        vector = described(project, data, library.settings.max_pixels)
        return library.steady(lambda: _voted(project, project.encode(vector)[0], k, n_bits, None))

    return await library.imaging.run(work)


def _voted(
    project: Project, code: NDArray[np.uint8], k: int, n_bits: int | None, exclude: list[int] | None
) -> Classified:
    classes, voted = project.classes, project.classify(code, k, n_bits, exclude=exclude)
    while classes != project.classes:  # an image of a new class was added in between
        classes, voted = project.classes, project.classify(code, k, n_bits, exclude=exclude)
    # Votes carry a little more for the nearer ones, which decides ties; people count in whole ones.
    order = np.argsort(-voted.votes[0], kind="stable")
    votes = [Vote(label=classes[i], votes=round(voted.votes[0, i])) for i in order if voted.votes[0, i] > 0]
    return Classified(label=str(voted.labels[0]), votes=votes)
