"""Compact binary codes for images and embeddings."""

__all__: list[str] = []
__version__ = "0.1.0"
