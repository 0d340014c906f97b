"""Compact binary codes for images and embeddings: learn them, search them."""

from cbid.coders import CBID, load

__all__ = ["CBID", "load"]
__version__ = "0.1.0"
