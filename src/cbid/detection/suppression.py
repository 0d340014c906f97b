"""Non-maximum suppression: of windows that lie on one another, only the best stays."""

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_choice, check_real
from cbid.detection.boxes import check_boxes

__all__ = ["MEASURES", "suppress"]

MEASURES = ("iou", "smaller")


def suppress(
    boxes: ArrayLike, scores: ArrayLike, *, overlap: float = 0.65, measure: str = "smaller"
) -> NDArray[np.int64]:
    """The places of the boxes that stay, by falling score; ties in their order.

    The best box stays and removes all that overlap it by more than ``overlap``; then the best of the rest, and so on.
    measure: what the shared area is divided by, the union ("iou") or the smaller of the two boxes ("smaller", which
    also removes a part of an object inside the whole of it).
    """
    check_real("overlap", overlap, 0, 1.001)
    check_choice("measure", measure, MEASURES)
    checked, values = check_boxes(boxes), np.asarray(scores, np.float64)
    if values.shape != (len(checked),):
        raise ValueError(f"scores have shape {values.shape}; one for each of {len(checked)} boxes is needed")
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
