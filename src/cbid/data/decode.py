"""Decode one image from a file or bytes to an upright uint8 array, gray or RGB."""

import io
import math
import os
import stat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_choice, check_integer
from cbid.data.names import printable
from cbid.extras import missing_extra

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

__all__ = [
    "FORMATS",
    "MAX_PIXELS",
    "ImageError",
    "decode_image",
    "image_size",
    "image_type",
    "read_bytes",
    "read_image",
    "reason_of",
]

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "HEIF")
MAX_PIXELS = 50_000_000
_BYTES_A_PIXEL = 8
_METADATA = 16 * 2**20  # bytes allowed for metadata
_MAX_SCANS = 200  # usually about ten; a scan of all pixels can take as little as 70 bytes of the file


class ImageError(ValueError):
    """An image cannot be read; the message names the file and the reason."""


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
        allowed pixel. Decoding takes up to 23 bytes per pixel, plus the file.
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
    data: bytes,
    *,
    max_pixels: int = MAX_PIXELS,
    longest: int | None = None,
    formats: tuple[str, ...] = FORMATS,
) -> NDArray[np.uint8]:
    """Decode bytes like ``read_image``; error messages hold the reason only, no name."""
    check_integer("max_pixels", max_pixels, 1)
    for format in formats:
        check_choice("formats", format, FORMATS)
    try:
        image = _open(data, formats, max_pixels)
        if longest is not None:
            shrink = min(1.0, longest / max(image.size))
            image.draft(None, (math.ceil(image.width * shrink), math.ceil(image.height * shrink)))
        image.load()
        return _upright(_values(image), image)
    except (ImageError, ImportError):
        raise
    except Exception as error:  # Pillow raises many kinds of errors for damaged files
        raise ImageError(reason_of(error)) from error


def image_size(data: bytes, *, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Return height and width from the header of an image file, without decoding it.

    Raises ``ImageError`` if the format is unknown, the header is damaged or the image has more than ``max_pixels``.
    """
    try:
        image = _open(data, FORMATS, max_pixels)
    except (ImageError, ImportError):
        raise
    except Exception as error:  # as in ``decode_image``
        raise ImageError(reason_of(error)) from error
    return image.height, image.width


def image_type(data: bytes) -> str:
    """Return the media type of an image file, such as "image/png"; ``ImageError`` if it is not an image."""
    try:
        image = _open(data, FORMATS, 2**31)
    except (ImageError, ImportError):
        raise
    except Exception as error:  # as in ``decode_image``
        raise ImageError(reason_of(error)) from error
    return image.get_format_mimetype() or "application/octet-stream"


def reason_of(error: BaseException) -> str:
    """Return the reason of an error in one line, without the name of the file."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return " ".join(reason.split())


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


def _open(data: bytes, formats: tuple[str, ...], max_pixels: int) -> "ImageFile":
    """Open an image: read its header and check its size.

    Pillow's ``open`` has a global limit for large images; its format classes do not.
    """
    try:
        from PIL.BmpImagePlugin import BmpImageFile
        from PIL.GifImagePlugin import GifImageFile
        from PIL.JpegImagePlugin import JpegImageFile
        from PIL.PngImagePlugin import PngImageFile
        from PIL.PpmImagePlugin import PpmImageFile
        from PIL.TiffImagePlugin import TiffImageFile
        from PIL.WebPImagePlugin import WebPImageFile
    except ImportError as error:
        raise missing_extra("reading images", "images") from error

    if not data:
        raise ImageError("it is empty")
    kinds: dict[str, tuple[bool, type[ImageFile]]] = {
        "JPEG": (data.startswith(b"\xff\xd8\xff"), JpegImageFile),
        "PNG": (data.startswith(b"\x89PNG\r\n\x1a\n"), PngImageFile),
        "WEBP": (data.startswith(b"RIFF") and data[8:12] == b"WEBP", WebPImageFile),
        "GIF": (data.startswith((b"GIF87a", b"GIF89a")), GifImageFile),
        "BMP": (data.startswith(b"BM"), BmpImageFile),
        "TIFF": (data.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")), TiffImageFile),
        "PPM": (data.startswith((b"P1", b"P2", b"P3", b"P4", b"P5", b"P6")), PpmImageFile),
    }
    brand = data[8:12] if data[4:8] == b"ftyp" else b""
    if brand in _BRANDS:
        kinds[_BRANDS[brand]] = (True, _container_class(_BRANDS[brand]))
    for format in formats:
        fits, image_file = kinds.get(format, (False, JpegImageFile))
        if fits:
            image = image_file(io.BytesIO(data))
            if "progressive" in image.info and data.count(b"\xff\xda") > _MAX_SCANS:
                raise ImageError(f"it is a progressive JPEG with more than {_MAX_SCANS} scans")
            if image.width * image.height > max_pixels:
                raise ImageError(f"it has {image.width} x {image.height} pixels: expected at most {max_pixels}")
            return image
    raise ImageError(f"its format is unknown: expected one of {', '.join(formats)}")


# The formats of the containers that begin with "ftyp", by their main brand.
_BRANDS = dict.fromkeys((b"avif", b"avis"), "AVIF") | dict.fromkeys(
    (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"), "HEIF"
)


def _container_class(format: str) -> "type[ImageFile]":
    """Return the class that opens AVIF or HEIF (HEIC) images."""
    if format == "AVIF":
        from PIL import features

        if not features.check("avif"):
            raise ImageError("it is an AVIF image, which this build of Pillow cannot read: Pillow 11.3 or newer can")
        from PIL.AvifImagePlugin import AvifImageFile

        return AvifImageFile
    try:
        from pillow_heif import HeifImageFile
    except ImportError as error:
        raise ImageError(f"it is a HEIC image; {missing_extra('reading it', 'heif')}") from error
    found: type[ImageFile] = HeifImageFile
    return found


def _values(image: "Image") -> NDArray[np.uint8]:
    """Return the pixels as gray or RGB, before the orientation is applied."""
    if image.mode.startswith("I;16"):
        return _from_16_bits(np.asarray(image))
    if image.mode == "I":
        values = np.asarray(image)
        return _from_16_bits(values) if values.min() >= 0 and values.max() <= 65535 else _stretched(values)
    if image.mode == "F":
        values = np.asarray(image)
        if not np.isfinite(values).all():
            raise ImageError("it has values that are not finite")
        inside = values.min() >= 0 and values.max() <= 1
        return np.rint(values * 255).astype(np.uint8) if inside else _stretched(values)
    target = "L" if image.mode in ("1", "L", "LA", "La") else "RGB"
    if image.has_transparency_data:
        from PIL import Image

        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return np.array(image if image.mode == target else image.convert(target))


def _from_16_bits(values: NDArray[Any]) -> NDArray[np.uint8]:
    return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)  # 65535 = 255 * 257


def _stretched(values: NDArray[Any]) -> NDArray[np.uint8]:
    low, high = float(values.min()), float(values.max())
    return np.rint((values - low) * (255 / ((high - low) or 1.0))).astype(np.uint8)


def _upright(values: NDArray[np.uint8], image: "Image") -> NDArray[np.uint8]:
    """Rotate and mirror by the EXIF orientation, 1 to 8."""
    try:
        orientation = image.getexif().get(0x0112, 1)
    except Exception:  # damaged EXIF data, or a warning raised as an error
        orientation = 1
    if orientation in (5, 6, 7, 8):  # transposed
        values = values.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        values = values[::-1]
    if orientation in (2, 3, 6, 7):
        values = values[:, ::-1]
    return np.ascontiguousarray(values)
