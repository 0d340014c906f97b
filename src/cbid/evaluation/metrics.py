"""Metrics of classes, label sets and detectors, the table of all metrics by name, and intervals over repeats."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_choice, check_real
from cbid.evaluation import ranking
from cbid.evaluation.gains import label_matrices

_NAMES = {"U": "text", "T": "text", "S": "bytes"}
REFERENCE_FPPI = np.logspace(-2, 0, 9)  # false positives per image of the averages


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


def micro_f1(truth: Any, predicted: Any) -> float:
    """Return the F1 score of all pairs of a sample and a label together: 2 TP / (2 TP + FP + FN).

    Parameters
    ----------
    truth, predicted : array-like or sparse array of shape (n, labels), or lists of n lists or sets of labels
        Values 0 and 1; or the labels of each sample.
    """
    right, true, found = _label_counts(truth, predicted)
    total = float(true.sum() + found.sum())
    return 2 * float(right.sum()) / total if total else float("nan")


def macro_f1(truth: Any, predicted: Any) -> float:
    """Return the mean over labels of the F1 score of each.

    Labels that no sample has in truth or predicted do not count. The arguments are those of `micro_f1`.
    """
    right, true, found = _label_counts(truth, predicted)
    total = true + found
    return float(np.mean(2 * right[total > 0] / total[total > 0])) if total.any() else float("nan")


def _label_counts(truth: Any, predicted: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return, for each label, the samples that have it in both, in ``truth`` and in ``predicted``."""
    true, found = label_matrices(truth, predicted, ("truth", "predicted"))
    if true.shape[0] != found.shape[0] or not true.shape[0]:
        raise ValueError(
            f"truth has {true.shape[0]} samples, predicted {found.shape[0]}: expected equal numbers, at least 1"
        )
    right = true.multiply(found)
    return right.sum(axis=0), true.sum(axis=0), found.sum(axis=0)


def log_average_detection_rate(false_positives: ArrayLike, detection_rates: ArrayLike) -> float:
    """Return the mean detection rate at nine false-positive rates, evenly spaced in log space from 0.01 to 1.

    Parameters
    ----------
    false_positives, detection_rates : array-like of shape (m,)
        False positives per image and detection rates as the threshold of the detector falls. At each of the nine
        rates the best point at or below it counts, or 0 without such a point.
    """
    x, y = np.asarray(false_positives, dtype=float), np.asarray(detection_rates, dtype=float)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"false_positives {x.shape}, detection_rates {y.shape}: expected two arrays (points,)")
    # A reference computed as 10^-1 must include a point given as 0.1.
    reached = x <= REFERENCE_FPPI[:, None] * (1 + 1e-12)  # (9, m)
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
    return lambda distances, relevant: ranking.average_precision_bounds(distances, relevant)[end]


def _mahp(distances: ArrayLike, similarity: ArrayLike) -> float:
    k = min(250, np.shape(distances)[-1])
    return float(np.nanmean(ranking.average_hierarchical_precision(distances, similarity, k)))


_CLASSES, _RANKED = ("truth", "predicted"), ("distances", "relevant")
_GRADED, _TREE = ("distances", "gains"), ("distances", "similarity")

METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", _CLASSES, accuracy),
    "mean_class_accuracy": Metric("mean accuracy of classes", _CLASSES, mean_class_accuracy),
    "confusion": Metric("confusion matrix", _CLASSES, confusion_matrix, share=False),
    "map": Metric("mean average precision", _RANKED, _mean_of_queries(ranking.average_precision)),
    "map_low": Metric("mean average precision, ties at their worst", _RANKED, _mean_of_queries(_bound(0))),
    "map_high": Metric("mean average precision, ties at their best", _RANKED, _mean_of_queries(_bound(1))),
    "precision_at_10": Metric("precision at 10", _RANKED, _mean_of_queries(ranking.precision_at, k=10)),
    "recall_at_10": Metric("recall at 10", _RANKED, _mean_of_queries(ranking.recall_at, k=10)),
    "neighbour_recall_at_10": Metric(
        "neighbour recall at 10", ("distances", "original"), _mean_of_queries(ranking.neighbour_recall, k=10)
    ),
    "ndcg_at_10": Metric("NDCG at 10", _GRADED, _mean_of_queries(ranking.ndcg_at, k=10)),
    "acg_at_10": Metric(
        "average cumulative gain at 10", _GRADED, _mean_of_queries(ranking.acg_at, k=10), share=False
    ),
    "weighted_map": Metric(
        "weighted mean average precision", _GRADED, _mean_of_queries(ranking.weighted_average_precision), share=False
    ),
    "hierarchical_precision_at_10": Metric(
        "hierarchical precision at 10", _TREE, _mean_of_queries(ranking.hierarchical_precision_at, k=10)
    ),
    "mahp": Metric("mAHP at 250, or at the number of items", _TREE, _mahp),
    "micro_f1": Metric("micro F1", _CLASSES, micro_f1),
    "macro_f1": Metric("macro F1", _CLASSES, macro_f1),
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


@dataclass(frozen=True)
class Interval:
    """A mean and the ends of its confidence interval, which are NaN for one value."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Mean of a - b over repeats with its interval, and the p-value of the difference."""

    difference: Interval
    p: float


def confidence_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Return Student's interval for the mean of values (n,), one for each repeat."""
    from scipy.stats import t

    check_real("level", level, 0, 1, open_below=True)
    v = _values("values", values)
    if len(v) == 1:
        return Interval(float(v[0]), np.nan, np.nan)
    half = t.ppf((1 + level) / 2, len(v) - 1) * v.std(ddof=1) / np.sqrt(len(v))
    return Interval(float(v.mean()), float(v.mean() - half), float(v.mean() + half))


def paired_test(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> Comparison:
    """Run Student's two-sided paired test of two methods on the same repeats; p is NaN for one repeat.

    Repeats that share training images are not independent, so p is somewhat too small.
    """
    from scipy.stats import t

    x, y = _values("a", a), _values("b", b)
    if len(x) != len(y):
        raise ValueError(f"a has {len(x)} values, b {len(y)}: expected one for each repeat")
    interval = confidence_interval(x - y, level)
    if len(x) == 1:
        return Comparison(interval, np.nan)
    error = (x - y).std(ddof=1) / np.sqrt(len(x))
    if error == 0:
        return Comparison(interval, 1.0 if interval.mean == 0 else 0.0)
    return Comparison(interval, float(2 * t.sf(abs(interval.mean) / error, len(x) - 1)))


def mcnemar_test(truth: ArrayLike, a: ArrayLike, b: ArrayLike) -> float:
    """Return the exact two-sided p-value of McNemar's test: two classifiers are right equally often.

    Only samples that exactly one of them gets right count; under the null hypothesis each is a fair coin.
    """
    from scipy.stats import binomtest

    true, first, second = (np.asarray(v) for v in (truth, a, b))
    if not true.shape == first.shape == second.shape or true.ndim != 1:
        raise ValueError(f"truth {true.shape}, a {first.shape}, b {second.shape}: expected three arrays (n,)")
    only_first = int(np.sum((first == true) & (second != true)))
    only_second = int(np.sum((second == true) & (first != true)))
    if only_first + only_second == 0:
        return 1.0
    return float(binomtest(only_first, only_first + only_second).pvalue)


def _values(name: str, values: ArrayLike) -> NDArray[Any]:
    v = np.asarray(values, dtype=float)
    if v.ndim != 1 or not len(v):
        raise ValueError(f"{name} {v.shape}: expected (n,), n at least 1")
    return v
