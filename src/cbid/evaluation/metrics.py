"""Metrics of rankings, of predicted classes and of detectors, and the table of all metrics by name.

Metrics of rankings do not depend on how ties are broken. Hamming distances tie often, so a metric of a ranked list
also measures the order of the database. Here items at one distance are a group in random order, and the metric is the
expectation over these orders (McSherry and Najork, 2008: "Computing information retrieval performance measures
efficiently in the presence of tied scores").
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_choice, check_integer

Array = NDArray[np.float64]
_PAIRS = 2**23  # pairs of a query and an item, compared at a time
_FEW = 1024  # integer distances below this or the number of items are counted, not sorted
_NAMES = {"U": "text", "T": "text", "S": "bytes"}
_REFERENCES = np.logspace(-2, 0, 9)


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


def accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Return the share of samples whose predicted class is the true one."""
    true, found = _check_classes(truth, predicted)
    return float(np.mean(true == found))


def mean_class_accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Return the mean over the true classes of the accuracy within each; use it when classes differ in size."""
    true, found = _check_classes(truth, predicted)
    _, numbers = np.unique(true, return_inverse=True)
    return float(np.mean(np.bincount(numbers, weights=true == found) / np.bincount(numbers)))


def confusion_matrix(truth: ArrayLike, predicted: ArrayLike) -> NDArray[np.int64]:
    """Return counts (n_classes, n_classes), true classes in rows, predicted classes in columns.

    The classes are all that occur in either argument, sorted.
    """
    true, found = _check_classes(truth, predicted)
    classes, numbers = np.unique(np.concatenate([true, found]), return_inverse=True)
    pairs = numbers[: len(true)] * len(classes) + numbers[len(true) :]
    return np.bincount(pairs, minlength=len(classes) ** 2).reshape(len(classes), len(classes))


def _check_classes(truth: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    true, found = np.asarray(truth), np.asarray(predicted)
    if true.ndim != 1 or true.shape != found.shape or not len(true):
        raise ValueError(f"truth {true.shape}, predicted {found.shape}: expected two arrays (n,), n at least 1")
    kinds = [_kinds(true), _kinds(found)]
    if len(set().union(*kinds)) > 1:
        what = " and ".join(
            f"{name} of {', '.join(sorted(kind))}" for name, kind in zip(("truth", "predicted"), kinds)
        )
        raise ValueError(f"{what}: expected classes of one kind")
    return true, found


def _kinds(classes: NDArray[Any]) -> set[str]:
    """Return the kinds among text, bytes and numbers. numpy may take 1 and "1" for the same class."""
    if classes.dtype.kind == "O":
        return {_NAMES.get(np.asarray(value).dtype.kind, "numbers") for value in classes}
    return {_NAMES.get(classes.dtype.kind, "numbers")}


def log_average_detection_rate(false_positives: ArrayLike, detection_rates: ArrayLike) -> float:
    """Return the mean detection rate at nine false-positive rates, evenly spaced in log space from 0.01 to 1.

    Parameters
    ----------
    false_positives, detection_rates : array-like of shape (m,)
        False positives per image and detection rates as the threshold of the detector falls. At each of the nine
        rates the best point at or below it counts, or 0 if there is none.
    """
    x, y = np.asarray(false_positives, dtype=float), np.asarray(detection_rates, dtype=float)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"false_positives {x.shape}, detection_rates {y.shape}: expected two arrays (points,)")
    # A reference computed as 10^-1 must include a point given as 0.1.
    reached = x <= _REFERENCES[:, None] * (1 + 1e-12)  # (9, m)
    return float(np.mean(np.max(np.where(reached, y, 0.0), axis=1, initial=0.0)))


@dataclass(frozen=True)
class Metric:
    """A metric: its title, the fields of a result that ``function`` takes, and whether it is a share from 0 to 1."""

    title: str
    needs: tuple[str, ...]
    function: Callable[..., Any]
    share: bool = True


def _mean_of_queries(function: Callable[..., Any], **settings: Any) -> Callable[[ArrayLike, ArrayLike], float]:
    """Return the mean over the queries that have a relevant item."""
    return lambda distances, relevant: float(np.nanmean(function(distances, relevant, **settings)))


def _bound(end: int) -> Callable[..., Any]:
    return lambda distances, relevant: average_precision_bounds(distances, relevant)[end]


_CLASSES, _RANKED = ("truth", "predicted"), ("distances", "relevant")

METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", _CLASSES, accuracy),
    "mean_class_accuracy": Metric("mean accuracy of classes", _CLASSES, mean_class_accuracy),
    "confusion": Metric("confusion matrix", _CLASSES, confusion_matrix, share=False),
    "map": Metric("mean average precision", _RANKED, _mean_of_queries(average_precision)),
    "map_low": Metric("mean average precision, ties at their worst", _RANKED, _mean_of_queries(_bound(0))),
    "map_high": Metric("mean average precision, ties at their best", _RANKED, _mean_of_queries(_bound(1))),
    "precision_at_10": Metric("precision at 10", _RANKED, _mean_of_queries(precision_at, k=10)),
    "recall_at_10": Metric("recall at 10", _RANKED, _mean_of_queries(recall_at, k=10)),
    "log_average_detection_rate": Metric(
        "log-average detection rate", ("false_positives", "detection_rates"), log_average_detection_rate
    ),
}


def measure(name: str, result: Mapping[str, Any]) -> Any:
    """Return a metric of a result: the stored value if the result has it, else computed from its fields."""
    check_choice("name", name, tuple(METRICS))
    if name in result:
        return result[name]
    metric = METRICS[name]
    missing = [field for field in metric.needs if field not in result]
    if missing:
        raise ValueError(f"{name} needs {', '.join(metric.needs)}; the result has no {', '.join(missing)}")
    return metric.function(*(result[field] for field in metric.needs))
