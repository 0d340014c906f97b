"""The similarity of labels, +1 within a class and -1 between classes, less what bits have explained.

S = 2 Y Y' - 1 1', with Y the indicators of the classes, has no more terms than classes: products with it cost n, not
n^2, and nothing of the size of the pairs is ever stored.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["ClassAffinity"]

Array = NDArray[np.float64]


class ClassAffinity:
    """R = scale S - sum over the bits taken so far of h h', as an operator on (n,) or (n, c)."""

    def __init__(self, numbers: NDArray[np.integer], n_classes: int, *, scale: float) -> None:
        self.numbers, self.n_classes, self.scale = numbers, n_classes, scale
        self.bits: list[Array] = []

    def take(self, h: Array) -> None:
        """Take in one more bit (n,) in -1/+1."""
        self.bits.append(h)

    def times(self, V: Array) -> Array:
        """R V."""
        sums = np.zeros((self.n_classes, *V.shape[1:]))
        np.add.at(sums, self.numbers, V)
        product = self.scale * (2 * sums[self.numbers] - V.sum(axis=0))
        if self.bits:
            H = np.asarray(self.bits)
            product -= H.T @ (H @ V)
        return product
