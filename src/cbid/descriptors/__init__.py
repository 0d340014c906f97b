"""Images to values, one descriptor per file."""

from cbid.descriptors.base import Descriptor, LocalDescriptor
from cbid.descriptors.deep import ONNXEmbedding
from cbid.descriptors.dense_sift import DenseSIFT
from cbid.descriptors.kernel_descriptors import KernelDescriptors

__all__ = ["DenseSIFT", "Descriptor", "KernelDescriptors", "LocalDescriptor", "ONNXEmbedding"]
