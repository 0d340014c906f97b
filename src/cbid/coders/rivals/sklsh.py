"""Locality-sensitive codes from a shift-invariant kernel."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from cbid.checks import check_integer, check_real
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.prefix import PrefixMixin
from cbid.coders.rivals.scales import neighbour_distance
from cbid.coders.shapes import check_arrays

__all__ = ["ShiftInvariantLSH"]

_NEIGHBOUR = 50


class ShiftInvariantLSH(PrefixMixin, HyperplaneCoder):
    """Signs of random Fourier features of the Gaussian kernel (Raginsky and Lazebnik, NIPS 2009).

    With K(x, y) = exp(-gamma ||x - y||^2) a bit is sign(cos(w . x + b) + t): w normal with variance 2 gamma, b
    uniform in [0, 2 pi), t uniform in [-1, 1]. Two vectors differ in it with probability

        8/pi^2 sum over m >= 1 of (1 - K(m x, m y)) / (4 m^2 - 1),

    growing with their distance, up to 4/pi^2. Any number of bits can be had, and every prefix is the code of that
    length.

    Parameters
    ----------
    n_bits : int
    gamma : float > 0 or None
        None: 1 / (2 r^2) for the mean distance r of a sample to its 50th nearest other one, as in the authors'
        comparisons.
    random_state : int, RandomState or None
        Draws the features.

    Attributes
    ----------
    bandwidth_ : float
        The gamma that was used.
    """

    _ARRAYS = HyperplaneCoder._ARRAYS | {"threshold_"}
    _VALUES = HyperplaneCoder._VALUES | {"bandwidth_"}
    _BY_BIT = ("coef_", "intercept_", "threshold_")
    threshold_: NDArray[np.float64]

    def __init__(self, *, n_bits: int = 64, gamma: float | None = None, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.gamma = gamma
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Draw features for vectors like X (n, d); y is not used."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        samples: Any
        if self.gamma is not None:
            check_real("gamma", self.gamma, 0, open_below=True)
            samples = validate_data(self, X, dtype=[np.float64, np.float32])
        else:
            samples = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        waves, phases, thresholds, draws = generator(self.random_state).spawn(4)
        gamma = self.gamma or 0.5 / neighbour_distance(samples, _NEIGHBOUR, name="gamma", rng=draws) ** 2
        W = np.sqrt(2 * gamma) * waves.standard_normal((self.n_bits, samples.shape[1]))
        self.threshold_ = thresholds.uniform(-1, 1, self.n_bits)
        self.bandwidth_ = float(gamma)
        phase = phases.uniform(0, 2 * np.pi, self.n_bits)
        return self._set_hyperplanes(W.T, phase, samples.mean(axis=0, dtype=np.float64))

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        return np.cos(super()._project(X)) + self.threshold_.astype(X.dtype)

    def _check_state(self) -> None:
        super()._check_state()
        check_arrays(self, {"threshold_": (self.n_bits_,)})
        check_real("bandwidth_", self.bandwidth_, 0, open_below=True)
