"""Metrics of rankings: average precision, precision and recall at k, and those of graded relevance.

They do not depend on how ties are broken. Hamming distances tie often, so a metric of a ranked list also measures the
order of the database. Here items at one distance are a group in random order, and the metric is the expectation over
these orders (McSherry and Najork, 2008: "Computing information retrieval performance measures efficiently in the
presence of tied scores").
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_choice, check_integer
from cbid.evaluation.gains import label_matrices
from cbid.labels import are_label_sets

Array = NDArray[np.float64]
_PAIRS = 2**23  # pairs of a query and an item, compared at a time
_FEW = 1024  # integer distances below this or the number of items are counted, not sorted
_LARGEST_GRADE = 1_000  # 2 to this power, summed over many items, is still finite


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

    The arguments are those of ``average_precision``, which is between the two. They are equal if no relevant item
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
    return _ratio(*_found_at(distances, relevant, k))


def neighbour_recall(distances: ArrayLike, original: ArrayLike, k: int) -> Array:
    """Return the expected share of the k nearest by ``original`` that are among the k nearest by ``distances``, (q,).

    Parameters
    ----------
    distances, original : array-like of shape (q, n)
        Distances by code and in the original space. Of items at one original distance the first counts as nearer.
    k : int
    """
    given = np.asarray(original)
    if given.ndim != 2 or given.shape != np.shape(distances):
        raise ValueError(f"original {given.shape}: expected the shape of distances, {np.shape(distances)}")
    check_integer("k", k, 1, given.shape[1])
    nearest = np.zeros(given.shape, dtype=bool)
    np.put_along_axis(nearest, np.argsort(given, axis=1, kind="stable")[:, :k], True, axis=1)
    return precision_at(distances, nearest, k)


def mean_average_precision(
    queries: ArrayLike, query_labels: Any, database: ArrayLike, labels: Any, *, weights: ArrayLike = 1.0
) -> float:
    """Return the mean over queries of the average precision under (weighted) Hamming distance.

    An item is relevant if it has the label of the query, or at least one of its labels.

    Parameters
    ----------
    queries, database : array-like of shape (q, t) and (n, t)
        Bits in -1/+1, as ``transform`` returns them.
    query_labels, labels : array-like of shape (q,) and (n,)
        Their labels. Several for each: 0/1 matrices (q, labels) and (n, labels), dense or sparse, or lists of lists
        or sets.
    weights : array-like of shape (t,), default=1
        Weights of the bits; 1 means plain Hamming distance.
    """
    Q, B = _bits("queries", queries), _bits("database", database)
    n_bits = Q.shape[1]
    if B.shape[1] != n_bits:
        raise ValueError(f"queries have {n_bits} bits, database {B.shape[1]}: expected codes of one length")
    relevant = _relevance(query_labels, len(Q), labels, len(B))
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
        found.append(average_precision(distances, relevant(part)))
    return float(np.nanmean(np.concatenate(found)))


def acg_at(distances: ArrayLike, gains: ArrayLike, k: int) -> Array:
    """Return the expected mean gain of the k nearest of each query (average cumulative gain), (q,).

    Parameters
    ----------
    distances : array-like of shape (q, n)
        Small is near.
    gains : array-like of shape (q, n)
        Relevance of each item, at least 0: usually the number of labels that it shares with the query
        (`shared_labels`).
    k : int
    """
    d, g = _checked_gains(distances, gains, k)
    return _expected_gain(d, g, np.arange(k + 1) / k)


def ndcg_at(distances: ArrayLike, gains: ArrayLike, k: int, *, gain: str = "exponential") -> Array:
    """Return the expected normalised discounted cumulative gain of the k nearest of each query, (q,).

    The sum over the places i = 1..k of f(gain) / log2(i + 1), divided by the sum of the best possible order.

    Parameters
    ----------
    distances, gains : array-like of shape (q, n)
        See `acg_at`. A query whose gains are all 0 has NaN.
    k : int
    gain : {"exponential", "linear"}, default="exponential"
        f(r) = 2^r - 1, usual for hashing, or f(r) = r, as in scikit-learn's ``ndcg_score``.
    """
    check_choice("gain", gain, ("exponential", "linear"))
    d, g = _checked_gains(distances, gains, k)
    if gain == "exponential":
        if g.max(initial=0) > _LARGEST_GRADE:
            raise ValueError(f"gains holds {g.max():g}: expected at most {_LARGEST_GRADE:,} with gain='exponential'")
        g = np.exp2(g) - 1
    discount = 1 / np.log2(np.arange(2, k + 2))
    found = _expected_gain(d, g, np.concatenate([[0.0], np.cumsum(discount)]))
    return _ratio(found, _best(g, k) @ discount)


def weighted_average_precision(distances: ArrayLike, gains: ArrayLike) -> Array:
    """Return the expected weighted average precision of each query, (q,).

    The mean over the items with a gain above 0 of the average cumulative gain (`acg_at`) at their place. With gains 0
    and 1 it is `average_precision`; with other gains it may exceed 1.

    Parameters
    ----------
    distances, gains : array-like of shape (q, n)
        See `acg_at`. A query whose gains are all 0 has NaN.
    """
    d, g = _checked_gains(distances, gains)
    d, relevant, g = _in_groups(d, g > 0, g)
    size, hits, total = _counts(d, None), _counts(d, relevant), _counts(d, g)
    before, gain_before = np.cumsum(size, axis=1) - size, np.cumsum(total, axis=1) - total
    harmonic = _harmonic_numbers(size)
    # A group of N items, R of them relevant, with the gains S together, follows items with the gains G. Its item i is
    # relevant with probability R / N. Then G, its own gain and the gains of the i - 1 items before it count, which
    # are R G / N, S / N and (i - 1) (R - 1) S / (N (N - 1)) in expectation. Summed over i: a harmonic sum.
    share, own = (np.divide(a, size, out=np.zeros_like(size), where=size > 0) for a in (hits, total))
    slope = np.divide((hits - 1) * own, size - 1, out=np.zeros_like(size), where=size > 1)
    tail = harmonic[(before + size).astype(int)] - harmonic[before.astype(int)]
    return _per_relevant(slope * size + (share * gain_before + own - slope * (before + 1)) * tail, hits)


def hierarchical_precision_at(distances: ArrayLike, similarity: ArrayLike, k: int) -> Array:
    """Return the expected hierarchical precision at k of each query, (q,).

    The similarity of the k nearest to the query, summed, divided by the largest sum that k items can have (Deng, Berg
    and Fei-Fei, 2011).

    Parameters
    ----------
    distances : array-like of shape (q, n)
        Small is near.
    similarity : array-like of shape (q, n)
        At least 0: how near the labels are in a tree. A query that is similar to nothing has NaN.
    k : int
    """
    d, s = _checked_gains(distances, similarity, k, name="similarity")
    return _ratio(_expected_gain(d, s, np.arange(k + 1.0)), _best(s, k).sum(axis=1))


def average_hierarchical_precision(distances: ArrayLike, similarity: ArrayLike, k: int) -> Array:
    """Return the mean of the expected hierarchical precision at 1 to k of each query, (q,).

    Its mean over queries is mAHP at k (Barz and Denzler, 2019, who use k = 250).

    Parameters
    ----------
    distances, similarity, k
        See `hierarchical_precision_at`.
    """
    d, s = _checked_gains(distances, similarity, k, name="similarity")
    best = np.cumsum(_best(s, k), axis=1)
    # The item at place i counts in the precisions at i to k, so its factor is the sum of 1 / best over these.
    factors = np.divide(1.0, best, out=np.zeros_like(best), where=best > 0)[:, ::-1].cumsum(axis=1)[:, ::-1] / k
    found = _expected_gain(d, s, np.pad(factors.cumsum(axis=1), ((0, 0), (1, 0))))
    return np.where(best[:, -1] > 0, found, np.nan)


def _checked(
    distances: ArrayLike, values: ArrayLike, name: str = "relevant", dtype: type = bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return distances and values, both (q, n), as arrays."""
    d: NDArray[Any] = np.asarray(distances)
    v: NDArray[Any] = np.asarray(values, dtype=dtype)
    if d.ndim != 2 or d.shape != v.shape:
        raise ValueError(f"distances {d.shape}, {name} {v.shape}: expected two arrays (queries, items)")
    if d.dtype.kind == "f" and np.isnan(d).any():
        raise ValueError("distances: expected numbers, found NaN")
    return d, v


