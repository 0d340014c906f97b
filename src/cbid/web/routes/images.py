"""Routes for the stored images: list, show, add, remove."""

from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, File, Form, Path, Query, Request, Response, UploadFile

from cbid.data import ImageError
from cbid.data.decode import image_type, read_bytes, reason_of
from cbid.data.isolated import DecodeLimits, size_isolated
from cbid.web.errors import error_docs, http_error
from cbid.web.models import MAX_ID, AddedImages, Image, ImagePage, Label, Relabelled, RelabelRequest, RemovedImage
from cbid.web.served import served_by

__all__ = ["router"]

router = APIRouter(prefix="/api/images", tags=["images"])
Id = Annotated[int, Path(ge=0, le=MAX_ID)]
Part = Literal["train", "held-out", "added"]
_MAX_NAME_LENGTH = 200
_MAX_TOTAL_PIXELS = 4  # of one request, in images of the largest size
_MAX_FILE_PIXELS = 400_000_000  # of a file that is returned as it is


@router.get("", responses=error_docs())
async def images(
    request: Request,
    first: Annotated[int, Query(ge=0, le=MAX_ID, description="Number of images to skip.")] = 0,
    count: Annotated[int, Query(ge=0, le=1000, description="Number of images to return.")] = 100,
    every: Annotated[int, Query(ge=1, le=MAX_ID, description="Return every n-th image.")] = 1,
    label: Annotated[Label | None, Query(description="Only images of this class.")] = None,
    unlabelled: Annotated[bool, Query(description="Only images without a label.")] = False,
    part: Annotated[Part | None, Query(description="Only images of this part.")] = None,
) -> ImagePage:
    """List stored images by ascending id."""
    served = served_by(request)
    if label is not None and unlabelled:
        raise ValueError(f"unlabelled=true: expected false with label={label!r}")

    def work() -> ImagePage:
        ids = served.project.ids_of("" if unlabelled else label, part)
        records = served.records(ids[first::every][:count])
        return ImagePage(total=len(ids), images=[Image.of(record) for record in records])

    return await served.search_pool.run(work)


@router.get("/{id}", responses=error_docs())
async def image(id: Id, request: Request) -> Image:
    """Return one stored image."""
    served = served_by(request)
    return Image.of(await served.search_pool.run(served.project.record, id))


@router.get(
    "/{id}/thumbnail",
    response_class=Response,
    responses={**error_docs(), 200: {"content": {"image/jpeg": {}}, "description": "A JPEG image"}},
)
async def thumbnail(id: Id, request: Request) -> Response:
    """Return a thumbnail. Its longer edge has at most 192 pixels."""
    served = served_by(request)
    if not served.project.has_thumbnails:
        raise http_error(404, "the project was made from vectors: it has no thumbnails")
    jpeg = await served.search_pool.run(served.project.thumbnail, id)
    # A project never reuses an id, but a project that was deleted and created again does. So browsers ask again soon.
    return Response(jpeg, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=60"})


@router.get(
    "/{id}/file",
    response_class=Response,
    responses={**error_docs(415), 200: {"content": {"image/*": {}}, "description": "The image file"}},
)
async def original(id: Id, request: Request) -> Response:
    """Return the image file itself, as it is on disk. Only files that are images are returned."""
    served = served_by(request)

    def work() -> tuple[bytes, str]:
        record = served.project.record(id)
        if not record.path:
            raise http_error(404, f"id={id} has no file: the image was added without one")
        try:
            data = read_bytes(record.path, max_pixels=_MAX_FILE_PIXELS)
        except OSError as error:
            raise http_error(404, f"the file of id={id} cannot be read: {reason_of(error)}") from error
        return data, image_type(data)

    data, kind = await served.image_pool.run(work)
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=60"})


@router.post("/labels", responses=error_docs(409))
async def relabel(body: RelabelRequest, request: Request) -> Relabelled:
    """Give stored images another label. The codes change with the next fit."""
    served = served_by(request)
    await served.relabel(body.ids, body.label)

    def work() -> Relabelled:
        records = served.records(np.array(body.ids, dtype=np.int64))
        return Relabelled(images=[Image.of(record) for record in records], unlearned=served.project.n_unlearned)

    return await served.search_pool.run(work)


@router.post("", status_code=201, responses=error_docs(409, 415))
async def add(
    request: Request,
    images: Annotated[list[UploadFile], File(description="One or more images.")],
    label: Annotated[Label | None, Form(description="The class of all these images.")] = None,
) -> AddedImages:
    """Add images. If one of them cannot be read, none is added. Searches find them when this request returns."""
    served = served_by(request)
    settings = served.settings
    if len(images) > settings.max_files:
        raise http_error(413, f"{len(images)} images: expected at most {settings.max_files} in one request")
    contents = [await file.read() for file in images]
    names = [_clean_name(file.filename) for file in images]
    await served.image_pool.run(_check_sizes, contents, names, settings.limits)
    ids = await served.add(contents, [label] * len(contents), names)
    records = await served.search_pool.run(served.records, ids)
    return AddedImages(images=[Image.of(record) for record in records], total=len(served.project))


@router.delete("/{id}", responses=error_docs(409))
async def remove(id: Id, request: Request) -> RemovedImage:
    """Remove one image from the project. Its file is not deleted."""
    served = served_by(request)
    await served.remove(id)
    return RemovedImage(id=id, total=len(served.project))


def _clean_name(name: str | None) -> str:
    """Return the last part of the name of an upload, without unprintable characters. It is never opened as a file."""
    last = (name or "").replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in last if c.isprintable())[:_MAX_NAME_LENGTH] or "image"


def _check_sizes(contents: list[bytes], names: list[str], limits: DecodeLimits) -> None:
    """Reject files that are too large or not images. This reads only their headers; adding them decodes them once."""
    limit = _MAX_TOTAL_PIXELS * limits.max_pixels
    n_pixels = 0
    for data, name in zip(contents, names):
        if n_pixels > limit:
            raise http_error(413, f"the images of one request have more than {limit:,} pixels")
        try:
            height, width = size_isolated(data, limits)
        except ImageError as error:
            raise ImageError(f"{name}: {error}") from error
        n_pixels += height * width
