"""BLAKE2b digests: one function for bytes, one for files, one for arrays and JSON values.

Digests are stored in indexes, caches, models and plans. A change of what a function hashes invalidates them.
"""

import hashlib
import json
import os
from typing import Any

import numpy as np

from cbid.storage.atomic import check_regular

_SIZE = 16
_CHUNK = 1 << 24


def new_digest(content: bytes = b"", person: bytes = b"") -> "hashlib.blake2b":
    """Start a 16-byte digest that is updated in steps; ``person`` separates digests of different purposes."""
    return hashlib.blake2b(content, digest_size=_SIZE, person=person)


def digest_bytes(content: bytes, size: int = _SIZE) -> bytes:
    """Return the digest of ``content`` as ``size`` bytes."""
    return hashlib.blake2b(content, digest_size=size).digest()


def digest_text(content: str | bytes, size: int = _SIZE) -> str:
    """Return the digest of a text (as UTF-8) or bytes as ``2 * size`` hexadecimal digits."""
    return digest_bytes(content.encode() if isinstance(content, str) else content, size).hex()


def digest_file(path: str | os.PathLike[str]) -> str:
    """Return the digest of a file's content, read in chunks."""
    check_regular(path)
    digest = new_digest()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def digest_of(*values: Any) -> str:
    """Return one digest of arrays (with type and shape) and JSON values."""
    digest = new_digest()
    for value in values:
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype.str} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data)
        else:
            digest.update(json.dumps(value, sort_keys=True, default=str).encode())
    return digest.hexdigest()
