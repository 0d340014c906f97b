"""Images as arrays: checks, conversions and resizing.

An image is (h, w) gray or (h, w, 3) RGB; uint8, or float32 or float64 in 0..1.
"""

import io
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_integer
from cbid.data.decode import ImageError
from cbid.extras import missing_extra

Size = tuple[int, int]

_LARGE = 2**22  # pixels
_THUMBNAIL_SIDE, _THUMBNAIL_QUALITY = 192, 85
_GRAY = np.array([0.299, 0.587, 0.114])  # ITU-R 601


def check_image(image: ArrayLike) -> NDArray[Any]:
    """Return the image as an array; raise an ``ImageError`` if it is not a valid image."""
    array = np.asarray(image)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3):
        raise ImageError(f"the image has shape {array.shape}: expected (h, w) gray or (h, w, 3) RGB")
    if not array.size:
        raise ImageError(f"the image has shape {array.shape}: expected at least one pixel")
    if array.dtype == np.uint8:
        return array
    if array.dtype not in (np.float32, np.float64):
        raise ImageError(f"the image has type {array.dtype}: expected uint8, or float32 or float64 in 0..1")
    low, high = array.min(), array.max()
    if not (low >= 0 and high <= 1):  # also if one is NaN
        if np.isnan(low) or np.isnan(high):
            raise ImageError("the image has NaN values: expected values in 0..1")
        raise ImageError(f"the image has values from {low:g} to {high:g}: expected floats in 0..1")
    return array


def to_uint8(image: ArrayLike) -> NDArray[np.uint8]:
    """Check an image and return it as uint8; floats in 0..1 are rounded to 0..255."""
    array = check_image(image)
    return array if array.dtype == np.uint8 else np.rint(array * 255).astype(np.uint8)


def to_float(image: ArrayLike) -> NDArray[np.float32]:
    """Check an image and return it as float32 in 0..1."""
    array = check_image(image)
    if array.dtype == np.uint8:
        return np.multiply(array, np.float32(1 / 255), dtype=np.float32)
    return array.astype(np.float32, copy=False)


def as_gray(image: NDArray[Any]) -> NDArray[Any]:
    """Return gray values (h, w) of the same type, by ITU-R 601; uint8 is rounded as in OpenCV."""
    if image.ndim == 2:
        return image
    if image.dtype == np.float64:
        return np.asarray(image @ _GRAY)  # OpenCV does not convert float64
    cv2 = opencv()
    return np.asarray(cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY))


def as_rgb(image: NDArray[Any]) -> NDArray[Any]:
    """Return RGB (h, w, 3) of the same type; a gray image gives three equal channels."""
    return np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image


def resize_longest(image: NDArray[Any], longest: int, *, enlarge: bool = False) -> NDArray[Any]:
    """Shrink an image so that its longest side is ``longest``; the other side is rounded, at least one pixel.

    Each new pixel is the mean of the area it covers. A smaller image is returned unchanged, or with ``enlarge``
    enlarged by bilinear interpolation.
    """
    check_integer("longest", longest, 1)
    height, width = image.shape[:2]
    largest = max(height, width)
    if largest == longest or (largest < longest and not enlarge):
        return image
    cv2 = opencv()
    size = [max(1, round(side * longest / largest)) for side in (width, height)]
    method = cv2.INTER_AREA if longest < largest else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(np.ascontiguousarray(image), size, interpolation=method))


def thumbnail(image: NDArray[Any]) -> bytes:
    """Return a JPEG whose longer side has at most 192 pixels."""
    from PIL import Image

    buffer = io.BytesIO()
    small = resize_longest(to_uint8(image), _THUMBNAIL_SIDE)
    Image.fromarray(small).save(buffer, "JPEG", quality=_THUMBNAIL_QUALITY)
    return buffer.getvalue()


def check_least(image: NDArray[Any], height: int, width: int) -> None:
    """Raise a ValueError if the image is smaller than height x width."""
    if image.shape[0] < height or image.shape[1] < width:
        given = f"{image.shape[0]} x {image.shape[1]}"
        raise ValueError(f"the image has {given} pixels: expected at least {height} x {width} (height x width)")


def resize(image: NDArray[Any], size: Size) -> NDArray[Any]:
    """Resize an image to (height, width): by area means along a side that shrinks, else bilinearly.

    Each side has its own method, so that a long image that becomes a square is smoothed along the side that shrinks.
    """
    cv2 = opencv()
    for method, pick in ((cv2.INTER_AREA, min), (cv2.INTER_LINEAR, max)):
        height, width = (pick(side, wanted) for side, wanted in zip(image.shape, size))
        if (height, width) != image.shape[:2]:
            image = np.asarray(cv2.resize(np.ascontiguousarray(image), (width, height), interpolation=method))
    return image


def resized_float(image: NDArray[Any], size: Size) -> NDArray[np.float32]:
    """Return ``resize(to_float(image), size)``; a large image is converted in bands, to save memory.

    The values of large images differ from those of one step in the last digits only.
    """
    height, width = image.shape[:2]
    if image.dtype != np.uint8 or height * width <= _LARGE or height <= size[0] or width <= size[1]:
        return np.asarray(resize(to_float(image), size))
    rows = max(1, _LARGE // (4 * width))
    narrow = np.empty((height, size[1], *image.shape[2:]), dtype=np.float32)
    for top in range(0, height, rows):
        band = to_float(image[top : top + rows])
        narrow[top : top + rows] = resize(band, (len(band), size[1]))
    return np.asarray(resize(narrow, size))


def crop_to_fill(image: NDArray[Any], size: Size) -> NDArray[Any]:
    """Crop the largest centred part with the aspect ratio of (height, width) and resize it to that size."""
    height, width = image.shape[:2]
    scale = max(size[0] / height, size[1] / width)
    kept = [min(side, max(1, round(wanted / scale))) for side, wanted in zip((height, width), size)]
    top, left = (height - kept[0]) // 2, (width - kept[1]) // 2
    return resize(image[top : top + kept[0], left : left + kept[1]], size)


def opencv() -> Any:
    """Import and return the module ``cv2``."""
    try:
        import cv2
    except ImportError as error:
        raise missing_extra("processing images", "images") from error
    return cv2
