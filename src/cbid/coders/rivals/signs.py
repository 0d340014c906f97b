"""Signs."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from cbid.checks import check_choice, check_integer
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder
from cbid.coders.prefix import PrefixMixin
from cbid.coders.shapes import check_arrays
from cbid.learning.axes import check_enough_axes, leading_axes, parts, principal_axes
from cbid.learning.variation import check_varies

__all__ = ["LSI", "PCASign", "SignEmbedding"]


class SignEmbedding(Coder):
    """One bit for each coordinate: whether it is above the mean of the training samples, or above zero.

    Today's practice for embeddings, together with a second look at the float vectors of the nearest candidates.

    Parameters
    ----------
    n_bits : int or None
        The first so many coordinates, at most all. None: all.
    centre : bool
        Compare with the mean; else with zero.
    """

    _ARRAYS = frozenset({"mean_"})

    def __init__(self, *, n_bits: int | None = None, centre: bool = True) -> None:
        self.n_bits = n_bits
        self.centre = centre

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Take the mean of X (n, d); labels are not looked at."""
        if self.n_bits is not None:
            check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32])
        n_bits = samples.shape[1] if self.n_bits is None else self.n_bits
        if n_bits > samples.shape[1]:
            raise ValueError(
                f"n_bits={n_bits!r}: X has {samples.shape[1]} features, and each gives one bit: give "
                f"an integer from 1 to {samples.shape[1]}, or None"
            )
        self.mean_ = samples.mean(axis=0, dtype=np.float64) if self.centre else np.zeros(samples.shape[1])
        self.n_bits_ = n_bits
        return self

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        return X[:, : self.n_bits_] - self.mean_[: self.n_bits_].astype(X.dtype)

    def _check_state(self) -> None:
        check_integer("n_bits_", self.n_bits_, 1, self.n_features_in_)
        check_arrays(self, {"mean_": (self.n_features_in_,)})


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