def _checked_gains(
    distances: ArrayLike, gains: ArrayLike, k: int = 1, *, name: str = "gains"
) -> tuple[NDArray[Any], Array]:
    d, g = _checked(distances, gains, name, np.float64)
    if not np.all(np.isfinite(g) & (g >= 0)):
        raise ValueError(f"{name}: expected finite numbers of at least 0")
    check_integer("k", k, 1, d.shape[1])
    return d, g


def _expected_gain(distances: NDArray[Any], gains: Array, cumulative: Array) -> Array:
    """Return the expected sum over the places i of gain times factor, from the sums of the first i factors.

    ``cumulative`` is (k + 1,) or (q, k + 1), starting with 0. Places after k have factor 0.
    """
    group, gains = _in_groups(distances, gains)
    size, total = _counts(group, None), _counts(group, gains)
    ends = np.cumsum(size, axis=1).astype(np.int64)
    last = cumulative.shape[-1] - 1
    rows = np.arange(len(ends))[:, None]
    cumulative = np.broadcast_to(cumulative, (len(ends), last + 1))
    factors = np.diff(cumulative[rows, np.minimum(ends, last)], axis=1, prepend=0.0)
    return np.sum(np.divide(total, size, out=np.zeros_like(size), where=size > 0) * factors, axis=1)


