"""Routes for the stored images: list, show, add, remove."""

import os
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, File, Form, Path, Query, Response, UploadFile
from fastapi.responses import FileResponse

from cbid.data import ImageError
from cbid.data.decode import file_type, reason_of
from cbid.data.isolated import DecodeLimits, size_isolated
from cbid.web.errors import error_docs, http_error
from cbid.web.models import MAX_ID, AddedImages, Image, ImagePage, Label, Relabelled, RelabelRequest, RemovedImage
from cbid.web.served import Served, work_in

router = APIRouter(prefix="/api/images", tags=["images"], responses=error_docs())
Id = Annotated[int, Path(ge=0, le=MAX_ID)]
Part = Literal["train", "held-out", "added"]
_MAX_NAME_LENGTH = 200
_MAX_TOTAL_PIXELS = 4  # of one request, in images of the largest size


@router.get("")
@work_in("search")
def images(
    served: Served,
    first: Annotated[int, Query(ge=0, le=MAX_ID, description="Number of images to skip.")] = 0,
    count: Annotated[int, Query(ge=0, le=1000, description="Number of images to return.")] = 100,
    every: Annotated[int, Query(ge=1, le=MAX_ID, description="Return every n-th image.")] = 1,
    label: Annotated[Label | None, Query(description="Only images of this class.")] = None,
    unlabelled: Annotated[bool, Query(description="Only images without a label.")] = False,
    part: Annotated[Part | None, Query(description="Only images of this part.")] = None,
) -> ImagePage:
    """List stored images by ascending id."""
    if label is not None and unlabelled:
        raise ValueError(f"unlabelled=true: expected false with label={label!r}")
    ids = served.project.ids_of("" if unlabelled else label, part)
    records = served.records(ids[first::every][:count])
    return ImagePage(total=len(ids), images=[Image.of(record) for record in records])


@router.get("/{id}")
@work_in("search")
def image(id: Id, served: Served) -> Image:
    """Return one stored image."""
    return Image.of(served.project.record(id))


@router.get(
    "/{id}/thumbnail",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}, "description": "A JPEG image"}},
)
@work_in("search")
def thumbnail(id: Id, served: Served) -> Response:
    """Return a thumbnail. Its longer edge has at most 192 pixels."""
    if not served.project.has_thumbnails:
        raise http_error(404, "the project was made from vectors: it has no thumbnails")
    # A project never reuses an id, but a project that was deleted and created again does. So browsers ask again soon.
    headers = {"Cache-Control": "private, max-age=60"}
    return Response(served.project.thumbnail(id), media_type="image/jpeg", headers=headers)


@router.get(
    "/{id}/file",
    response_class=Response,
    responses={**error_docs(415), 200: {"content": {"image/*": {}}, "description": "The image file"}},
)
@work_in("image")
def original(id: Id, served: Served) -> Response:
    """Return the image file itself, as it is on disk. Only files that are images are returned."""
    record = served.project.record(id)
    if not record.path:
        raise http_error(404, f"id={id} has no file: the image was added without one")
    try:
        kind, found = file_type(record.path), os.stat(record.path)
    except OSError as error:
        raise http_error(404, f"the file of id={id} cannot be read: {reason_of(error)}") from error
    # In small parts: whole files of clients that read slowly would fill the memory.
    return FileResponse(
        record.path, media_type=kind, stat_result=found, headers={"Cache-Control": "private, max-age=60"}
    )


@router.post("/labels", responses=error_docs(409))
async def relabel(body: RelabelRequest, served: Served) -> Relabelled:
    """Give stored images another label. The codes change with the next fit."""
    await served.change(lambda project: project.relabel(body.ids, body.label))
    records = await served.search_pool.run(served.records, np.array(body.ids, dtype=np.int64))
    unlearned = await served.search_pool.run(lambda: served.project.n_unlearned)
    return Relabelled(images=[Image.of(record) for record in records], unlearned=unlearned)


@router.post("", status_code=201, responses=error_docs(409, 415))
async def add(
    served: Served,
    images: Annotated[list[UploadFile], File(description="One or more images.")],
    label: Annotated[Label | None, Form(description="The class of all these images.")] = None,
) -> AddedImages:
    """Add images. If one of them cannot be read, none is added. Searches find them when this request returns."""
    settings = served.settings
    if len(images) > settings.max_files:
        raise http_error(413, f"{len(images)} images: expected at most {settings.max_files} in one request")
    contents = [await file.read() for file in images]
    names = [_clean_name(file.filename) for file in images]
    await served.image_pool.run(_check_sizes, contents, names, settings.limits)
    ids = await served.change(lambda project: project.add(contents, [label] * len(contents), names))
    records = await served.search_pool.run(served.records, ids)
    return AddedImages(images=[Image.of(record) for record in records], total=len(served.project))


@router.delete("/{id}", responses=error_docs(409))
async def remove(id: Id, served: Served) -> RemovedImage:
    """Remove one image from the project. Its file is not deleted."""
    await served.change(lambda project: project.remove([id]))
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
