"""Which images are learned from and which are held out."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cbid.storage.digests import digest_bytes

__all__ = ["ADDED", "HELD_OUT", "TRAIN", "split"]

TRAIN, HELD_OUT, ADDED = "train", "held-out", "added"
_LEAST = 2  # of each class to learn from: one alone has none to be near to


def split(
    names: Sequence[str], labels: Sequence[str | None], share: float, seed: int, *, supervised: bool
) -> NDArray[np.str_]:
    """The part of each image, (n,): "train", "held-out", or "added" for what can be neither.

    Of each class the same share is held out, never so much that fewer than two are left. Which ones is drawn by a
    digest of seed and name: a class that grows keeps most of its split. With ``supervised``, images without a label
    and classes of one image cannot be learned from: they are "added".
    """
    draw = np.array([_draw(name, seed) for name in names], dtype=np.uint64)
    known = sorted({label for label in labels if label is not None})
    place = {label: i for i, label in enumerate(known)}
    classes = np.array([-1 if label is None else place[label] for label in labels], dtype=np.int64)
    parts = np.full(len(names), TRAIN, dtype="<U8")
    if not supervised:
        classes[:] = 0
    parts[classes < 0] = ADDED
    for number in np.unique(classes[classes >= 0]):
        members = np.flatnonzero(classes == number)
        if supervised and len(members) < _LEAST:
            parts[members] = ADDED
            continue
        count = 0 if share == 0 else max(1, round(share * len(members)))
        count = min(count, max(0, len(members) - _LEAST))
        parts[members[np.argsort(draw[members], kind="stable")[:count]]] = HELD_OUT
    return parts


def _draw(name: str, seed: int) -> int:
    return int.from_bytes(digest_bytes(f"{seed}\n{name}".encode(errors="surrogateescape"), size=8), "little")
