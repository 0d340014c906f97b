"""Send an index to a store: write what differs, and remove what the index no longer has."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cbid.progress import image_progress
from cbid.search.index import CodeIndex
from cbid.search.stores.milvus import MilvusStore
from cbid.search.stores.milvus_connection import MilvusAddress

_BATCH = 10_000
_KINDS = {"U": "str", "i": "int", "b": "bool"}


class Sent(NamedTuple):
    """How many codes were added, replaced, removed, and unchanged."""

    added: int
    changed: int
    removed: int
    same: int


def index_to(
    index: CodeIndex,
    address: str | MilvusAddress,
    *,
    weights: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    made_by: str = "",
    overwrite: bool = False,
    token: str | None = None,
    timeout: float = 30.0,
    verbose: int = 0,
) -> Sent:
    """Make a Milvus collection hold the codes, ids, labels and weights of an index.

    A missing collection is created. Repeat an interrupted call: codes that are already there are not sent again.

    Parameters
    ----------
    index : CodeIndex
    address : str or MilvusAddress
        Such as ``milvus://host:port/collection``; see `MilvusStore`.
    weights, classes : array-like, default=None
        Used instead of the weights of the index; weights per class need classes.
    overwrite : bool, default=False
        Drop an existing collection of another code length, other weights, another kind of labels or another
        ``made_by``; otherwise these raise ValueError.
    made_by, token, timeout
        As in `MilvusStore.create`.
    verbose : int, default=0
        Show progress.
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
            for start in range(0, len(ids), _BATCH):
                part = ids[start : start + _BATCH]
                codes = index.reconstruct(part)
                names = None if labels is None else labels[start : start + _BATCH]
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
