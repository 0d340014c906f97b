"""Small problems that several test files use."""

import numpy as np

from cbid.learning.margins import Columns
from cbid.learning.neighbourhoods import find_neighbourhoods
from cbid.learning.rows import rows_from_classes, rows_from_neighbourhoods


def blobs(n=60, d=3, k=3, seed=0):
    """Overlapping classes: (X float32, y)."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return (rng.standard_normal((n, d)) + 1.2 * rng.standard_normal((k, d))[y]).astype(np.float32), y


def make_rows(X, y, triplets="mean", hits="nearest", n_hits=3, n_misses=2):
    k = int(y.max()) + 1
    rng = np.random.default_rng(0)
    if hits == "whole":
        return rows_from_classes(y, n_classes=k, max_rows=10**6, rng=rng)
    near = find_neighbourhoods(
        X, y, n_hits=n_hits, n_misses=n_misses, hits=hits, misses=hits, max_rows=10**6, rng=rng
    )
    return rows_from_neighbourhoods(near, y, triplets=triplets, n_classes=k)


def random_bits(n, t, seed=0):
    return np.random.default_rng(seed).choice(np.float32([-1, 1]), size=(t, n))


def columns_with_bits(rows, margin, H):
    columns = Columns(rows, margin, len(H))
    for h in H:
        columns.append(h)
    return columns


def textbook_distance(h, i, members):
    """Mean |h_i - h_j|, one pair at a time."""
    return float(np.mean([abs(float(h[i]) - float(h[j])) for j in members]))


def textbook_margins(H, W, rows_as_lists, margin):
    """rho of every row by the table of docs/method.md, section 3, one row, one bit and one pair at a time."""
    rho = []
    for i, hits, misses, y, r in rows_as_lists:
        total = 0.0
        for s, h in enumerate(H):
            far, near = textbook_distance(h, i, misses), textbook_distance(h, i, hits)
            if margin == "shared":
                total += W[s, 0] * (far - near)
            elif margin == "class":
                total += W[s, y] * (far - near)
            elif margin == "paper":
                total += (W[s, y] - W[s, r]) * (far - near)
            else:
                total += W[s, r] * far - W[s, y] * near
        rho.append(total)
    return np.array(rho)
