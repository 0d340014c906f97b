"""Pixels of one untrusted image file, as bands of rows; also the program of the decoding processes.

This file imports nothing of ``cbid``: ``cbid.data.isolated`` runs it as a script in a separate process, which has to
start fast and stay small.
"""

import ctypes
import functools
import io
import math
import os
import re
import resource
import shlex
import signal
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
# The names of Pillow's modules and classes by format.
_PLUGINS = {format: format.capitalize() for format in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "PPM")} | {"WEBP": "WebP"}
# The formats of the containers that begin with "ftyp", by their main brand.
_BRANDS = dict.fromkeys((b"avif", b"avis"), "AVIF") | dict.fromkeys(
    (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"), "HEIF"
)
_MAX_SCANS = 200  # usually about ten; a scan of all pixels can take as little as 70 bytes of the file
_LARGE = 4_000_000  # pixels of a WebP image that is decoded with less memory than Pillow needs
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
    format = format_of(data, formats)
    image = _large_webp(data, max_pixels) if format == "WEBP" else None
    image = image or _image_class(format)(io.BytesIO(data))
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


def _image_class(format: str) -> "type[ImageFile]":
    """Return the class that opens images of a format."""
    found: type[ImageFile]
    if format in _PLUGINS:
        found = getattr(import_module(f"PIL.{_PLUGINS[format]}ImagePlugin"), f"{_PLUGINS[format]}ImageFile")
        return found
    if format == "AVIF":
        from PIL import features

        if not features.check("avif"):
            raise ImageError("it is an AVIF image, which this build of Pillow cannot read: Pillow 11.3 or newer can")
        from PIL.AvifImagePlugin import AvifImageFile

        return AvifImageFile
    try:
        from pillow_heif import HeifImageFile
    except ImportError as error:
        python = sys.executable.removeprefix(os.path.join(os.getcwd(), ""))
        how = f"{shlex.quote(python)} -m pip install pillow-heif"
        raise ImageError(f"it is a HEIC image; reading it needs the extra 'heif': {how}") from error
    found = HeifImageFile
    return found


# Large WebP images. Pillow decodes them as animations, in four buffers of 4 bytes per pixel; libwebp alone needs two.


@functools.cache
def _libwebp() -> "ctypes.CDLL | None":
    """Return the library that Pillow has loaded; None if it cannot be found."""
    from PIL import _webp  # noqa: F401

    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            found = re.search(r"/.*/libwebp[-.0-9a-f]*\.so.*", maps.read())
        library = None if found is None else ctypes.CDLL(found[0])
    except OSError:
        return None
    if library is not None:
        library.WebPDecodeRGBAInto.restype = ctypes.c_void_p
        library.WebPDecodeRGBAInto.argtypes = [
            ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ]  # fmt: skip
        library.WebPGetInfo.argtypes = [ctypes.c_char_p, ctypes.c_size_t, *[ctypes.POINTER(ctypes.c_int)] * 2]
    return library


def _large_webp(data: bytes, max_pixels: int) -> "ImageFile | None":
    """Return a still WebP image of many pixels; None for others, which Pillow opens."""
    library, width, height = _libwebp(), ctypes.c_int(), ctypes.c_int()
    if library is None or not library.WebPGetInfo(data, len(data), ctypes.byref(width), ctypes.byref(height)):
        return None
    size = width.value, height.value
    extended, flags = data[12:16] == b"VP8X", data[20] if len(data) > 25 else 0
    if math.prod(size) < _LARGE or (extended and flags & 2):  # an animation
        return None
    if math.prod(size) > max_pixels:
        raise ImageError(f"it has {size[0]} x {size[1]} pixels: expected at most {max_pixels}")
    has_alpha = flags & 16 if extended else data[12:16] == b"VP8L" and data[24] & 16
    return _webp_class()(data, size, "RGBA" if has_alpha else "RGBX")


@functools.cache
def _webp_class() -> Any:
    from PIL import Image
    from PIL.ImageFile import ImageFile

    class LargeWebP(ImageFile):
        """A still WebP image that libwebp decodes into the memory of the image."""

        def __init__(self, data: bytes, size: tuple[int, int], mode: str) -> None:
            self._data, self._found = data, (size, mode)
            super().__init__(io.BytesIO(data))

        def _open(self) -> None:
            (self._size, self._mode), place = self._found, 12
            for _ in range(64):  # chunks; a file with more has no EXIF data for us
                length = int.from_bytes(self._data[place + 4 : place + 8], "little")
                if self._data[place : place + 4] == b"EXIF":
                    self.info["exif"] = self._data[place + 8 : place + 8 + length]
                place += 8 + length + length % 2

        def load(self) -> Any:
            if self._data:
                values, library = np.empty((self.height, self.width, 4), dtype=np.uint8), _libwebp()
                assert library is not None
                place = values.ctypes.data
                if not library.WebPDecodeRGBAInto(self._data, len(self._data), place, values.nbytes, 4 * self.width):
                    raise ImageError("its WebP data is damaged")
                self.im, self._data = Image.frombuffer(self.mode, self.size, values, "raw", self.mode, 0, 1).im, b""
            return super().load()

    return LargeWebP


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
    for name in _PLUGINS.values():  # before memory is limited
        import_module(f"PIL.{name}ImagePlugin")
    _libwebp()

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/self/statm", encoding="ascii") as statm:
        size, resident = (int(n) * resource.getpagesize() for n in statm.read().split()[:2])
    least = size + 2**20
    most = max(least, size + memory - resident)  # the resident memory then stays below the limit
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    while len(request := sys.stdin.buffer.read(REQUEST.size)) == REQUEST.size:
        n, max_pixels, seconds, only_size = REQUEST.unpack(request)
        sizes = [FILE_SIZE.unpack(sys.stdin.buffer.read(FILE_SIZE.size))[0] for _ in range(n)]
        first = place = sum(sizes)
        start, waits = 0, False
        for size in sizes:
            shape, turn, message = (0, 0, 0), 1, ""
            # The shared file and the caller hold the content, too.
            resource.setrlimit(resource.RLIMIT_AS, (max(least, most - 2 * size), most))
            signal.setitimer(signal.ITIMER_PROF, seconds)  # of the processor; the signal ends the process
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


if __name__ == "__main__":  # pragma: no cover (it runs in another process)
    serve(int(sys.argv[1]), int(sys.argv[2]))
