"""Images and vectors in: folders, lists, arrays, tables; named data sets with named protocols."""

from cbid.data.cache import CacheWarning, DescriptorCache
from cbid.data.describing import Described, describe
from cbid.data.folders import ImageFolder
from cbid.data.image_sets import ImageFiles, ImageItems, ImageSet
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
from cbid.data.lists import ImageList
from cbid.data.protocols import Protocol, Split, per_class
from cbid.data.sets import CATALOGUE, DataAbsent, NamedSet, open_set
from cbid.data.sources import open_source
from cbid.data.tables import ParquetTable, VectorTable

__all__ = [
    "CATALOGUE",
    "CacheWarning",
    "DataAbsent",
    "Described",
    "DescriptorCache",
    "ImageError",
    "ImageFiles",
    "ImageFolder",
    "ImageItems",
    "ImageList",
    "ImageSet",
    "NamedSet",
    "ParquetTable",
    "Protocol",
    "Split",
    "VectorTable",
    "as_gray",
    "as_rgb",
    "check_image",
    "describe",
    "open_set",
    "open_source",
    "per_class",
    "read_image",
    "resize_longest",
    "to_float",
    "to_uint8",
]
