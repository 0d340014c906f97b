"""The similarity of labels, +1 within a class and -1 between classes, less what bits have explained.

S = 2 Y Y' - 1 1', with Y the indicators of the classes, has no more terms than classes: products with it cost n, not
n^2, and nothing of the size of the pairs is ever stored.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.learning.centring import indicator

__all__ = ["ClassAffinity"]

Array = NDArray[np.float64]


class ClassAffinity:
    """R = scale S - sum over the bits taken so far of h h', as an operator on (n,) or (n, c)."""

    def __init__(self, numbers: NDArray[np.integer], n_classes: int, *, scale: float, capacity: int) -> None:
        self.numbers, self.scale = numbers, scale
        self._Y = indicator(numbers, n_classes)
        self._H = np.empty((capacity, len(numbers)))
        self._taken = 0

    @property
    def bits(self) -> Array:
        """The bits taken so far, (n, taken)."""
        return self._H[: self._taken].T

    def take(self, h: Array) -> None:
        """Take in one more bit (n,) in -1/+1."""
        self._H[self._taken] = h
        self._taken += 1

    def times(self, V: Array) -> Array:
        """R V."""
        product = self.scale * (2 * (V.T @ self._Y).T[self.numbers] - V.sum(axis=0))
        return product - self.bits @ (self.bits.T @ V)
