"""Thumbnails of images."""

import io
from typing import Any

from numpy.typing import NDArray

from cbid.data.images import resize_longest, to_uint8

__all__ = ["LONGEST", "thumbnail"]

LONGEST = 192  # pixels of the longer side
_QUALITY = 85


def thumbnail(image: NDArray[Any]) -> bytes:
    """Return a JPEG of a decoded image; its longer side has at most 192 pixels."""
    from PIL import Image

    small = resize_longest(to_uint8(image), LONGEST)
    buffer = io.BytesIO()
    Image.fromarray(small).save(buffer, "JPEG", quality=_QUALITY)
    return buffer.getvalue()
