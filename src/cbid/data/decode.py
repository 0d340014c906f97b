"""Decode one image from a file or bytes to an upright uint8 array, gray or RGB."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_choice, check_integer
from cbid.data.pixels import FORMATS, bands, draft, format_of, open_image, orientation
from cbid.data.pixels import ImageError as ImageError
from cbid.data.pixels import reason_of as reason_of
from cbid.extras import missing_extra
from cbid.storage.atomic import check_regular
from cbid.text import printable

MAX_PIXELS = 50_000_000
_BYTES_A_PIXEL = 8
_MEDIA_TYPES = {**{format: f"image/{format.lower()}" for format in FORMATS}, "PPM": "image/x-portable-anymap"}
_METADATA = 16 * 2**20  # bytes allowed for metadata


def read_image(
    source: str | os.PathLike[str] | bytes,
    *,
    max_pixels: int = MAX_PIXELS,
    longest: int | None = None,
    formats: tuple[str, ...] = FORMATS,
) -> NDArray[np.uint8]:
    """Read an image as an upright uint8 array, (h, w) gray or (h, w, 3) RGB.

    Parameters
    ----------
    source : path or bytes
        A file or its content. The format is detected from the first bytes, never from the name.
    max_pixels : int, default=50,000,000
        Larger images are rejected from the header, before decoding, and so are files of more than 8 bytes per
        allowed pixel. Decoding takes up to 20 bytes per pixel, plus the file.
    longest : int, optional
        A hint that the image will be shrunk to this longest side. A JPEG is then decoded at 1/2, 1/4 or 1/8 of its
        size if both sides stay large enough: faster, with slightly different pixels. Other formats are not affected.
    formats : tuple of str
        The accepted formats, a subset of ``FORMATS``.

    Raises
    ------
    ImageError
        If the file is not a complete image; truncated images are rejected.

    Notes
    -----
    - EXIF orientation is applied; unreadable EXIF data is ignored.
    - Alpha and transparent colours are composed on white.
    - Palette, CMYK and YCbCr are converted to RGB; colour profiles are not applied.
    - 1 bit becomes 0 and 255; 16-bit gray is scaled from 0..65535 to 0..255; of 16 bits per channel the high byte is
      used.
    - 32-bit integers in 0..65535 are scaled like 16-bit gray, 32-bit floats in 0..1 to 0..255. Other ranges are
      stretched from their smallest to their largest value.
    - Of several frames or pages the first is read.
    - No global state is changed: any number of threads can read at once.

    Examples
    --------
    >>> read_image(b"P5 2 1 255 \\x00\\xff")
    array([[  0, 255]], dtype=uint8)
    """
    try:
        data = source if isinstance(source, bytes) else read_bytes(source, max_pixels=max_pixels)
        return decode_image(data, max_pixels=max_pixels, longest=longest, formats=formats)
    except (ImageError, OSError) as error:
        name = "the image" if isinstance(source, bytes) else printable(source)
        raise ImageError(f"{name} cannot be read: {reason_of(error)}") from error


def decode_image(
    data: bytes, *, max_pixels: int = MAX_PIXELS, longest: int | None = None, formats: tuple[str, ...] = FORMATS
) -> NDArray[np.uint8]:
    """Decode bytes like ``read_image``; error messages hold the reason only, no name."""
    check_integer("max_pixels", max_pixels, 1)
    for format in formats:
        check_choice("formats", format, FORMATS)
    with _image_errors():
        image = open_image(data, formats, max_pixels)
        if longest is not None:
            draft(image, longest)
        image.load()
        parts = bands(image)
        first = next(parts)
        values = np.empty((image.height, *first.shape[1:]), dtype=np.uint8)
        values[: len(first)] = first
        row = len(first)
        for part in parts:
            values[row : row + len(part)] = part
            row += len(part)
        return upright(values, orientation(image))


def image_size(data: bytes, *, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Return height and width from the header of an image file, without decoding it.

    Raises ``ImageError`` if the format is unknown, the header is damaged or the image has more than ``max_pixels``.
    """
    with _image_errors():
        image = open_image(data, FORMATS, max_pixels)
        return image.height, image.width


@contextmanager
def _image_errors() -> Iterator[None]:
    """Raise every error as an ``ImageError``, except a missing package."""
    try:
        yield
    except ImageError:
        raise
    except ImportError as error:
        raise missing_extra("reading images", "images") from error
    except Exception as error:  # Pillow raises many kinds of errors for damaged files
        raise ImageError(reason_of(error)) from error


def file_type(path: str | os.PathLike[str]) -> str:
    """Return the media type of an image file by its first bytes, such as "image/png"; ``ImageError`` if unknown."""
    check_regular(path)
    with open(path, "rb") as file:
        return _MEDIA_TYPES[format_of(file.read(32))]


def read_bytes(path: str | os.PathLike[str], *, max_pixels: int = MAX_PIXELS) -> bytes:
    """Return the content of a regular file if its size is plausible for an image of at most ``max_pixels``."""
    info = os.stat(path)
    if not stat.S_ISREG(info.st_mode):
        raise ImageError("it is not a regular file")  # opening a pipe would block
    if info.st_size > _BYTES_A_PIXEL * max_pixels + _METADATA:
        raise ImageError(
            f"it has {info.st_size} bytes: expected at most {_BYTES_A_PIXEL} per pixel for {max_pixels} pixels"
        )
    with open(path, "rb") as file:
        return file.read()


def upright(values: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """Rotate and mirror pixels by the EXIF orientation, 1 to 8."""
    if orientation in (5, 6, 7, 8):  # transposed
        values = values.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        values = values[::-1]
    if orientation in (2, 3, 6, 7):
        values = values[:, ::-1]
    return np.ascontiguousarray(values)
