"""Boxes (n, 4) of floats: left, top, right, bottom, in pixels, where right - left is the width."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_real

__all__ = ["Annotation", "Boxes", "Detections", "areas", "check_boxes", "intersections", "overlaps", "with_aspect"]

Boxes = NDArray[np.float64]


@dataclass(frozen=True)
class Detections:
    """What a detector found in one photograph: boxes (n, 4) and scores (n,), the best first."""

    boxes: Boxes
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.scores)


@dataclass(frozen=True)
class Annotation:
    """The objects of one photograph: boxes (n, 4), and which of them are to be ignored, (n,) of bool.

    Who finds an ignored object is neither praised nor blamed: regions with crowds, objects that are too small.
    """

    boxes: Boxes
    ignore: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, bool))

    def __post_init__(self) -> None:
        boxes = check_boxes(self.boxes)
        ignore = np.zeros(len(boxes), bool) if len(self.ignore) == 0 else np.asarray(self.ignore, bool)
        if ignore.shape != (len(boxes),):
            raise ValueError(f"ignore has shape {ignore.shape}; one value for each of {len(boxes)} boxes is needed")
        object.__setattr__(self, "boxes", boxes)
        object.__setattr__(self, "ignore", ignore)


def check_boxes(boxes: ArrayLike, shape: tuple[int, ...] | None = None) -> Boxes:
    """Boxes as (n, 4) of float64; a ValueError for one of no area, or wholly outside an image of ``shape`` (h, w)."""
    found: Boxes = np.asarray(boxes, dtype=np.float64)
    if found.size == 0:
        found = found.reshape(0, 4)
    if found.ndim != 2 or found.shape[1] != 4:
        raise ValueError(f"boxes have shape {found.shape}; (n, 4) is needed: left, top, right, bottom")
    if not np.isfinite(found).all():
        raise ValueError("boxes hold values that are not finite")
    wrong = (found[:, 2:] <= found[:, :2]).any(axis=1)
    if wrong.any():
        raise ValueError(f"the box {found[wrong][0].tolist()} has no area; give left, top, right, bottom")
    if shape is not None:
        height, width = shape[:2]
        wrong = (found[:, 0] >= width) | (found[:, 1] >= height) | (found[:, 2:] <= 0).any(axis=1)
        if wrong.any():
            raise ValueError(f"the box {found[wrong][0].tolist()} is outside the image of {width} x {height} pixels")
    return found


def areas(boxes: Boxes) -> NDArray[np.float64]:
    """(n,)"""
    sides = boxes[:, 2:] - boxes[:, :2]
    return np.asarray(sides[:, 0] * sides[:, 1])


def intersections(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Areas (n, m) that each of n boxes shares with each of m."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    sides = np.clip(high - low, 0, None)
    return np.asarray(sides[:, :, 0] * sides[:, :, 1])


def overlaps(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Intersection over union (n, m)."""
    shared = intersections(a, b)
    return shared / (areas(a)[:, None] + areas(b)[None] - shared)


def with_aspect(boxes: Boxes, aspect: Any) -> Boxes:
    """Boxes of the same centre and height whose width is ``aspect`` times the height; None leaves them alone.

    The Caltech evaluation does so (0.41) with annotations and detections: how wide a pedestrian is depends on the
    phase of the step, and says nothing of how well he was found.
    """
    if aspect is None:
        return boxes
    check_real("aspect", aspect, 0, open_below=True)
    centre = (boxes[:, 0] + boxes[:, 2]) / 2
    half = (boxes[:, 3] - boxes[:, 1]) * (aspect / 2)
    return np.column_stack([centre - half, boxes[:, 1], centre + half, boxes[:, 3]])
