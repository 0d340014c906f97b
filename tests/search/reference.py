"""What an index must answer, by brute force: the oracle of the tests here."""

import numpy as np


def random_codes(rng, n, n_bits):
    return np.packbits(rng.integers(0, 2, (n, n_bits), dtype=np.uint8).reshape(n, n_bits), axis=1)


def distances(codes, queries, n_bits, weights=None, classes=None):
    """(q, n) distances sum_s w_s [bit s differs], in float32.

    ``weights``: None, (t,), (q, t), or with ``classes`` (n,), the column of each stored code, (t, n_classes).
    """
    stored = np.unpackbits(codes, axis=1, count=n_bits).astype(np.float64)  # (n, t)
    asked = np.unpackbits(queries, axis=1, count=n_bits).astype(np.float64)  # (q, t)
    if classes is not None:
        table = np.zeros((len(asked), len(stored)))
        for c in np.unique(classes):
            table[:, classes == c] = distances(codes[classes == c], queries, n_bits, np.asarray(weights)[:, c])
        return table.astype(np.float32)
    w = np.ones(n_bits) if weights is None else np.asarray(weights, dtype=np.float64)
    return ((w * asked) @ (1 - stored).T + (w * (1 - asked)) @ stored.T).astype(np.float32)


def nearest(ids, table, k):
    """Ids and distances (q, k) of the k nearest in each row of ``table`` (q, n), ties by smaller id."""
    found_ids = np.full((len(table), k), -1, dtype=np.int64)
    found = np.full((len(table), k), np.inf, dtype=np.float32)
    for row, d in enumerate(table):
        order = np.lexsort((ids, d))[:k]
        found_ids[row, : len(order)] = np.asarray(ids)[order]
        found[row, : len(order)] = d[order]
    return found_ids, found
