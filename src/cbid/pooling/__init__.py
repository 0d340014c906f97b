"""Pooling of bags of local descriptors into one vector per image, and feature maps for linear classifiers."""

from cbid.pooling.bag_of_words import BagOfWords
from cbid.pooling.base import Pooling, load
from cbid.pooling.emk import EMK
from cbid.pooling.hik import HIKClassifier
from cbid.pooling.kernel_map import AdditiveKernelMap
from cbid.pooling.llc import LLC
from cbid.pooling.meta_class import Classemes, MetaClass
from cbid.pooling.sparse_coding import ScSPM

__all__ = [
    "EMK",
    "LLC",
    "AdditiveKernelMap",
    "BagOfWords",
    "Classemes",
    "HIKClassifier",
    "MetaClass",
    "Pooling",
    "ScSPM",
    "load",
]
