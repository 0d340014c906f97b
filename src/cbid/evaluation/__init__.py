"""Metrics of rankings, classifiers and detectors, and statistics over repeats."""

from cbid.evaluation.metrics import (
    METRICS,
    accuracy,
    average_precision,
    average_precision_bounds,
    confusion_matrix,
    log_average_detection_rate,
    mean_average_precision,
    mean_class_accuracy,
    measure,
    precision_at,
    recall_at,
)
from cbid.evaluation.statistics import confidence_interval, mcnemar_test, paired_test

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
