"""Compact binary codes for images and embeddings: learn them, search them."""

from cbid.classify import CodeKNeighborsClassifier
from cbid.coders import CBID, load
from cbid.search import CodeIndex

__all__ = ["CBID", "CodeIndex", "CodeKNeighborsClassifier", "load"]
__version__ = "0.1.0"
