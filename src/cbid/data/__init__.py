"""Images and vectors in: folders, lists, arrays, tables; named data sets with named protocols."""

from cbid.data.images import ImageError, as_gray, as_rgb, read_image

__all__ = ["ImageError", "as_gray", "as_rgb", "read_image"]
