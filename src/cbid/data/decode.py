"""One image from a file or from bytes: decoded, turned upright, as uint8 gray or RGB."""

import io
import math
import os
import stat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_choice, check_integer
from cbid.data.names import printable

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

__all__ = [
    "FORMATS",
    "MAX_PIXELS",
    "ImageError",
    "decode_image",
    "image_size",
    "read_bytes",
    "read_image",
    "reason_of",
]

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
MAX_PIXELS = 50_000_000
_BYTES_A_PIXEL = 8
_METADATA = 16 * 2**20  # bytes that a file may have besides
_MAX_SCANS = 200  # a progressive JPEG has about ten; one more pass over all pixels takes as little as 70 bytes


class ImageError(ValueError):
    """There is no image to be had; the message names the file and the reason."""


def read_image(
    source: str | os.PathLike[str] | bytes,
    *,
    max_pixels: int = MAX_PIXELS,
    longest: int | None = None,
    formats: tuple[str, ...] = FORMATS,
) -> NDArray[np.uint8]:
    """The image as (h, w) gray or (h, w, 3) RGB, uint8, upright.

    Parameters
    ----------
    source
        A path, or the bytes of a file. The format is told by the first bytes, never by the name.
    max_pixels
        More are refused from the header, before anything is decoded; and so is a file of more than 8 bytes
        for each pixel that is allowed. Decoding takes up to 23 bytes a pixel, and the file.
    longest
        A hint that the image will be shrunk to this longest side. A JPEG is then decoded at 1/2, 1/4 or 1/8 of
        its size where both sides stay at least as large as in the shrunk image: faster, and other pixels than those
        of the whole image shrunk later. Other formats are read whole.
    formats
        Those that are accepted, of ``FORMATS``.

    What becomes of each kind of picture:

    - Orientation: as the EXIF data says; EXIF data that cannot be read counts as absent.
    - Alpha, or a transparent colour: laid on white.
    - Palette, CMYK, YCbCr: to RGB by the usual formulas. Colour profiles are not applied.
    - 1 bit: 0 and 255. 16-bit gray: its range 0..65535 to 0..255. 16 bits a channel: the high byte.
    - 32-bit integers: as 16-bit gray if they fit in there; 32-bit floats: 0..1 to 0..255 if they fit in there. Other
      ranges have no agreed white and are stretched from their smallest to their largest value.
    - Several frames or pages: the first.

    Raises ``ImageError`` for whatever is no whole image, truncated ones included. No global state is changed, so any
    number of threads may read at once.

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
    """``read_image`` of bytes that have no name: its errors tell the reason alone."""
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
    except Exception as error:  # Pillow raises nearly every kind, depending on where in the file the damage is
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


def reason_of(error: BaseException) -> str:
    """Why, in one line, without the name of the file."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return " ".join(reason.split())


def read_bytes(path: str | os.PathLike[str], *, max_pixels: int = MAX_PIXELS) -> bytes:
    """A regular file, whole, if it is no larger than an image of so many pixels can sensibly be."""
    info = os.stat(path)
    if not stat.S_ISREG(info.st_mode):
        raise ImageError("it is no regular file")  # to open a pipe would wait for its writer
    if info.st_size > _BYTES_A_PIXEL * max_pixels + _METADATA:
        raise ImageError(f"it has {info.st_size} bytes; at most {max_pixels} pixels of {_BYTES_A_PIXEL} are read")
    with open(path, "rb") as file:
        return file.read()


def _open(data: bytes, formats: tuple[str, ...], max_pixels: int) -> "ImageFile":
    """The image with its header read and its size checked.

    Pillow's own ``open`` warns of large images, or refuses them, by a global limit; its format classes do not.
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
        raise ImportError("reading images needs the extra 'images': pip install 'cbid[images]'") from error

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
    for format in formats:
        fits, image_file = kinds[format]
        if fits:
            image = image_file(io.BytesIO(data))
            if "progressive" in image.info and data.count(b"\xff\xda") > _MAX_SCANS:
                raise ImageError(f"it is a progressive JPEG of more than {_MAX_SCANS} scans")
            if image.width * image.height > max_pixels:
                raise ImageError(f"it has {image.width} x {image.height} pixels; at most {max_pixels} are read")
            return image
    raise ImageError(f"it is none of {', '.join(formats)}")


def _values(image: "Image") -> NDArray[np.uint8]:
    """The pixels as gray or RGB, not yet turned."""
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
    """Turned and mirrored by the EXIF orientation, 1 to 8."""
    try:
        orientation = image.getexif().get(0x0112, 1)
    except Exception:  # damaged EXIF data, or a warning of it where warnings are errors
        orientation = 1
    if orientation in (5, 6, 7, 8):  # stored lying
        values = values.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        values = values[::-1]
    if orientation in (2, 3, 6, 7):
        values = values[:, ::-1]
    return np.ascontiguousarray(values)
