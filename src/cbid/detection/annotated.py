"""Photographs with the boxes of their objects, and annotations in COCO's JSON."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_choice
from cbid.data import ImageFiles, ImageSet
from cbid.data.image_sets import Problems
from cbid.data.names import printable
from cbid.detection.boxes import Annotation, check_boxes

__all__ = ["AnnotatedImages", "AnnotationError", "read_coco"]


class AnnotationError(ValueError):
    """Invalid annotations; the message names the file or the photograph, and the reason."""


@dataclass(frozen=True)
class AnnotatedImages:
    """Photographs (an ``ImageSet``), the annotation of each, and (name, reason) of the skipped ones."""

    images: ImageSet
    annotations: list[Annotation]
    problems: Problems = field(default_factory=list)

    @classmethod
    def from_boxes(cls, images: ImageSet, boxes: Sequence[NDArray[np.float64]], source: str) -> "AnnotatedImages":
        """Return photographs with the boxes (n, 4) of their objects.

        Raises an ``AnnotationError`` that names the photograph if a box has no area, and one that names ``source`` if
        no photograph has a box.
        """
        annotations = [_annotation(rows, None, str(name)) for rows, name in zip(boxes, images.names, strict=True)]
        return cls(images, _with_objects(annotations, source))

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[tuple[NDArray[Any], Annotation]]:
        """Yield each photograph with its annotation; raise an ``AnnotationError`` for a box outside of it."""
        for i, annotation in enumerate(self.annotations):
            yield self.read(i), annotation

    def read(self, i: int) -> NDArray[Any]:
        """Return photograph i, after checking its boxes against its size."""
        image: NDArray[Any] = self.images.read(i)
        try:
            check_boxes(self.annotations[i].boxes, image.shape)
        except ValueError as error:
            raise AnnotationError(f"{printable(self.images.names[i])}: {error}") from error
        return image


def read_coco(
    path: str | os.PathLike[str],
    images: str | os.PathLike[str],
    *,
    category: str | int | None = None,
    on_error: str = "raise",
) -> AnnotatedImages:
    """Read COCO's JSON: lists "images" (id, file_name, height, width) and "annotations" (image_id, bbox).

    Parameters
    ----------
    images
        The folder of the image files.
    category
        Name or id of the category; None uses all. Boxes with "iscrowd" or "ignore" become ignored regions.
    on_error
        What to do with a box that has no area or is outside its photograph: "raise", or "skip" the photograph and
        list it in ``problems``.
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    try:
        content = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise AnnotationError(f"{printable(path)} is not JSON: {error}") from error
    try:
        wanted = _category(content, category)
        of_image: dict[Any, list[Any]] = {entry["id"]: [] for entry in content["images"]}
        for entry in content["annotations"]:
            if entry["image_id"] not in of_image:
                raise AnnotationError(
                    f"{printable(path)}: annotation {entry.get('id')} has an unknown image_id, {entry['image_id']!r}"
                )
            if wanted is None or entry["category_id"] == wanted:
                of_image[entry["image_id"]].append(entry)
        names, annotations, problems = [], [], []
        for entry in content["images"]:
            try:
                annotation = _from_coco(entry, of_image[entry["id"]])
            except AnnotationError as error:
                if on_error == "raise":
                    raise AnnotationError(f"{printable(path)}: {error}") from error
                problems.append((str(entry["file_name"]), str(error)))
                continue
            names.append(str(entry["file_name"]))
            annotations.append(annotation)
    except AnnotationError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnnotationError(f"{printable(path)} is not in COCO's format ({error!r})") from error
    return AnnotatedImages(ImageFiles(images, names), _with_objects(annotations, os.fspath(path)), problems)


def _category(content: dict[str, Any], category: str | int | None) -> Any:
    if not isinstance(category, str):
        return category
    known = {entry["name"]: entry["id"] for entry in content["categories"]}
    if category not in known:
        raise AnnotationError(f"category={category!r}: expected one of {', '.join(map(repr, known))}")
    return known[category]


def _from_coco(image: dict[str, Any], entries: list[dict[str, Any]]) -> Annotation:
    """Return the annotation of one photograph; COCO's boxes are left, top, width, height."""
    boxes = np.array([entry["bbox"] for entry in entries], float).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    ignore = np.array([bool(entry.get("iscrowd")) or bool(entry.get("ignore")) for entry in entries], bool)
    shape = (int(image["height"]), int(image["width"])) if "height" in image and "width" in image else None
    return _annotation(boxes, ignore, str(image["file_name"]), shape)


def _annotation(
    boxes: NDArray[np.float64],
    ignore: NDArray[np.bool_] | None,
    name: str,
    shape: tuple[int, int] | None = None,
) -> Annotation:
    try:
        return Annotation(check_boxes(boxes, shape), np.empty(0, bool) if ignore is None else ignore)
    except ValueError as error:
        raise AnnotationError(f"{printable(name)}: {error}") from error


def _with_objects(annotations: list[Annotation], source: str) -> list[Annotation]:
    if not any(len(annotation.boxes) for annotation in annotations):
        raise AnnotationError(f"{printable(source)} has no box in any photograph")
    return annotations
