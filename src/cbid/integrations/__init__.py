"""Codes in other people's code: a quantiser in the style of sentence-transformers, and a store for LangChain."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cbid.integrations.langchain import CodeVectorStore
    from cbid.integrations.quantizer import EmbeddingQuantizer

__all__ = ["CodeVectorStore", "EmbeddingQuantizer"]

# Imported on first use: LangChain is an extra.
_MODULES = {"CodeVectorStore": "cbid.integrations.langchain", "EmbeddingQuantizer": "cbid.integrations.quantizer"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'cbid.integrations' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
