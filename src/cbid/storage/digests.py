"""Digests that tell whether two runs are about the same."""

import hashlib
import json
from typing import Any

import numpy as np

from cbid.coders.base import Coder

__all__ = ["coder_digest", "digest_of"]


def digest_of(*values: Any) -> str:
    """A digest of arrays (with type and shape), and of what JSON can hold."""
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype.str} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data)
        else:
            digest.update(json.dumps(value, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def coder_digest(coder: Coder) -> str:
    """A digest of what codes depend on: the kind of the coder, its settings and what it learned."""
    state, arrays = coder._parts_to_save()
    params = {k: v for k, v in state["params"].items() if k not in ("n_jobs", "verbose")}
    learned = [part for name in sorted(arrays) for part in (name, arrays[name])]
    return digest_of(type(coder).__name__, {**state, "params": params}, *learned)
