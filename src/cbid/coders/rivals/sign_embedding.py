"""Signs of the coordinates themselves: what vector databases call binary quantisation."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from cbid.checks import check_integer
from cbid.coders.base import Coder
from cbid.coders.hyperplane import MOST_BITS
from cbid.coders.shapes import check_arrays

__all__ = ["SignEmbedding"]


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
                f"n_bits={n_bits!r} is not accepted; X has {samples.shape[1]} features, and each gives one bit: give "
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
