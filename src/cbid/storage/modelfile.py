"""Model files: one safetensors file, arrays as tensors, everything else as JSON in its header."""

import os
from typing import Any

from cbid.storage.tensorfile import Arrays, FileKind

__all__ = ["Arrays", "ModelFileError", "read_model", "write_model"]


class ModelFileError(ValueError):
    """The file is not a model, or not a whole and unaltered one."""


MODEL = FileKind(format="cbid-coder", version=1, noun="model", error=ModelFileError)


def write_model(path: str | os.PathLike[str], kind: str, state: dict[str, Any], arrays: Arrays) -> None:
    """Write a model of that kind; ``state`` is anything JSON can hold."""
    MODEL.write(path, {"kind": kind, "state": state}, arrays)


def read_model(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], Arrays]:
    """Kind, state and arrays of a model file."""
    content, arrays = MODEL.read(path)
    kind, state = (content.get(name) if isinstance(content, dict) else None for name in ("kind", "state"))
    if not isinstance(kind, str) or not isinstance(state, dict):
        raise ModelFileError(f"{os.fspath(path)} is damaged: its content is not that of a model")
    return kind, state, arrays
