"""Images to values, one descriptor per file."""

from cbid.descriptors.base import Descriptor, LocalDescriptor

__all__ = ["Descriptor", "LocalDescriptor"]
