"""Sources of images and vectors: folders, lists, arrays and tables."""

from importlib import import_module
from typing import Any

from cbid.data.decode import ImageError, read_image
from cbid.data.folders import ImageFolder
from cbid.data.image_sets import ImageFiles, ImageItems, ImageSet
from cbid.data.images import as_gray, as_rgb, check_image, resize_longest, to_float, to_uint8
from cbid.data.lists import ImageList
from cbid.data.sources import open_source
from cbid.data.tables import ParquetTable, VectorTable

__all__ = [
    "ImageError",
    "ImageFiles",
    "ImageFolder",
    "ImageItems",
    "ImageList",
    "ImageSet",
    "ParquetTable",
    "VectorTable",
    "as_gray",
    "as_rgb",
    "check_image",
    "open_source",
    "read_image",
    "resize_longest",
    "to_float",
    "to_uint8",
]

# Names that were here in 0.1.0.
_MOVED = {
    **dict.fromkeys(("CacheWarning", "Described", "DescriptorCache", "describe"), "cbid.descriptors"),
    **dict.fromkeys(
        ("CATALOGUE", "DataAbsent", "NamedSet", "Protocol", "Split", "open_set", "per_class"), "cbid.paper.sets"
    ),
}


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        return getattr(import_module(_MOVED[name]), name)
    raise AttributeError(f"module 'cbid.data' has no attribute {name!r}")
