"""Model files: one safetensors file, arrays as tensors, everything else as JSON in its header.

Nothing in the file is executed or unpickled. Sizes are checked against the file before anything is allocated from
the header, and a checksum over header and arrays tells of any change.
"""

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from cbid.files import whole_file

__all__ = ["ModelFileError", "read_model", "write_model"]

FORMAT = "cbid-coder"
VERSION = 1
_LARGEST_HEADER = 16 * 2**20

Arrays = dict[str, NDArray[Any]]


class ModelFileError(ValueError):
    """The file is not a model, or not a whole and unaltered one."""


def write_model(path: str | os.PathLike[str], kind: str, state: dict[str, Any], arrays: Arrays) -> None:
    """Write a model of that kind; ``state`` is anything JSON can hold."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content = json.dumps({"kind": kind, "state": state}, sort_keys=True)
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "content": content,
        "sha256": _digest(content, arrays),
    }
    with whole_file(path) as temporary:
        temporary.write_bytes(save_tensors(arrays, metadata=metadata))


def read_model(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], Arrays]:
    """Kind, state and arrays of a model file."""
    path = Path(path)
    metadata = _checked_header(path)
    try:
        arrays = load_tensors(path.read_bytes())
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path} is damaged: {error}") from error
    if _digest(metadata["content"], arrays) != metadata["sha256"]:
        raise ModelFileError(f"{path} was altered or damaged: its checksum does not match its content")
    try:
        content = json.loads(metadata["content"])
        kind, state = content["kind"], content["state"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its content is not that of a model") from error
    if not isinstance(kind, str) or not isinstance(state, dict):
        raise ModelFileError(f"{path} is damaged: its content is not that of a model")
    return kind, state, arrays


def _checked_header(path: Path) -> dict[str, str]:
    """The header's text, after its sizes have been held against the size of the file."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        prefix = file.read(8)
        if len(prefix) < 8:
            raise ModelFileError(f"{path} is no model file: {size} bytes are too few")
        (length,) = struct.unpack("<Q", prefix)
        if length > min(size - 8, _LARGEST_HEADER):
            raise ModelFileError(
                f"{path} is no whole model file: its header claims {length} bytes of a file of {size}"
            )
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError) as error:
            raise ModelFileError(f"{path} is no model file: its header is not JSON") from error
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ModelFileError(f"{path} is no cbid model (a safetensors file whose format is {FORMAT!r})")
    if metadata.get("version") != str(VERSION):
        raise ModelFileError(
            f"{path} has version {metadata.get('version')!r} of the format; this cbid reads version {VERSION}"
        )
    if not all(isinstance(metadata.get(name), str) for name in ("content", "sha256")):
        raise ModelFileError(f"{path} is damaged: its header lacks the content or its checksum")
    ends = [0]
    for name, tensor in header.items():
        if name != "__metadata__":
            try:
                ends.append(int(tensor["data_offsets"][1]))
            except (TypeError, KeyError, IndexError, ValueError, OverflowError) as error:
                raise ModelFileError(f"{path} is damaged: array {name!r} has no proper place") from error
    if max(ends) != size - 8 - length:
        raise ModelFileError(
            f"{path} is truncated or has trailing bytes: arrays end at byte {max(ends)} of {size - 8 - length}"
        )
    return metadata


def _digest(content: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(content.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
