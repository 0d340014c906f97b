"""Retrieval metrics that do not depend on how ties are broken.

Hamming distances tie often, so a metric of a ranked list also measures the order of the database. Here items at one
distance are a group in random order, and the metric is the expectation over these orders
(McSherry and Najork, 2008: "Computing information retrieval performance measures efficiently in the presence of tied
scores").
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_integer

__all__ = ["average_precision", "average_precision_bounds", "mean_average_precision", "precision_at", "recall_at"]

Array = NDArray[np.float64]
_PAIRS = 2**23  # pairs of a query and an item, compared at a time
_FEW = 1024  # integer distances below this or the number of items are counted, not sorted


def average_precision(distances: ArrayLike, relevant: ArrayLike) -> Array:
    """Return the expected average precision of each query, (q,).

    Parameters
    ----------
    distances : array-like of shape (q, n)
        Small is near.
    relevant : array-like of bool, shape (q, n)
        A query without a relevant item has average precision NaN.
    """
    size, hits, before, hits_before = _groups(*_checked(distances, relevant))
    harmonic = _harmonic_numbers(size)
    # A group of N items, R of them relevant, follows `before` items, `hits_before` of them relevant. Its item i is
    # relevant with probability R / N, and then hits_before + 1 + (i - 1) (R - 1) / (N - 1) relevant items are ranked
    # up to it. Summed over i, the expected precisions are a harmonic sum.
    slope = np.divide(hits - 1, size - 1, out=np.zeros_like(size), where=size > 1)
    tail = harmonic[(before + size).astype(int)] - harmonic[before.astype(int)]
    share = np.divide(hits, size, out=np.zeros_like(size), where=size > 0)
    expected = share * (slope * size + (hits_before + 1 - slope * (before + 1)) * tail)
    return _per_relevant(expected, hits)


def average_precision_bounds(distances: ArrayLike, relevant: ArrayLike) -> tuple[Array, Array]:
    """Return the least and largest average precision of each query over all orders of tied items, (q,) and (q,).

    The arguments are those of ``average_precision``, which lies between the two. They are equal if no relevant item
    ties with an irrelevant one.
    """
    size, hits, before, hits_before = _groups(*_checked(distances, relevant))
    harmonic = _harmonic_numbers(size)

    def after(first: Array) -> Array:
        # The relevant items of a group in a row, after ``first`` items: the j-th of them has precision
        # (hits_before + j) / (first + j) = 1 + (hits_before - first) / (first + j).
        sums = harmonic[(first + hits).astype(int)] - harmonic[first.astype(int)]
        return _per_relevant(hits + (hits_before - first) * sums, hits)

    return after(before + size - hits), after(before)


def precision_at(distances: ArrayLike, relevant: ArrayLike, k: int) -> Array:
    """Return the expected share of relevant items among the k nearest of each query, (q,)."""
    return _found_at(distances, relevant, k)[0] / k


def recall_at(distances: ArrayLike, relevant: ArrayLike, k: int) -> Array:
    """Return the expected share of a query's relevant items among its k nearest, (q,); NaN if it has none."""
    found, total = _found_at(distances, relevant, k)
    return np.divide(found, total, out=np.full(len(total), np.nan), where=total > 0)


