"""Images to values, one descriptor per file."""

from cbid.descriptors.base import Descriptor, LocalDescriptor
from cbid.descriptors.dense_sift import DenseSIFT

__all__ = ["DenseSIFT", "Descriptor", "LocalDescriptor"]
