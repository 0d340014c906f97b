"""The stored images: look, add, remove."""

from typing import Annotated

from fastapi import APIRouter, File, Form, Path, Query, Request, Response, UploadFile

from cbid.data import ImageError
from cbid.data.decode import image_size
from cbid.web.models import LARGEST_ID, Added, Image, Images, Label, Removed
from cbid.web.problems import documented, refuse
from cbid.web.routes import library_of

__all__ = ["router"]

router = APIRouter(prefix="/api/images", tags=["images"])
Id = Annotated[int, Path(ge=0, le=LARGEST_ID)]
_LONGEST_NAME = 200
_IMAGES_AT_A_TIME = 4  # of the largest that are accepted: pixels of one request


@router.get("", responses=documented())
async def images(
    request: Request,
    first: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
    count: Annotated[int, Query(ge=0, le=1000)] = 100,
    every: Annotated[int, Query(ge=1, le=LARGEST_ID, description="Only every so manieth.")] = 1,
) -> Images:
    """Some of the stored images, by ascending id."""
    library = library_of(request)

    def work() -> Images:
        ids = library.project.ids
        records = library.records(ids[first::every][:count])
        return Images(total=len(ids), images=[Image.of(record) for record in records])

    return await library.searching.run(work)


@router.get("/{id}", responses=documented())
async def image(id: Id, request: Request) -> Image:
    """What is known of one image."""
    library = library_of(request)
    return Image.of(await library.searching.run(library.project.record, id))


@router.get(
    "/{id}/thumbnail",
    response_class=Response,
    responses={**documented(), 200: {"content": {"image/jpeg": {}}, "description": "A JPEG"}},
)
async def thumbnail(id: Id, request: Request) -> Response:
    """A small picture, its longer side at most 192 pixels."""
    library = library_of(request)
    if not library.project.has_thumbnails:
        raise refuse(404, "the project was made from vectors; it has no pictures")
    jpeg = await library.searching.run(library.project.thumbnail, id)
    # A project never gives an id twice; one that was deleted and made anew does, and is to be seen soon.
    return Response(jpeg, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=60"})


@router.post("", status_code=201, responses=documented(409, 415))
async def add(
    request: Request,
    images: Annotated[list[UploadFile], File(description="One image or more.")],
    label: Annotated[Label | None, Form(description="The class of all of them.")] = None,
) -> Added:
    """Add images, all of them or, if one cannot be read, none. They are found as soon as this has answered."""
    library = library_of(request)
    settings = library.settings
    if len(images) > settings.max_files:
        raise refuse(413, f"{len(images)} images came; at most {settings.max_files} are taken at once")
    contents = [await file.read() for file in images]
    names = [_name(file.filename) for file in images]
    await library.imaging.run(_check_sizes, contents, names, settings.max_pixels)
    ids = await library.add(contents, [label] * len(contents), names)
    project = library.project
    records = await library.searching.run(library.records, ids)
    return Added(images=[Image.of(record) for record in records], total=len(project))


@router.delete("/{id}", responses=documented(409))
async def remove(id: Id, request: Request) -> Removed:
    """Remove one image from the project; its file is left alone."""
    library = library_of(request)
    await library.remove(id)
    return Removed(id=id, total=len(library.project))


def _name(given: str | None) -> str:
    """The last part of a name that came with an upload, fit to be shown; it never names a file here."""
    last = (given or "").replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in last if c.isprintable())[:_LONGEST_NAME] or "image"


def _check_sizes(contents: list[bytes], names: list[str], max_pixels: int) -> None:
    """Reject files that are too large or no images, by their headers alone; adding them decodes them, once."""
    pixels = 0
    for data, name in zip(contents, names):
        if pixels > _IMAGES_AT_A_TIME * max_pixels:
            raise refuse(413, f"the images have more than {_IMAGES_AT_A_TIME * max_pixels:,} pixels together")
        try:
            height, width = image_size(data, max_pixels=max_pixels)
        except ImageError as error:
            raise ImageError(f"{name}: {error}") from error
        pixels += height * width
