"""What an index must answer, by brute force: the oracle of the tests here."""

import numpy as np


def random_codes(rng, n, n_bits):
    return np.packbits(rng.integers(0, 2, (n, n_bits), dtype=np.uint8).reshape(n, n_bits), axis=1)


def distances(codes, queries, n_bits, weights=None, classes=None):
    """(q, n) distances sum_s w_s [bit s differs], in float32.

    ``weights``: None, (t,), (q, t), or with ``classes`` (n,), the column of each stored code, (t, n_classes).
    """
    stored = np.unpackbits(codes, axis=1, count=n_bits).astype(bool)  # (n, t)
    asked = np.unpackbits(queries, axis=1, count=n_bits).astype(bool)  # (q, t)
    differ = (stored[None] != asked[:, None]).astype(np.float64)  # (q, n, t)
    if weights is None:
        table = differ.sum(axis=2)
    elif classes is not None:
        table = np.einsum("qnt,tn->qn", differ, np.asarray(weights)[:, classes])
    else:
        table = np.einsum("qnt,qt->qn", differ, np.broadcast_to(weights, (len(asked), n_bits)))
    return table.astype(np.float32)


def nearest(ids, table, k):
    """Ids and distances (q, k) of the k nearest in each row of ``table`` (q, n), ties by smaller id."""
    found_ids = np.full((len(table), k), -1, dtype=np.int64)
    found = np.full((len(table), k), np.inf, dtype=np.float32)
    for row, d in enumerate(table):
        order = np.lexsort((ids, d))[:k]
        found_ids[row, : len(order)] = np.asarray(ids)[order]
        found[row, : len(order)] = d[order]
    return found_ids, found