def _best(gains: Array, k: int) -> Array:
    """Return the k largest gains of each query, descending, (q, k)."""
    return -np.sort(np.partition(-gains, k - 1, axis=1)[:, :k], axis=1)


def _ratio(found: Array, total: Array) -> Array:
    """Return found / total, (q,); NaN for a total of 0."""
    return np.divide(found, total, out=np.full(len(total), np.nan), where=total > 0)


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


def _relevance(query_labels: Any, q: int, labels: Any, n: int) -> Callable[[slice], NDArray[np.bool_]]:
    """Return a function that says which items are relevant to some of the queries."""
    if are_label_sets(query_labels) or are_label_sets(labels):
        left, right = label_matrices(query_labels, labels, ("query_labels", "labels"))
        _check_length("query_labels", left.shape[:1], q)
        _check_length("labels", right.shape[:1], n)
        return lambda part: (left[part] @ right.T).toarray() > 0
    wanted, found = np.asarray(query_labels), np.asarray(labels)
    _check_length("query_labels", wanted.shape, q)
    _check_length("labels", found.shape, n)
    return lambda part: wanted[part, None] == found


def _check_length(name: str, shape: tuple[int, ...], n: int) -> None:
    if shape != (n,):
        raise ValueError(f"{name} {shape}: expected ({n},), one for each code")


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
    return _ratio(sums.sum(axis=1), hits.sum(axis=1))


def _groups(distances: NDArray[Any], relevant: NDArray[np.bool_]) -> tuple[Array, Array, Array, Array]:
    """Return, per query and distance (q, groups): items, relevant items, and both counts over nearer groups."""
    group, found = _in_groups(distances, relevant)
    size, hits = _counts(group, None), _counts(group, found)
    return size, hits, np.cumsum(size, axis=1) - size, np.cumsum(hits, axis=1) - hits


def _in_groups(distances: NDArray[Any], *values: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return the number of each item's group (q, n), equal for equal distances, and the values in the same order.

    A group may be empty. Hamming distances number the groups; other distances are ranked first.
    """
    n = distances.shape[1]
    if distances.dtype.kind in "iu" and distances.min(initial=0) >= 0 and distances.max(initial=0) < max(n, _FEW):
        return distances.astype(np.int64), *values  # small types would overflow in _counts
    order = np.argsort(distances, axis=1, kind="stable")
    ordered = np.take_along_axis(distances, order, axis=1)
    group = np.zeros(distances.shape, dtype=np.int64)
    np.cumsum(ordered[:, 1:] > ordered[:, :-1], axis=1, out=group[:, 1:])
    return group, *(np.take_along_axis(value, order, axis=1) for value in values)


def _counts(group: NDArray[np.int64], values: NDArray[Any] | None) -> Array:
    """Return the number of items of each group (q, groups), of those that are True, or the sum of their values."""
    q, width = len(group), int(group.max(initial=-1)) + 1
    flat = (np.arange(q)[:, None] * width + group).ravel()
    weights = None
    if values is not None and values.dtype == bool:
        flat = flat[values.ravel()]
    elif values is not None:
        weights = values.ravel()
    return np.bincount(flat, weights, minlength=q * width).reshape(q, width).astype(np.float64)
