"""Metrics of rankings, classifiers and detectors, and statistics over repeats."""

from cbid.evaluation.gains import shared_labels, tree_similarity
from cbid.evaluation.metrics import (
    METRICS,
    accuracy,
    confusion_matrix,
    log_average_detection_rate,
    macro_f1,
    mean_class_accuracy,
    measure,
    micro_f1,
)
from cbid.evaluation.ranking import (
    acg_at,
    average_hierarchical_precision,
    average_precision,
    average_precision_bounds,
    hierarchical_precision_at,
    mean_average_precision,
    ndcg_at,
    precision_at,
    recall_at,
    weighted_average_precision,
)
from cbid.evaluation.statistics import confidence_interval, mcnemar_test, paired_test

__all__ = [
    "METRICS",
    "accuracy",
    "acg_at",
    "average_hierarchical_precision",
    "average_precision",
    "average_precision_bounds",
    "confidence_interval",
    "confusion_matrix",
    "hierarchical_precision_at",
    "log_average_detection_rate",
    "macro_f1",
    "mcnemar_test",
    "mean_average_precision",
    "mean_class_accuracy",
    "measure",
    "micro_f1",
    "ndcg_at",
    "paired_test",
    "precision_at",
    "recall_at",
    "shared_labels",
    "tree_similarity",
    "weighted_average_precision",
]
