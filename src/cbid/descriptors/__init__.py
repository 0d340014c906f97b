"""Descriptors of images, one per file; describing many images, with a cache."""

from cbid.descriptors.base import Descriptor, LocalDescriptor
from cbid.descriptors.cache import CacheWarning, DescriptorCache
from cbid.descriptors.census import CENTRIST, BlockPCA, spatial_pact
from cbid.descriptors.deep import ONNXEmbedding
from cbid.descriptors.dense_sift import DenseSIFT
from cbid.descriptors.describing import Described, describe
from cbid.descriptors.efficientnet import EfficientNet
from cbid.descriptors.gist import GIST
from cbid.descriptors.haar import HaarFeatures
from cbid.descriptors.hog import HOG
from cbid.descriptors.kernel_descriptors import KernelDescriptors
from cbid.descriptors.phog import PyramidHOG
from cbid.descriptors.pixels import RawPixels

__all__ = [
    "CENTRIST",
    "GIST",
    "HOG",
    "BlockPCA",
    "CacheWarning",
    "DenseSIFT",
    "Described",
    "Descriptor",
    "DescriptorCache",
    "EfficientNet",
    "HaarFeatures",
    "KernelDescriptors",
    "LocalDescriptor",
    "ONNXEmbedding",
    "PyramidHOG",
    "RawPixels",
    "describe",
    "spatial_pact",
]
