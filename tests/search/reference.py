"""The scan kernels said plainly in numpy: the oracle that the index and the kernels are checked against."""

import numpy as np
from numpy.typing import NDArray


def distances(
    codes: NDArray[np.uint8], queries: NDArray[np.uint8], n_bits: int, weights: NDArray[np.floating] | None = None
) -> NDArray[np.float64]:
    """(q, n) distances sum_s w_s [bit s differs]; ``weights`` None, (t,), (q, t), or (n, q, t) for one vector
    per stored code and query."""
    stored = np.unpackbits(codes, axis=1, count=n_bits).astype(bool)  # (n, t)
    asked = np.unpackbits(queries, axis=1, count=n_bits).astype(bool)  # (q, t)
    differ = stored[None] != asked[:, None]  # (q, n, t)
    if weights is None:
        return differ.sum(axis=2).astype(np.float64)
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim == 1:
        return differ @ weights
    if weights.ndim == 2:
        return np.einsum("qnt,qt->qn", differ, weights)
    return np.einsum("qnt,nqt->qn", differ, weights)


def nearest(
    ids: NDArray[np.int64], table: NDArray[np.floating], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k nearest of each row of ``table`` (q, n), ties by smaller id; missing: id -1, distance inf."""
    table = np.asarray(table, dtype=np.float32)
    found_ids = np.full((len(table), k), -1, dtype=np.int64)
    found = np.full((len(table), k), np.inf, dtype=np.float32)
    for row, d in enumerate(table):
        order = np.lexsort((ids, d))[:k]
        found_ids[row, : len(order)] = ids[order]
        found[row, : len(order)] = d[order]
    return found_ids, found
