"""Random-hyperplane locality-sensitive hashing."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from cbid.checks import check_choice, check_integer
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.prefix import PrefixMixin

__all__ = ["LSH"]


class LSH(PrefixMixin, HyperplaneCoder):
    """Signs of Gaussian random projections (Charikar, STOC 2002).

    Two vectors at angle a differ in each bit with probability a / pi. Nothing but the mean is learned; any number of
    bits can be had, and every prefix is the code of that length.

    Parameters
    ----------
    n_bits : int
    center : bool
        Measure angles around the mean of the training samples, as evaluations of hashing do. False measures them
        around the origin, as in the paper.
    random_state : int, RandomState or None
        Draws the hyperplanes.
    """

    def __init__(self, *, n_bits: int = 64, center: bool = True, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.center = center
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Draw hyperplanes for vectors like X (n, d); y is not used."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        check_choice("center", self.center, (True, False))
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32])
        d = samples.shape[1]
        planes = generator(self.random_state).standard_normal((self.n_bits, d))
        mean = samples.mean(axis=0, dtype=np.float64) if self.center else np.zeros(d)
        return self._set_hyperplanes(planes.T, 0.0, mean)
