"""Metrics of codes."""

from cbid.evaluation.metrics import average_precision, mean_average_precision, precision_at

__all__ = ["average_precision", "mean_average_precision", "precision_at"]
