"""Smooth stand-ins for sign(z), with values in [-1, 1] (docs/method.md, section 6)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

__all__ = ["SIGMOIDS", "Sigmoid"]

Array = NDArray[np.floating]
Sigmoid = Callable[[Array], tuple[Array, Array]]  # z -> value, derivative


def arctan(z: Array) -> tuple[Array, Array]:
    """(2 / pi) arctan z: the paper's choice; heavy tails keep a gradient on far points."""
    return (2 / np.pi) * np.arctan(z), (2 / np.pi) / (1 + z * z)


def logistic(z: Array) -> tuple[Array, Array]:
    """2 / (1 + exp(-z)) - 1."""
    p = expit(z)
    return 2 * p - 1, 2 * p * (1 - p)


def tanh(z: Array) -> tuple[Array, Array]:
    h = np.tanh(z)
    return h, 1 - h * h


SIGMOIDS: dict[str, Sigmoid] = {"arctan": arctan, "logistic": logistic, "tanh": tanh}
