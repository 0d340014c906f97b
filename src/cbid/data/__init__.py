"""Images and vectors in: folders, lists, arrays, tables; named data sets with named protocols."""

from cbid.data.images import (
    ImageError,
    as_gray,
    as_rgb,
    check_image,
    read_image,
    resize_longest,
    to_float,
    to_uint8,
)

__all__ = [
    "ImageError",
    "as_gray",
    "as_rgb",
    "check_image",
    "read_image",
    "resize_longest",
    "to_float",
    "to_uint8",
]
