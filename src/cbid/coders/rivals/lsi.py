"""Latent semantic indexing, binarised."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from cbid.checks import check_choice, check_integer
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder
from cbid.coders.prefix import PrefixMixin
from cbid.learning.axes import check_enough_axes, leading_axes, parts
from cbid.learning.variation import check_varies

__all__ = ["LSI"]


class LSI(PrefixMixin, HyperplaneCoder):
    """Leading singular vectors of X as it is, not centred (Deerwester et al., 1990), cut at a threshold.

    Every prefix is the code of that length.

    Parameters
    ----------
    n_bits : int
        At most the rank of X.
    threshold : {"median", "zero"}
        "median" halves the training samples at every bit, as in the binarised LSI that hashing is compared with;
        "zero" takes the sign. Of samples without negative values the leading bit is then the same for all.
    """

    def __init__(self, *, n_bits: int = 64, threshold: str = "median") -> None:
        self.n_bits = n_bits
        self.threshold = threshold

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from vectors X (n, d); y is not used."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        check_choice("threshold", self.threshold, ("median", "zero"))
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_varies(samples)
        n, d = samples.shape
        V = leading_axes(lambda part: samples[part].astype(np.float64), n, d, self.n_bits).vectors
        check_enough_axes(self.n_bits, len(V), samples)
        mean = samples.mean(axis=0, dtype=np.float64)
        offset = V @ mean
        if self.threshold == "median":
            offset = -np.median(np.concatenate([(samples[part] - mean) @ V.T for part in parts(n)]), axis=0)
        return self._set_hyperplanes(V.T, offset, mean)
