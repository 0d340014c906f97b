"""A cache of descriptors, keyed by the content of the image and the settings of the descriptor.

A cache is a folder with one subfolder for each fingerprint of a descriptor. A subfolder holds chunks: safetensors
files with the values of up to 256 images and the digests of the images, each written atomically and with a checksum
(``cbid.storage.tensors``). There is no other index, so nothing can get out of step: a killed run loses only the chunk
that was not written yet, and any number of processes can read and write at once.
"""

import json
import os
import re
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cbid.bags import Bags
from cbid.storage.atomic import whole_file
from cbid.storage.digests import digest_text
from cbid.storage.tensors import Arrays, FileKind

if TYPE_CHECKING:
    from cbid.descriptors.base import Descriptor, LocalDescriptor

Bag = tuple[NDArray[np.float32], NDArray[np.float32], tuple[int, int]]  # values, frames, height and width
Value = NDArray[np.float32] | Bag

_IMAGES, _BYTES, _SECONDS = 256, 16 * 2**20, 30.0  # a chunk is written when it reaches one of these
_CHUNK_NAME = re.compile(r"[0-9a-f]{32}\.safetensors")
_TEMPORARY_CHUNK = re.compile(r"\.([0-9a-f]{32}\.safetensors|settings\.json)\.[a-z0-9_]{8}\.tmp")
_ABANDONED = 3600.0  # seconds after which a temporary file is removed


class CacheWarning(UserWarning):
    """A stored chunk is damaged; its values are computed again."""


class _ChunkError(ValueError):
    """The file is not a chunk of this folder, or is damaged."""


_CHUNK = FileKind(format="cbid-descriptors", version=1, noun="chunk of descriptors", error=_ChunkError)


def width_of(value: Value) -> int:
    """Return the number of values in a row."""
    return int(value[0].shape[1] if isinstance(value, tuple) else value.shape[0])


class DescriptorCache:
    """A cache of descriptors in a folder, which is created when needed.

    Parameters
    ----------
    path : path
        The folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def open(self, descriptor: "Descriptor | LocalDescriptor") -> "CachedValues":
        """Return the values stored for the settings of one descriptor."""
        folder = self.path / descriptor.fingerprint()
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "settings.json").exists():  # for people; only the name of the folder is used
            with whole_file(folder / "settings.json") as temporary:
                temporary.write_text(json.dumps(descriptor.settings(), indent=1, sort_keys=True, default=str) + "\n")
        return CachedValues(folder)


class CachedValues:
    """Values of images by the digest of their content (16 bytes)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[Path] = []
        self._open: tuple[int, Arrays] | None = None  # the last chunk read
        self._pending: dict[bytes, Value] = {}
        self._pending_bytes, self._pending_since = 0, 0.0
        keys: list[NDArray[np.uint8]] = []
        for path in sorted(folder.iterdir()):
            if _TEMPORARY_CHUNK.fullmatch(path.name):
                _remove_abandoned(path)
            elif _CHUNK_NAME.fullmatch(path.name):  # files of others stay
                try:
                    found = _CHUNK.peek(path, "keys")
                    if found.dtype != np.uint8 or found.ndim != 2 or found.shape[1] != 16:
                        raise _ChunkError(f"{path} is damaged: its keys are missing")
                except (_ChunkError, OSError) as error:
                    _discard(path, error)
                    continue
                self._files.append(path)
                keys.append(found)
        self._starts = np.cumsum([0, *(len(k) for k in keys)])  # the first image of each chunk
        words = np.concatenate([*keys, np.empty((0, 16), np.uint8)]).view(np.uint64)  # (n, 2)
        self._order = np.argsort(words[:, 0], kind="stable")
        self._first, self._second = words[self._order].T.copy()

    def __len__(self) -> int:
        """Return the number of images, including those not written yet; an image may be counted twice."""
        return len(self._order) + len(self._pending)

    def get(self, key: bytes) -> Value | None:
        """Return the values stored for a digest, or None."""
        if key in self._pending:
            return self._pending[key]
        first, second = np.frombuffer(key, np.uint64)
        begin, end = (int(np.searchsorted(self._first, first, side)) for side in ("left", "right"))
        for at in range(begin, end):
            if self._second[at] == second:
                place = int(self._order[at])
                chunk = int(np.searchsorted(self._starts, place, "right")) - 1
                arrays = self._chunk(chunk)
                if arrays is not None:
                    return _value(arrays, place - int(self._starts[chunk]))
        return None

    def put(self, key: bytes, value: Value) -> None:
        """Store values; they are written when the chunk is full, or by ``commit``."""
        if self._pending and width_of(value) != width_of(next(iter(self._pending.values()))):
            self.commit()  # all values of a chunk have one width
        if not self._pending:
            self._pending_since = time.monotonic()
        self._pending[key] = value
        self._pending_bytes += sum(part.nbytes for part in value[:2]) if isinstance(value, tuple) else value.nbytes
        full = len(self._pending) >= _IMAGES or self._pending_bytes >= _BYTES
        if full or time.monotonic() - self._pending_since > _SECONDS:
            self.commit()

    def commit(self) -> None:
        """Write pending values as one chunk."""
        if not self._pending:
            return
        keys, values = list(self._pending), list(self._pending.values())
        arrays: Arrays = {"keys": np.frombuffer(b"".join(keys), np.uint8).reshape(-1, 16)}
        if isinstance(values[0], tuple):
            bags = Bags.from_list(*(list(part) for part in zip(*values)))
            arrays |= {name: getattr(bags, name) for name in ("values", "offsets", "frames", "shapes")}
        else:
            arrays["values"] = np.stack(values, dtype=np.float32)  # type: ignore[arg-type]
        # The same images give the same name, so that processes that describe the same images write the same file.
        name = digest_text(b"".join(keys))
        _CHUNK.write(self._folder / f"{name}.safetensors", {"shelf": self._folder.name}, arrays)
        self._pending, self._pending_bytes = {}, 0

    def _chunk(self, number: int) -> Arrays | None:
        """Return the arrays of a chunk, or None if it is damaged or was removed."""
        if self._open is None or self._open[0] != number:
            path = self._files[number]
            try:
                content, arrays = _CHUNK.read(path)
                if content != {"shelf": self._folder.name}:
                    raise _ChunkError(f"{path} belongs to another descriptor")
                n = int(self._starts[number + 1] - self._starts[number])
                if "offsets" in arrays:
                    fits = len(Bags(*(arrays[name] for name in ("values", "offsets", "frames", "shapes")))) == n
                else:
                    fits = arrays["values"].ndim == 2 and len(arrays["values"]) == n
                if not fits:
                    raise _ChunkError(f"{path} is damaged: it has more values than keys, or fewer")
            except (ValueError, KeyError, OSError) as error:
                _discard(path, error)
                arrays = {}
            self._open = number, arrays
        return self._open[1] or None


def _value(arrays: Arrays, row: int) -> Value:
    if "offsets" not in arrays:
        return arrays["values"][row]
    rows = slice(*arrays["offsets"][row : row + 2])
    height, width = arrays["shapes"][row].tolist()
    return arrays["values"][rows], arrays["frames"][rows], (height, width)


def _discard(path: Path, error: Exception) -> None:
    if isinstance(error, FileNotFoundError):  # another process removed it
        return
    warnings.warn(f"{error}; its values are computed again", CacheWarning, stacklevel=4)
    if not isinstance(error, OSError):
        path.unlink(missing_ok=True)


def _remove_abandoned(path: Path) -> None:
    try:
        if time.time() - path.stat().st_mtime > _ABANDONED:
            path.unlink()
    except FileNotFoundError:
        pass
