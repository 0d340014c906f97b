"""Metrics of predicted classes."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["accuracy", "confusion_matrix", "mean_class_accuracy"]

_NAMES = {"U": "text", "T": "text", "S": "bytes"}


def accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Share of samples whose predicted class is the true one."""
    true, found = _checked(truth, predicted)
    return float(np.mean(true == found))


def mean_class_accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Mean over the true classes of the accuracy within each: what counts where classes differ in size."""
    true, found = _checked(truth, predicted)
    _, numbers = np.unique(true, return_inverse=True)
    return float(np.mean(np.bincount(numbers, weights=true == found) / np.bincount(numbers)))


def confusion_matrix(truth: ArrayLike, predicted: ArrayLike) -> NDArray[np.int64]:
    """Counts (n_classes, n_classes), true classes in rows, predicted ones in columns.

    Classes are those that occur in either, in sorted order.
    """
    true, found = _checked(truth, predicted)
    classes, numbers = np.unique(np.concatenate([true, found]), return_inverse=True)
    pairs = numbers[: len(true)] * len(classes) + numbers[len(true) :]
    return np.bincount(pairs, minlength=len(classes) ** 2).reshape(len(classes), len(classes))


def _checked(truth: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    true, found = np.asarray(truth), np.asarray(predicted)
    if true.ndim != 1 or true.shape != found.shape or not len(true):
        raise ValueError(f"truth {true.shape} and predicted {found.shape} must both be (n,), with n at least 1")
    kinds = [_kinds(true), _kinds(found)]
    if len(set().union(*kinds)) > 1:
        what = " and ".join(
            f"{name} of {', '.join(sorted(kind))}" for name, kind in zip(("truth", "predicted"), kinds)
        )
        raise ValueError(f"{what} cannot be compared; give classes of one kind")
    return true, found


def _kinds(classes: NDArray[Any]) -> set[str]:
    """Text, bytes or numbers: 1 and "1" are different classes, which numpy does not always see."""
    if classes.dtype.kind == "O":
        return {_NAMES.get(np.asarray(value).dtype.kind, "numbers") for value in classes}
    return {_NAMES.get(classes.dtype.kind, "numbers")}