def mean_average_precision(
    queries: ArrayLike, query_labels: ArrayLike, database: ArrayLike, labels: ArrayLike, *, weights: ArrayLike = 1.0
) -> float:
    """Return the mean over queries of the average precision under (weighted) Hamming distance.

    An item is relevant if it has the label of the query.

    Parameters
    ----------
    queries, database : array-like of shape (q, t) and (n, t)
        Bits in -1/+1, as ``transform`` returns them.
    query_labels, labels : array-like of shape (q,) and (n,)
        Their labels.
    weights : array-like of shape (t,), default=1
        Weights of the bits; 1 stands for plain Hamming distance.
    """
    Q, B = _bits("queries", queries), _bits("database", database)
    n_bits = Q.shape[1]
    if B.shape[1] != n_bits:
        raise ValueError(f"queries have {n_bits} bits, database {B.shape[1]}: expected codes of one length")
    wanted, labels = _labels("query_labels", query_labels, len(Q)), _labels("labels", labels, len(B))
    w = np.asarray(weights, dtype=np.float64)
    plain = w.ndim == 0
    if w.shape not in ((), (n_bits,)) or not np.isfinite(w).all():
        raise ValueError(f"weights {w.shape}: expected {n_bits} finite numbers, one for each bit, or 1")
    w = np.broadcast_to(w, n_bits)
    w = w / (w.sum() or 1.0)
    found = []
    step = max(1, _PAIRS // max(len(B), 1))
    for start in range(0, len(Q), step):
        part = slice(start, start + step)
        if plain:  # integers, which need no sorting
            distances = ((n_bits - Q[part] @ B.T) / 2).astype(np.int32)
        else:
            # Rounded: distances that differ in the last digit of a sum are ties.
            distances = np.round((1 - (Q[part] * w) @ B.T) / 2, 12)
        found.append(average_precision(distances, wanted[part, None] == labels))
    return float(np.nanmean(np.concatenate(found)))


def _bits(name: str, bits: ArrayLike) -> NDArray[np.float32]:
    """Check codes (n, t) in -1/+1; bits in 0/1 or packed codes would give wrong figures without an error."""
    found = np.asarray(bits)
    if found.ndim != 2 or not found.size:
        raise ValueError(f"{name} {found.shape}: expected (n, t), at least one code of one bit")
    if found.dtype.kind not in "if" or not np.all(np.abs(found) == 1):
        raise ValueError(
            f"{name} of type {found.dtype}: expected bits in -1/+1, as transform returns them; use cbid.codes.unpack "
            "for packed codes, 2 * b - 1 for bits in 0/1"
        )
    return found.astype(np.float32)


def _labels(name: str, labels: ArrayLike, n: int) -> NDArray[Any]:
    found = np.asarray(labels)
    if found.shape != (n,):
        raise ValueError(f"{name} {found.shape}: expected ({n},), one for each code")
    return found


def _found_at(distances: ArrayLike, relevant: ArrayLike, k: int) -> tuple[Array, Array]:
    """Return the expected number of relevant items among the k nearest, and the number of all, (q,) and (q,)."""
    checked = _checked(distances, relevant)
    check_integer("k", k, 1, checked[0].shape[1])
    size, hits, before, _ = _groups(*checked)
    taken = np.clip(k - before, 0, size)  # how many items of each group are among the first k
    return np.sum(np.divide(hits * taken, size, out=np.zeros_like(size), where=size > 0), axis=1), hits.sum(axis=1)


def _harmonic_numbers(size: Array) -> Array:
    """Return 0, 1, 1 + 1/2, ... up to the largest number of items of a query."""
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, int(size.sum(axis=1).max(initial=0)) + 1))])


def _per_relevant(sums: Array, hits: Array) -> Array:
    """Return the mean over the relevant items of each query, (q,), from sums of precisions (q, groups)."""
    total = hits.sum(axis=1)
    return np.divide(sums.sum(axis=1), total, out=np.full(len(total), np.nan), where=total > 0)


def _checked(distances: ArrayLike, relevant: ArrayLike) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    d, r = np.asarray(distances), np.asarray(relevant, dtype=bool)
    if d.ndim != 2 or d.shape != r.shape:
        raise ValueError(f"distances {d.shape}, relevant {r.shape}: expected two arrays (queries, items)")
    if d.dtype.kind == "f" and np.isnan(d).any():
        raise ValueError("distances: expected numbers, found NaN")
    return d, r


def _groups(distances: NDArray[Any], relevant: NDArray[np.bool_]) -> tuple[Array, Array, Array, Array]:
    """Return, per query and distance (q, groups): items, relevant items, and both counts over nearer groups.

    A group may be empty. Hamming distances number the groups; other distances are ranked first.
    """
    q, n = distances.shape
    if distances.dtype.kind in "iu" and distances.min(initial=0) >= 0 and distances.max(initial=0) < max(n, _FEW):
        group, found = distances.astype(np.int64), relevant  # small types would overflow below
    else:
        group, found = _ranked(distances, relevant)
    width = int(group.max(initial=-1)) + 1
    flat = (np.arange(q)[:, None] * width + group).ravel()

    def count(groups: NDArray[np.int64]) -> Array:
        return np.bincount(groups, minlength=q * width).reshape(q, width).astype(np.float64)

    size, hits = count(flat), count(flat[found.ravel()])
    return size, hits, np.cumsum(size, axis=1) - size, np.cumsum(hits, axis=1) - hits


def _ranked(distances: NDArray[Any], relevant: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Sort items by distance; return the number of their group, equal for equal distances, and their relevance."""
    order = np.argsort(distances, axis=1, kind="stable")
    ordered = np.take_along_axis(distances, order, axis=1)
    group = np.zeros(distances.shape, dtype=np.int64)
    np.cumsum(ordered[:, 1:] > ordered[:, :-1], axis=1, out=group[:, 1:])
    return group, np.take_along_axis(relevant, order, axis=1)
