"""Metrics of detectors."""

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["log_average_detection_rate"]

_REFERENCES = np.logspace(-2, 0, 9)


def log_average_detection_rate(false_positives: ArrayLike, detection_rates: ArrayLike) -> float:
    """Mean detection rate at nine false-positive rates (per image) evenly spaced in log space from 0.01 to 1.

    false_positives, detection_rates : (m,), the points of a curve as the detector's threshold falls; at a reference
    rate counts the best point that is not beyond it, and 0 where there is none.
    """
    x, y = np.asarray(false_positives, dtype=float), np.asarray(detection_rates, dtype=float)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"false_positives {x.shape} and detection_rates {y.shape} must both be (points,)")
    # A reference computed as 10^-1 must still reach a point given as 0.1.
    reached = x <= _REFERENCES[:, None] * (1 + 1e-12)  # (9, m)
    return float(np.mean(np.max(np.where(reached, y, 0.0), axis=1, initial=0.0)))
