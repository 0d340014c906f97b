"""Descriptors stored once: found again by the content of the image and the settings of the descriptor.

A cache is a folder with one folder (a shelf) for each fingerprint of a descriptor. A shelf holds chunks: safetensors
files with the values of up to 256 images and the digests of their contents, each written whole and with a checksum
(``cbid.storage.tensors``). There is no other index to get out of step: a file exists or not, so a kill loses the
chunk that was not written yet, and any number of processes may read and write at once.
"""

import json
import os
import time
import warnings
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cbid.bags import Bags
from cbid.descriptors.gather import Value, width_of
from cbid.storage.atomic import whole_file
from cbid.storage.digests import digest_text
from cbid.storage.tensors import Arrays, FileKind

__all__ = ["CacheWarning", "DescriptorCache", "Shelf"]

_IMAGES, _BYTES, _SECONDS = 256, 16 * 2**20, 30.0  # a chunk is written when it reaches one of these
_ABANDONED = 3600.0  # seconds after which a file half written belongs to nobody


class CacheWarning(UserWarning):
    """A stored chunk is damaged; what it held is computed again."""


class _ChunkError(ValueError):
    """The file is no chunk of this shelf, or not a whole and unaltered one."""


_CHUNK = FileKind(format="cbid-descriptors", version=1, noun="chunk of descriptors", error=_ChunkError)


class _Named(Protocol):
    def fingerprint(self) -> str: ...

    def settings(self) -> dict[str, Any]: ...


class DescriptorCache:
    """The cache in a folder, which is made when needed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def shelf(self, descriptor: _Named) -> "Shelf":
        """What is stored for the settings of one descriptor."""
        folder = self.path / descriptor.fingerprint()
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "settings.json").exists():  # for people; the name of the folder is what counts
            with whole_file(folder / "settings.json") as temporary:
                temporary.write_text(json.dumps(descriptor.settings(), indent=1, sort_keys=True, default=str) + "\n")
        return Shelf(folder)


class Shelf:
    """Values of images under the digests of their contents (16 bytes each)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[Path] = []
        self._open: tuple[int, Arrays] | None = None  # the chunk that was read last
        self._pending: dict[bytes, Value] = {}
        self._pending_bytes, self._pending_since = 0, 0.0
        keys: list[NDArray[np.uint8]] = []
        for path in sorted(folder.iterdir()):
            if path.suffix == ".tmp":
                _remove_abandoned(path)
            elif path.suffix == ".safetensors":
                try:
                    found = _CHUNK.peek(path, "keys")
                    if found.dtype != np.uint8 or found.ndim != 2 or found.shape[1] != 16:
                        raise _ChunkError(f"{path} is damaged: it has no keys")
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
        """The number of images, those not yet written included; one may be counted twice."""
        return len(self._order) + len(self._pending)

    def get(self, key: bytes) -> Value | None:
        """The values stored under a digest, or None."""
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
        """Store values; they are on the disk after ``commit``, or once the chunk is full."""
        if self._pending and width_of(value) != width_of(next(iter(self._pending.values()))):
            self.commit()  # one chunk, one width
        if not self._pending:
            self._pending_since = time.monotonic()
        self._pending[key] = value
        self._pending_bytes += sum(part.nbytes for part in value[:2]) if isinstance(value, tuple) else value.nbytes
        full = len(self._pending) >= _IMAGES or self._pending_bytes >= _BYTES
        if full or time.monotonic() - self._pending_since > _SECONDS:
            self.commit()

    def commit(self) -> None:
        """Write what is not on the disk yet, as one chunk."""
        if not self._pending:
            return
        keys, values = list(self._pending), list(self._pending.values())
        arrays: Arrays = {"keys": np.frombuffer(b"".join(keys), np.uint8).reshape(-1, 16)}
        if isinstance(values[0], tuple):
            bags = Bags.from_list(*(list(part) for part in zip(*values)))
            arrays |= {name: getattr(bags, name) for name in ("values", "offsets", "frames", "shapes")}
        else:
            arrays["values"] = np.stack(values, dtype=np.float32)  # type: ignore[arg-type]
        # The same images give the same name: whoever else computed them has written the same.
        name = digest_text(b"".join(keys))
        _CHUNK.write(self._folder / f"{name}.safetensors", {"shelf": self._folder.name}, arrays)
        self._pending, self._pending_bytes = {}, 0

    def _chunk(self, number: int) -> Arrays | None:
        """The arrays of a chunk, or None if it is damaged or gone."""
        if self._open is None or self._open[0] != number:
            path = self._files[number]
            try:
                content, arrays = _CHUNK.read(path)
                if content != {"shelf": self._folder.name}:
                    raise _ChunkError(f"{path} belongs to another shelf")
                n = int(self._starts[number + 1] - self._starts[number])
                if "offsets" in arrays:
                    fits = len(Bags(*(arrays[name] for name in ("values", "offsets", "frames", "shapes")))) == n
                else:
                    fits = arrays["values"].ndim == 2 and len(arrays["values"]) == n
                if not fits:
                    raise _ChunkError(f"{path} is damaged: values and keys do not fit together")
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
    if isinstance(error, FileNotFoundError):  # another process was first
        return
    warnings.warn(f"{error}; what it held is computed again", CacheWarning, stacklevel=4)
    if not isinstance(error, OSError):
        path.unlink(missing_ok=True)


def _remove_abandoned(path: Path) -> None:
    try:
        if time.time() - path.stat().st_mtime > _ABANDONED:
            path.unlink()
    except FileNotFoundError:
        pass
