"""Pooling of bags of local descriptors into one vector per image, and feature maps for linear classifiers."""

from cbid.pooling.additive_kernels import AdditiveKernelMap, HIKClassifier
from cbid.pooling.bag_of_words import EMK, LLC, BagOfWords
from cbid.pooling.base import Pooling, load
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
