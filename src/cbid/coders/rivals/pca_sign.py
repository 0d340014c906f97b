"""Signs of principal components."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from cbid.checks import check_integer
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder
from cbid.coders.prefix import PrefixMixin
from cbid.learning.axes import check_enough_axes, principal_axes

__all__ = ["PCASign"]


class PCASign(PrefixMixin, HyperplaneCoder):
    """On which side of the mean a sample lies along each leading principal axis.

    The plainest of learned codes, known as PCA hashing (Wang, Kumar and Chang, 2010, compare with it). Every prefix
    is the code of that length.

    Parameters
    ----------
    n_bits : int
        At most the number of axes along which X varies.
    """

    def __init__(self, *, n_bits: int = 64) -> None:
        self.n_bits = n_bits

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from vectors X (n, d); y is not used."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        mean, axes = principal_axes(samples, self.n_bits)
        check_enough_axes(self.n_bits, len(axes.vectors), samples)
        return self._set_hyperplanes(axes.vectors.T, 0.0, mean)
