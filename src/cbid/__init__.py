"""Compact binary codes for images and embeddings: learn them, search them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cbid.classify import CodeKNeighborsClassifier, NBNNClassifier
    from cbid.coders import CBID, PatchCBID, load
    from cbid.search import CodeIndex

__all__ = ["CBID", "CodeIndex", "CodeKNeighborsClassifier", "NBNNClassifier", "PatchCBID", "load"]
__version__ = "0.1.0"

# Imported when first asked for: who searches codes need not wait for what learns them, nor the other way round.
_HOME = {
    "CBID": "cbid.coders",
    "CodeIndex": "cbid.search",
    "CodeKNeighborsClassifier": "cbid.classify",
    "NBNNClassifier": "cbid.classify",
    "PatchCBID": "cbid.coders",
    "load": "cbid.coders",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'cbid' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
