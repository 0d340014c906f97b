"""Arrays with a JSON content in one safetensors file, written whole and with a checksum.

Nothing in the file is executed or unpickled. Sizes are checked against the file before anything is allocated from
the header, and a checksum over content and arrays tells of any change.
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from cbid.storage.files import whole_file

__all__ = ["Arrays", "FileKind"]

_LARGEST_HEADER = 16 * 2**20

Arrays = dict[str, NDArray[Any]]
Made = TypeVar("Made")


@dataclass(frozen=True)
class FileKind:
    """One kind of file: its format and version in the header, the word for it, the error for what is none."""

    format: str
    version: int
    noun: str
    error: type[ValueError]

    def write(self, path: str | os.PathLike[str], content: Any, arrays: Arrays) -> None:
        """Write a file; ``content`` is anything JSON can hold."""
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        text = json.dumps(content, sort_keys=True)
        metadata = {
            "format": self.format,
            "version": str(self.version),
            "content": text,
            "sha256": _digest(text, arrays),
        }
        with whole_file(path) as temporary:
            temporary.write_bytes(save_tensors(arrays, metadata=metadata))

    def read(self, path: str | os.PathLike[str]) -> tuple[Any, Arrays]:
        """Content and arrays of a file, checked."""
        path = Path(path)
        metadata = self._checked_header(path)
        try:
            arrays = load_tensors(path.read_bytes())
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise self.error(f"{path} is damaged: {error}") from error
        if _digest(metadata["content"], arrays) != metadata["sha256"]:
            raise self.error(f"{path} was altered or damaged: its checksum does not match its content")
        try:
            return json.loads(metadata["content"]), arrays
        except (ValueError, RecursionError) as error:
            raise self.error(f"{path} is damaged: its content is not that of a {self.noun}") from error

    def peek(self, path: str | os.PathLike[str], name: str) -> NDArray[Any]:
        """One array alone, its sizes checked but not its checksum, which would need all the others."""
        self._checked_header(Path(path))
        try:
            with safe_open(path, framework="numpy") as file:
                return np.asarray(file.get_tensor(name))
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise self.error(f"{path} is damaged: {error}") from error

    def restore(self, path: str | os.PathLike[str], make: Callable[[Any, Arrays, str], Made]) -> Made:
        """What ``make`` builds of content, arrays and the file's name; what it stumbles over is this kind's error.

        Numbers that are not finite are refused before.
        """
        content, arrays = self.read(path)
        source = os.fspath(path)
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise self.error(f"{source}: array {name!r} holds values that are not finite")
        try:
            return make(content, arrays, source)
        except self.error:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
            raise self.error(f"{source} holds no complete {self.noun}: {error}") from error

    def _checked_header(self, path: Path) -> dict[str, str]:
        """The header's text, after its sizes have been held against the size of the file."""
        size = path.stat().st_size
        with open(path, "rb") as file:
            prefix = file.read(8)
            if len(prefix) < 8:
                raise self.error(f"{path} is no {self.noun} file: {size} bytes are too few")
            (length,) = struct.unpack("<Q", prefix)
            if length > min(size - 8, _LARGEST_HEADER):
                raise self.error(
                    f"{path} is no whole {self.noun} file: its header claims {length} bytes of a file of {size}"
                )
            try:
                header = json.loads(file.read(length))
            except (ValueError, RecursionError) as error:
                raise self.error(f"{path} is no {self.noun} file: its header is not JSON") from error
        metadata = header.get("__metadata__") if isinstance(header, dict) else None
        if not isinstance(metadata, dict) or metadata.get("format") != self.format:
            raise self.error(f"{path} is no cbid {self.noun} (a safetensors file whose format is {self.format!r})")
        if metadata.get("version") != str(self.version):
            raise self.error(
                f"{path} has version {metadata.get('version')!r} of the format; "
                f"this cbid reads version {self.version}"
            )
        if not all(isinstance(metadata.get(name), str) for name in ("content", "sha256")):
            raise self.error(f"{path} is damaged: its header lacks the content or its checksum")
        ends = [0]
        for name, tensor in header.items():
            if name != "__metadata__":
                try:
                    ends.append(int(tensor["data_offsets"][1]))
                except (TypeError, KeyError, IndexError, ValueError, OverflowError) as error:
                    raise self.error(f"{path} is damaged: array {name!r} has no proper place") from error
        if max(ends) != size - 8 - length:
            raise self.error(
                f"{path} is truncated or has trailing bytes: arrays end at byte {max(ends)} of {size - 8 - length}"
            )
        return metadata


def _digest(content: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(content.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
