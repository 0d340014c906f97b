"""Learn compact binary codes for images and embeddings, and search them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cbid.classify import CodeKNeighborsClassifier, NBNNClassifier
    from cbid.coders import CBID, PatchCBID, load
    from cbid.search import CodeIndex
    from cbid.vector_index import VectorIndex

__all__ = ["CBID", "CodeIndex", "CodeKNeighborsClassifier", "NBNNClassifier", "PatchCBID", "VectorIndex", "load"]
__version__ = "0.1.0"  # the only place; the build reads it from here

# Imported on first use: searching does not need the learner, and the command line starts fast.
_MODULES = {
    "CBID": "cbid.coders",
    "CodeIndex": "cbid.search",
    "CodeKNeighborsClassifier": "cbid.classify",
    "NBNNClassifier": "cbid.classify",
    "PatchCBID": "cbid.coders",
    "VectorIndex": "cbid.vector_index",
    "load": "cbid.coders",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    if name == "codes_io":  # its name in 0.1.0
        return import_module("cbid.storage.code_files")
    raise AttributeError(f"module 'cbid' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
