"""Metrics of codes, of classifiers and of detectors, and what repeats say of them."""

from cbid.evaluation.classification import accuracy, confusion_matrix, mean_class_accuracy
from cbid.evaluation.detection import log_average_detection_rate
from cbid.evaluation.metrics import (
    average_precision,
    average_precision_bounds,
    mean_average_precision,
    precision_at,
    recall_at,
)
from cbid.evaluation.statistics import confidence_interval, mcnemar_test, paired_test
from cbid.evaluation.table import METRICS, measure

__all__ = [
    "METRICS",
    "accuracy",
    "average_precision",
    "average_precision_bounds",
    "confidence_interval",
    "confusion_matrix",
    "log_average_detection_rate",
    "mcnemar_test",
    "mean_average_precision",
    "mean_class_accuracy",
    "measure",
    "paired_test",
    "precision_at",
    "recall_at",
]
