"""Boxes (n, 4) of floats (left, top, right, bottom in pixels), annotated photographs, and COCO's JSON."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_choice, check_real
from cbid.data import ImageFiles, ImageSet
from cbid.data.image_sets import Problems
from cbid.text import printable

Boxes = NDArray[np.float64]
MEASURES = ("iou", "smaller")


@dataclass(frozen=True)
class Detections:
    """The detections in one photograph: boxes (n, 4) and scores (n,), best first."""

    boxes: Boxes
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.scores)


@dataclass(frozen=True)
class Annotation:
    """The objects of one photograph: boxes (n, 4) and flags (n,) of the ignored ones.

    A detection of an ignored object (a crowd, a very small object) counts neither as a hit nor as a false positive.
    """

    boxes: Boxes
    ignore: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, bool))

    def __post_init__(self) -> None:
        boxes = check_boxes(self.boxes)
        ignore = np.zeros(len(boxes), bool) if len(self.ignore) == 0 else np.asarray(self.ignore, bool)
        if ignore.shape != (len(boxes),):
            raise ValueError(f"ignore has shape {ignore.shape}; expected ({len(boxes)},), one for each box")
        object.__setattr__(self, "boxes", boxes)
        object.__setattr__(self, "ignore", ignore)


def check_boxes(boxes: ArrayLike, shape: tuple[int, ...] | None = None) -> Boxes:
    """Return boxes as float64 (n, 4); reject boxes without area or outside an image of ``shape`` (h, w)."""
    found: Boxes = np.asarray(boxes, dtype=np.float64)
    if found.size == 0:
        found = found.reshape(0, 4)
    if found.ndim != 2 or found.shape[1] != 4:
        raise ValueError(f"boxes has shape {found.shape}; expected (n, 4): left, top, right, bottom")
    if not np.isfinite(found).all():
        raise ValueError("boxes holds NaN or infinity")
    wrong = (found[:, 2:] <= found[:, :2]).any(axis=1)
    if wrong.any():
        raise ValueError(f"box {found[wrong][0].tolist()} has no area; expected left, top, right, bottom")
    if shape is not None:
        height, width = shape[:2]
        wrong = (found[:, 0] >= width) | (found[:, 1] >= height) | (found[:, 2:] <= 0).any(axis=1)
        if wrong.any():
            raise ValueError(f"box {found[wrong][0].tolist()} is outside the image of {width} x {height} pixels")
    return found


def areas(boxes: Boxes) -> NDArray[np.float64]:
    """Return the areas (n,) of boxes."""
    size = boxes[:, 2:] - boxes[:, :2]
    return np.asarray(size[:, 0] * size[:, 1])


def intersections(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Return the shared areas (n, m) of n boxes with m boxes."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    size = np.clip(high - low, 0, None)
    return np.asarray(size[:, :, 0] * size[:, :, 1])


def overlaps(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Return intersection over union (n, m)."""
    shared = intersections(a, b)
    return shared / (areas(a)[:, None] + areas(b)[None] - shared)


def with_aspect(boxes: Boxes, aspect: Any) -> Boxes:
    """Return boxes of the same centre and height whose width is ``aspect`` times the height; None changes nothing.

    The Caltech evaluation does so (0.41) for annotations and detections: the width of a pedestrian depends on the
    phase of the step.
    """
    if aspect is None:
        return boxes
    check_real("aspect", aspect, 0, open_below=True)
    centre = (boxes[:, 0] + boxes[:, 2]) / 2
    half = (boxes[:, 3] - boxes[:, 1]) * (aspect / 2)
    return np.column_stack([centre - half, boxes[:, 1], centre + half, boxes[:, 3]])


def suppress(
    boxes: ArrayLike, scores: ArrayLike, *, overlap: float = 0.65, measure: str = "smaller"
) -> NDArray[np.int64]:
    """Return the indices of the boxes that non-maximum suppression keeps, by falling score; ties in their order.

    The best box is kept and removes all boxes that overlap it by more than ``overlap``; then the best of the rest,
    and so on. ``measure`` is the divisor of the shared area: the union ("iou") or the smaller box ("smaller", which
    also removes a box on a part of an object).
    """
    check_real("overlap", overlap, 0, 1.001)
    check_choice("measure", measure, MEASURES)
    checked, values = check_boxes(boxes), np.asarray(scores, np.float64)
    if values.shape != (len(checked),):
        raise ValueError(f"scores has shape {values.shape}; expected ({len(checked)},), one for each box")
    order = np.argsort(-values, kind="stable")
    kept = _greedy(np.ascontiguousarray(checked[order]), float(overlap), measure == "smaller")
    return order[kept]


@numba.njit(nogil=True, cache=True)
def _greedy(boxes, overlap, smaller):  # type: ignore[no-untyped-def]
    kept = np.empty(len(boxes), np.int64)
    n = 0
    for i in range(len(boxes)):
        left, top, right, bottom = boxes[i]
        area = (right - left) * (bottom - top)
        stays = True
        for k in range(n):
            other = boxes[kept[k]]
            width = min(right, other[2]) - max(left, other[0])
            height = min(bottom, other[3]) - max(top, other[1])
            if width > 0 and height > 0:
                shared = width * height
                area_k = (other[2] - other[0]) * (other[3] - other[1])
                whole = min(area, area_k) if smaller else area + area_k - shared
                if shared > overlap * whole:
                    stays = False
                    break
        if stays:
            kept[n] = i
            n += 1
    return kept[:n]


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
        annotations = [_annotation(rows, str(name)) for rows, name in zip(boxes, images.names, strict=True)]
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
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
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
    return _annotation(boxes, str(image["file_name"]), ignore, shape)


def _annotation(boxes: Boxes, name: str, ignore: Any = (), shape: tuple[int, int] | None = None) -> Annotation:
    try:
        return Annotation(check_boxes(boxes, shape), ignore)
    except ValueError as error:
        raise AnnotationError(f"{printable(name)}: {error}") from error


def _with_objects(annotations: list[Annotation], source: str) -> list[Annotation]:
    if not any(len(annotation.boxes) for annotation in annotations):
        raise AnnotationError(f"{printable(source)} has no box in any photograph")
    return annotations
