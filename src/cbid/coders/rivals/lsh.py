"""LSH."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import validate_data

from cbid.checks import check_choice, check_integer, check_real
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.prefix import PrefixMixin
from cbid.coders.shapes import check_arrays

__all__ = ["LSH", "PStableLSH", "ShiftInvariantLSH", "neighbour_distance"]

_NEIGHBOUR = 50
_QUERIES = 1_000
_AMONG = 20_000


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


class PStableLSH(PrefixMixin, HyperplaneCoder):
    """Projections by a p-stable law, in cells of one width (Datar, Immorlica, Indyk and Mirrokni, SoCG 2004).

    The paper's hash is the number of the cell, floor((a . x + b) / width), with a from a p-stable law and b uniform
    in one cell. Here every hash gives one bit, the parity of that number: +1 in even cells. Two vectors at distance r
    differ in a bit with probability

        1/2 - 4/pi^2 sum over odd m of f(m pi r / width) / m^2,

    where f(u) is exp(-u^2 / 2) for p = 2 and exp(-u) for p = 1: growing with r, up to one half. Any number of bits
    can be had, and every prefix is the code of that length.

    Parameters
    ----------
    n_bits : int
    p : {2, 1}
        Euclidean distance by Gaussian projections, or l_1 distance by Cauchy projections.
    width : float > 0 or None
        Of a cell, in units of X. None: four times the mean distance of a sample to its nearest other one, as the
        paper's width of 4 is for neighbours at distance 1.
    random_state : int, RandomState or None
        Draws the projections.

    Attributes
    ----------
    width_ : float
    """

    _VALUES = HyperplaneCoder._VALUES | {"width_"}

    def __init__(self, *, n_bits: int = 64, p: int = 2, width: float | None = None, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.p = p
        self.width = width
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Draw projections for vectors like X (n, d); y is not used."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        check_choice("p", self.p, (1, 2))
        samples: Any
        if self.width is not None:
            check_real("width", self.width, 0, open_below=True)
            samples = validate_data(self, X, dtype=[np.float64, np.float32])
        else:
            samples = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        # One stream for each, so that a shorter code is a prefix of a longer one.
        planes, shifts, draws = generator(self.random_state).spawn(3)
        metric = "euclidean" if self.p == 2 else "manhattan"
        width = self.width or 4 * neighbour_distance(samples, 1, name="width", rng=draws, metric=metric)
        shape = (self.n_bits, samples.shape[1])
        A = planes.standard_normal(shape) if self.p == 2 else planes.standard_cauchy(shape)
        self.width_ = float(width)
        return self._set_hyperplanes(A.T / width, shifts.random(self.n_bits), samples.mean(axis=0, dtype=np.float64))

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Distance to the nearest border of the cell, in widths, with the sign of its parity."""
        place = np.mod(super()._project(X), 2)
        inside = np.mod(place, 1)
        border = np.minimum(inside, 1 - inside)
        # On the border itself an odd cell stays odd.
        return np.where(place < 1, border, -np.maximum(border, np.finfo(X.dtype).tiny))

    def _check_state(self) -> None:
        super()._check_state()
        check_real("width_", self.width_, 0, open_below=True)


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


def neighbour_distance(
    X: NDArray[np.floating], k: int, *, name: str, rng: np.random.Generator, metric: str = "euclidean"
) -> float:
    """Mean distance of a sample to its k-th nearest other one, over at most 1,000 samples among at most 20,000.

    Copies count once. A sample of fewer than k others takes the furthest. ``name`` is the argument that stands to be
    given where all samples are copies of one and there is no distance to speak of.
    """
    among = np.unique(X[rng.permutation(len(X))[:_AMONG]], axis=0)
    if len(among) < 2:
        raise ValueError(
            f"{name}=None is measured by the distance of neighbours, and all of X is one point; give {name}"
        )
    among = rng.permutation(among - among.mean(axis=0))  # around the mean, where distances have their digits
    k = min(k, len(among) - 1)
    search = NearestNeighbors(n_neighbors=k + 1, algorithm="brute", metric=metric).fit(among)
    distances, _ = search.kneighbors(among[:_QUERIES])  # the sample itself comes first, at distance 0
    return float(distances[:, k].mean(dtype=np.float64))
