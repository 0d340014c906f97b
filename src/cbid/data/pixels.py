"""Pixels of one untrusted image file, as bands of rows; also the program of the decoding processes.

This file imports nothing of ``cbid``: ``cbid.data.isolated`` runs it as a script in a process of its own, which has
to start fast and stay small.
"""

import io
import math
import os
import resource
import struct
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

__all__ = [
    "FORMATS",
    "REPLY",
    "REQUEST",
    "ImageError",
    "bands",
    "format_of",
    "open_image",
    "orientation",
    "reason_of",
]

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "HEIF")
# A request: number of images, most pixels, most seconds, whether only sizes are wanted; then the size of each file.
REQUEST, FILE_SIZE = struct.Struct("<HQdB"), struct.Struct("<Q")
# A reply to each image: outcome, height, width, channels, orientation, place of the pixels, size of its message.
REPLY = struct.Struct("<BQQBBQH")
READY = b"+"  # what a process writes when it has started
DONE, REJECTED, NO_MEMORY, NOT_YET = range(4)
_MAX_SHARED = 2**26  # bytes of pixels in the shared file; an image that does not fit waits, unless it is the first
_STARTS: dict[str, bytes | tuple[bytes, ...]] = {
    "JPEG": b"\xff\xd8\xff",
    "PNG": b"\x89PNG\r\n\x1a\n",
    "WEBP": b"RIFF",
    "GIF": (b"GIF87a", b"GIF89a"),
    "BMP": b"BM",
    "TIFF": (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
    "PPM": (b"P1", b"P2", b"P3", b"P4", b"P5", b"P6"),
}
# The formats of the containers that begin with "ftyp", by their main brand.
_BRANDS = dict.fromkeys((b"avif", b"avis"), "AVIF") | dict.fromkeys(
    (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"), "HEIF"
)
_MAX_SCANS = 200  # usually about ten; a scan of all pixels can take as little as 70 bytes of the file
_BAND = 2**20  # pixels that are converted at a time: the memory for conversions does not grow with the image


class ImageError(ValueError):
    """An image cannot be read; the message names the file and the reason."""


def reason_of(error: BaseException) -> str:
    """Return the reason of an error in one line, without the name of the file."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return " ".join(reason.split())


def open_image(data: bytes, formats: tuple[str, ...], max_pixels: int) -> "ImageFile":
    """Open an image file: read its header and check its size.

    Pillow's ``open`` has a global limit for large images; its format classes do not.
    """
    from PIL.BmpImagePlugin import BmpImageFile
    from PIL.GifImagePlugin import GifImageFile
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile
    from PIL.PpmImagePlugin import PpmImageFile
    from PIL.TiffImagePlugin import TiffImageFile
    from PIL.WebPImagePlugin import WebPImageFile

    kinds: dict[str, type[ImageFile]] = {
        "JPEG": JpegImageFile,
        "PNG": PngImageFile,
        "WEBP": WebPImageFile,
        "GIF": GifImageFile,
        "BMP": BmpImageFile,
        "TIFF": TiffImageFile,
        "PPM": PpmImageFile,
    }
    format = format_of(data, formats)
    image = (kinds.get(format) or _container_class(format))(io.BytesIO(data))
    if "progressive" in image.info and data.count(b"\xff\xda") > _MAX_SCANS:
        raise ImageError(f"it is a progressive JPEG with more than {_MAX_SCANS} scans")
    if image.width * image.height > max_pixels:
        raise ImageError(f"it has {image.width} x {image.height} pixels: expected at most {max_pixels}")
    return image


def format_of(data: bytes, formats: tuple[str, ...] = FORMATS) -> str:
    """Return the format of an image file by its first bytes."""
    if not data:
        raise ImageError("it is empty")
    container = _BRANDS.get(data[8:12]) if data[4:8] == b"ftyp" else None
    for format in formats:
        fits = data.startswith(_STARTS.get(format, ())) and (format != "WEBP" or data[8:12] == b"WEBP")
        if fits or format == container:
            return format
    raise ImageError(f"its format is unknown: expected one of {', '.join(formats)}")


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
        raise ImageError("it is a HEIC image; reading it needs the extra 'heif' (pillow-heif)") from error
    found: type[ImageFile] = HeifImageFile
    return found


def bands(image: "Image") -> Iterator[NDArray[np.uint8]]:
    """Return the pixels, gray (rows, w) or RGB (rows, w, 3), in bands of rows, before the orientation is applied."""
    convert = _conversion(image)
    for part in _parts(image):
        yield convert(part)


def _parts(image: "Image") -> "Iterator[Image]":
    rows = max(1, _BAND // image.width)
    for top in range(0, image.height, rows):
        bottom = min(top + rows, image.height)
        yield image if rows >= image.height else image.crop((0, top, image.width, bottom))


def _conversion(image: "Image") -> "Callable[[Image], NDArray[np.uint8]]":
    """Return the function from a part of the image to its pixels."""
    if image.mode.startswith("I;16"):
        return lambda part: _from_16_bits(np.asarray(part))
    if image.mode in ("I", "F"):
        low, high = _range(image)
        if image.mode == "I" and low >= 0 and high <= 65535:
            return lambda part: _from_16_bits(np.asarray(part))
        if image.mode == "F" and low >= 0 and high <= 1:
            return lambda part: np.rint(np.asarray(part) * 255).astype(np.uint8)
        scale = 255 / ((high - low) or 1.0)
        return lambda part: np.rint((np.asarray(part) - low) * scale).astype(np.uint8)
    target = "L" if image.mode in ("1", "L", "LA", "La") else "RGB"
    if image.has_transparency_data:
        return lambda part: np.asarray(_on_white(part).convert(target))
    return lambda part: np.asarray(part if part.mode == target else part.convert(target))


def _range(image: "Image") -> tuple[float, float]:
    low, high = math.inf, -math.inf
    for part in _parts(image):
        values = np.asarray(part)
        if not np.isfinite(values).all():
            raise ImageError("it has values that are not finite")
        low, high = min(low, float(values.min())), max(high, float(values.max()))
    return low, high


def _on_white(image: "Image") -> "Image":
    from PIL import Image

    white = Image.new("RGBA", image.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, image.convert("RGBA"))


def _from_16_bits(values: NDArray[Any]) -> NDArray[np.uint8]:
    return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)  # 65535 = 255 * 257


def orientation(image: "Image") -> int:
    """Return the EXIF orientation, 1 to 8; 1 if it cannot be read."""
    try:
        found = image.getexif().get(0x0112, 1)
    except Exception:  # damaged EXIF data, or a warning raised as an error
        return 1
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def draft(image: "ImageFile", longest: int) -> None:
    """Let a JPEG be decoded at 1/2, 1/4 or 1/8 of its size if its longest side stays at least ``longest``."""
    shrink = min(1.0, longest / max(image.size))
    image.draft(None, (math.ceil(image.width * shrink), math.ceil(image.height * shrink)))


# The program of a decoding process


def serve(file: int, memory: int) -> None:  # pragma: no cover (it runs in another process)
    """Answer requests from standard input until it ends.

    The shared file holds the files of a request one after another. Their pixels are written behind them.
    """
    for name in ("Bmp", "Gif", "Jpeg", "Png", "Ppm", "Tiff", "WebP"):  # before memory is limited
        import_module(f"PIL.{name}ImagePlugin")

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/self/statm", encoding="ascii") as statm:
        size = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    while len(request := sys.stdin.buffer.read(REQUEST.size)) == REQUEST.size:
        n, max_pixels, seconds, only_size = REQUEST.unpack(request)
        sizes = [FILE_SIZE.unpack(sys.stdin.buffer.read(FILE_SIZE.size))[0] for _ in range(n)]
        first = place = sum(sizes)
        start, waits = 0, False
        for size in sizes:
            shape, turn, message = (0, 0, 0), 1, ""
            _limit_cpu(seconds)
            try:
                image = open_image(os.pread(file, size, start), FORMATS, max_pixels)
                outcome, shape = DONE, (image.height, image.width, 0)
                waits = waits or (place > first and place - first + 3 * image.height * image.width > _MAX_SHARED)
                if waits:
                    outcome = NOT_YET
                elif not only_size:
                    image.load()
                    channels = _written(image, file, place)
                    shape, turn = (image.height, image.width, channels), orientation(image)
            except MemoryError:
                outcome = NO_MEMORY
            except Exception as error:  # Pillow raises many kinds of errors for damaged files
                outcome, message = REJECTED, reason_of(error)[:500]
            image = None  # type: ignore[assignment]
            text = message.encode(errors="backslashreplace")[:4000]
            sys.stdout.buffer.write(REPLY.pack(outcome, *shape, turn, place, len(text)) + text)
            sys.stdout.buffer.flush()
            start += size
            place += math.prod(shape) if outcome == DONE else 0


def _written(image: "Image", file: int, place: int) -> int:  # pragma: no cover (it runs in another process)
    """Write the pixels to the file; return the number of channels."""
    channels = 1
    for band in bands(image):
        channels = 1 if band.ndim == 2 else 3
        content = np.ascontiguousarray(band).data.cast("B")
        while len(content):
            n = os.pwrite(file, content, place)
            content, place = content[n:], place + n
    return channels


def _limit_cpu(seconds: float) -> None:  # pragma: no cover (it runs in another process)
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


if __name__ == "__main__":  # pragma: no cover (it runs in another process)
    serve(int(sys.argv[1]), int(sys.argv[2]))
