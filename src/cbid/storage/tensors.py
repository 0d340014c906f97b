"""Arrays and JSON values in one safetensors file with a checksum, written atomically.

Nothing in the file is executed or unpickled. Sizes in the header are compared with the size of the file before
anything is allocated, and a checksum over JSON and arrays detects any change.
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

from cbid.storage.atomic import check_regular, whole_file

__all__ = ["Arrays", "FileKind"]

_LARGEST_HEADER = 16 * 2**20

Arrays = dict[str, NDArray[Any]]
Made = TypeVar("Made")


@dataclass(frozen=True)
class FileKind:
    """A kind of file.

    Parameters
    ----------
    format, version : str, int
        Written into the header and required when reading.
    noun : str
        The word for such a file in error messages.
    error : type
        Raised for a file that is not of this kind or is damaged.
    """

    format: str
    version: int
    noun: str
    error: type[ValueError]

    def write(self, path: str | os.PathLike[str], content: Any, arrays: Arrays) -> None:
        """Write a file of JSON values and arrays; an existing file is replaced atomically."""
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
        """Return JSON content and arrays of a file after checking its checksum."""
        path = Path(path)
        metadata = self._checked_header(path)
        try:
            arrays = load_tensors(path.read_bytes())
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise self.error(f"{path} is damaged: {error}") from error
        if _digest(metadata["content"], arrays) != metadata["sha256"]:
            raise self.error(f"{path} is damaged or was modified: its checksum does not match its content")
        try:
            return json.loads(metadata["content"]), arrays
        except (ValueError, RecursionError) as error:
            raise self.error(f"{path} is damaged: its content is not a {self.noun}") from error

    def peek(self, path: str | os.PathLike[str], name: str) -> NDArray[Any]:
        """Return one array without reading the others: sizes are checked, the checksum is not."""
        self._checked_header(Path(path))
        try:
            with safe_open(path, framework="numpy") as file:
                return np.asarray(file.get_tensor(name))
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise self.error(f"{path} is damaged: {error}") from error

    def restore(self, path: str | os.PathLike[str], make: Callable[[Any, Arrays, str], Made]) -> Made:
        """Return ``make(content, arrays, name of the file)``; its errors are raised as this kind's error.

        Values that are not finite are rejected first.
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
            raise self.error(f"{source} does not hold a complete {self.noun}: {error}") from error

    def _checked_header(self, path: Path) -> dict[str, str]:
        """Return the metadata of the header after comparing the sizes in it with the size of the file."""
        size = check_regular(path)
        with open(path, "rb") as file:
            prefix = file.read(8)
            if len(prefix) < 8:
                raise self.error(f"{path} is not a {self.noun} file: it has only {size} bytes")
            (length,) = struct.unpack("<Q", prefix)
            if length > min(size - 8, _LARGEST_HEADER):
                raise self.error(
                    f"{path} is not a {self.noun} file or is truncated: "
                    f"the header claims {length} bytes, the file has {size}"
                )
            try:
                header = json.loads(file.read(length))
            except (ValueError, RecursionError) as error:
                raise self.error(f"{path} is not a {self.noun} file: its header is not JSON") from error
        metadata = header.get("__metadata__") if isinstance(header, dict) else None
        if not isinstance(metadata, dict) or metadata.get("format") != self.format:
            raise self.error(
                f"{path} is not a cbid {self.noun}: expected a safetensors file with format {self.format!r}"
            )
        if metadata.get("version") != str(self.version):
            raise self.error(
                f"{path} has format version {metadata.get('version')!r}: expected {self.version}; "
                "a newer release of cbid may read it"
            )
        if not all(isinstance(metadata.get(name), str) for name in ("content", "sha256")):
            raise self.error(f"{path} is damaged: content or checksum is missing in its header")
        ends = [0]
        for name, tensor in header.items():
            if name != "__metadata__":
                try:
                    ends.append(int(tensor["data_offsets"][1]))
                except (TypeError, KeyError, IndexError, ValueError, OverflowError) as error:
                    raise self.error(f"{path} is damaged: array {name!r} has no valid offsets") from error
        if max(ends) != size - 8 - length:
            raise self.error(
                f"{path} is truncated or has trailing bytes: "
                f"arrays end at byte {max(ends)}, the data at {size - 8 - length}"
            )
        return metadata


def _digest(content: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(content.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
