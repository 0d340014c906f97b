"""Images brought to one size, and the check of that setting."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_integer
from cbid.data.opencv import opencv

__all__ = ["check_least", "check_size", "crop_to_fill", "resize"]

Size = tuple[int, int]


def check_size(name: str, value: Any, least: int = 1) -> None:
    """A pair (height, width) of integers of at least ``least``."""
    if not (isinstance(value, (tuple, list)) and len(value) == 2):
        raise ValueError(f"{name}={value!r}: expected a pair (height, width)")
    check_integer(f"{name}[0]", value[0], least)
    check_integer(f"{name}[1]", value[1], least)


def check_least(image: NDArray[Any], height: int, width: int) -> None:
    """A ValueError if the image is smaller than that."""
    if image.shape[0] < height or image.shape[1] < width:
        given = f"{image.shape[0]} x {image.shape[1]}"
        raise ValueError(f"the image has {given} pixels; at least {height} x {width} (height x width) are needed")


def resize(image: NDArray[Any], size: Size) -> NDArray[Any]:
    """The image brought to (height, width): shrunk by the mean of the area that a pixel covers, enlarged bilinearly.

    Each side is treated in its own way, so that a long image brought to a square is smoothed where it shrinks.
    """
    cv2 = opencv()
    for method, pick in ((cv2.INTER_AREA, min), (cv2.INTER_LINEAR, max)):
        height, width = (pick(side, wanted) for side, wanted in zip(image.shape, size))
        if (height, width) != image.shape[:2]:
            image = np.asarray(cv2.resize(np.ascontiguousarray(image), (width, height), interpolation=method))
    return image


def crop_to_fill(image: NDArray[Any], size: Size) -> NDArray[Any]:
    """The largest part of the image in the shape of (height, width), about its middle, brought to that size."""
    height, width = image.shape[:2]
    scale = max(size[0] / height, size[1] / width)
    kept = [min(side, max(1, round(wanted / scale))) for side, wanted in zip((height, width), size)]
    top, left = (height - kept[0]) // 2, (width - kept[1]) // 2
    return resize(image[top : top + kept[0], left : left + kept[1]], size)
