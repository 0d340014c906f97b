"""One image from a file: decoded, turned upright, as uint8 gray or RGB."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ImageError", "as_gray", "as_rgb", "read_image"]

MOST_PIXELS = 50_000_000


class ImageError(ValueError):
    """The file is no image that can be read; the message names it."""


def read_image(path: str | os.PathLike[str], *, max_pixels: int = MOST_PIXELS) -> NDArray[np.uint8]:
    """The image as (h, w) gray or (h, w, 3) RGB, uint8, turned upright as its EXIF data says."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            if image.width * image.height > max_pixels:
                raise ImageError(
                    f"{os.fspath(path)} has {image.width} x {image.height} pixels; at most {max_pixels} are read"
                )
            upright = ImageOps.exif_transpose(image)
            return np.asarray(upright if upright.mode == "L" else upright.convert("RGB"))
    except (OSError, SyntaxError) as error:
        raise ImageError(f"{os.fspath(path)} cannot be read as an image: {error}") from error


def as_gray(image: NDArray[Any]) -> NDArray[Any]:
    """Gray (h, w) of the same type, by the weights of ITU-R 601 as OpenCV rounds them."""
    if image.ndim == 2:
        return image
    import cv2

    return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))


def as_rgb(image: NDArray[Any]) -> NDArray[Any]:
    """RGB (h, w, 3) of the same type; a gray image has three equal channels."""
    return np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image
