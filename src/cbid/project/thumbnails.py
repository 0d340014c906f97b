"""Small pictures to show."""

import io
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from cbid.data.decode import decode_image
from cbid.data.images import resize_longest, to_uint8

__all__ = ["LONGEST", "thumbnail"]

LONGEST = 192  # pixels of the longer side
_QUALITY = 85


def thumbnail(item: bytes | NDArray[Any] | Sequence[Any]) -> bytes:
    """A JPEG of an image (its file's bytes, or an array), its longer side at most 192 pixels."""
    from PIL import Image

    image = decode_image(item, longest=LONGEST) if isinstance(item, bytes) else item
    small = resize_longest(to_uint8(image), LONGEST)
    buffer = io.BytesIO()
    Image.fromarray(small).save(buffer, "JPEG", quality=_QUALITY)
    return buffer.getvalue()
