"""From an index to a collection: what differs is written, what is gone is removed."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cbid.progress import image_progress
from cbid.search import CodeIndex
from cbid.search.milvus.address import Address
from cbid.search.milvus.store import MilvusStore

__all__ = ["Sent", "index_to"]

_AT_A_TIME = 10_000
_KINDS = {"U": "str", "i": "int", "b": "bool"}


class Sent(NamedTuple):
    """How many codes were stored anew, stored in the place of others, removed, and there already as they are."""

    added: int
    changed: int
    removed: int
    same: int


def index_to(
    index: CodeIndex,
    address: str | Address,
    *,
    weights: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    made_by: str = "",
    overwrite: bool = False,
    token: str | None = None,
    timeout: float = 30.0,
    verbose: int = 0,
) -> Sent:
    """Have a Milvus collection hold what an index holds: codes, ids, labels and weights.

    The collection is created if there is none. One of another code length, other weights, other labels or another
    ``made_by`` is an error, unless ``overwrite``: then such a one, and no other, is dropped first. Repeat a call that
    was stopped: what is there already is not sent again.

    weights, classes : in the place of the index's own weights; classes are needed where these are one for each class
    made_by, token, timeout : as in `MilvusStore.create`
    """
    ids, labels = index.ids, index.labels
    added = changed = 0
    with MilvusStore.create(
        address,
        index.n_bits,
        index.weights if weights is None else weights,
        classes=classes,
        labels=None if labels is None else _KINDS[labels.dtype.kind],
        made_by=made_by,
        exist_ok=True,
        overwrite=overwrite,
        token=token,
        timeout=timeout,
    ) as store:
        with image_progress(len(ids), "codes", shown=bool(verbose)) as progress:
            for start in range(0, len(ids), _AT_A_TIME):
                part = ids[start : start + _AT_A_TIME]
                codes = index.reconstruct(part)
                names = None if labels is None else labels[start : start + _AT_A_TIME]
                stored = store.stored(part)
                known = np.isin(part, stored.ids)
                same = known.copy()
                same[known] = (stored.codes == codes[known]).all(axis=1)
                if names is not None:
                    same[known] &= stored.labels == names[known]
                store.upsert(codes[~same], part[~same], None if names is None else names[~same])
                added += int(np.count_nonzero(~known))
                changed += int(np.count_nonzero(known & ~same))
                progress(len(part))
        gone = np.setdiff1d(store.ids, ids)
        store.remove(gone)
        store.flush()
    return Sent(added, changed, len(gone), len(ids) - added - changed)
