"""All metrics by name: what each is called, what it is computed from, and whether it is a share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cbid.checks import check_choice
from cbid.evaluation.classification import accuracy, confusion_matrix, mean_class_accuracy
from cbid.evaluation.detection import log_average_detection_rate
from cbid.evaluation.metrics import average_precision, average_precision_bounds, precision_at, recall_at

__all__ = ["METRICS", "Metric", "measure"]


@dataclass(frozen=True)
class Metric:
    """title: its name for people. needs: the fields of a result that ``function`` takes, in order. share: a number
    from 0 to 1, shown in percent."""

    title: str
    needs: tuple[str, ...]
    function: Callable[..., Any]
    share: bool = True


def _mean_of_queries(function: Callable[..., Any], **settings: Any) -> Callable[[ArrayLike, ArrayLike], float]:
    """The mean over queries; those without a relevant item do not count."""
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
    """A metric of a result: as it is where the result holds it under its name, else computed from its fields."""
    check_choice("name", name, tuple(METRICS))
    if name in result:
        return result[name]
    metric = METRICS[name]
    missing = [field for field in metric.needs if field not in result]
    if missing:
        raise ValueError(f"{metric.title} needs {', '.join(metric.needs)}; the result lacks {', '.join(missing)}")
    return metric.function(*(result[field] for field in metric.needs))
