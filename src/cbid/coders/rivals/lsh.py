"""Locality-sensitive hashing by random projections: their signs, their cells, or their random Fourier features."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.neighbors import NearestNeighbors

from cbid.checks import check_real
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.mixins import PrefixMixin, check_arrays
from cbid.coders.onnx_file import OnnxGraph
from cbid.coders.rivals.common import Seed, check_vectors
from cbid.params import choice, estimator, flag, integer, param, positive

_NEIGHBOUR = 50
_MAX_QUERIES = 1_000
_MAX_SAMPLES = 20_000


@estimator
class LSH(PrefixMixin, HyperplaneCoder):
    """Signs of Gaussian random projections (Charikar, STOC 2002).

    Two vectors at angle a differ in each bit with probability a / pi. Only the mean is learned. Any number of bits is
    possible, and every prefix is the code of that length.

    Parameters
    ----------
    n_bits : int, default=64
    center : bool, default=True
        Measure angles around the mean of the training samples, as is usual in comparisons of hashing methods. False
        measures them around the origin, as in the paper.
    random_state : int, RandomState or None, default=0
        Seed of the hyperplanes.
    """

    n_bits: int = param(64, integer(1, MOST_BITS))
    center: bool = param(True, flag)
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw hyperplanes for vectors like X (n, d); y is ignored."""
        samples = check_vectors(self, X, least=1)
        d = samples.shape[1]
        planes = generator(self.random_state).standard_normal((self.n_bits, d))
        mean = samples.mean(axis=0, dtype=np.float64) if self.center else np.zeros(d)
        return self._set_hyperplanes(planes.T, 0.0, mean)


@estimator
class PStableLSH(PrefixMixin, HyperplaneCoder):
    """Parities of the cells of p-stable projections (Datar, Immorlica, Indyk and Mirrokni, SoCG 2004).

    The hash of the paper is the cell index floor((a . x + b) / width), with a from a p-stable distribution and b
    uniform in one cell. Here every hash gives one bit, the parity of that index: +1 in even cells. Two vectors at
    distance r differ in a bit with probability

        1/2 - 4/pi^2 sum over odd m of f(m pi r / width) / m^2,

    where f(u) is exp(-u^2 / 2) for p = 2 and exp(-u) for p = 1. It grows with r up to one half. Any number of bits is
    possible, and every prefix is the code of that length.

    Parameters
    ----------
    n_bits : int, default=64
    p : {2, 1}, default=2
        2: Euclidean distance by Gaussian projections. 1: l1 distance by Cauchy projections.
    width : float > 0 or None, default=None
        Width of a cell in units of X. None: four times the mean distance of a sample to its nearest neighbour (the
        paper uses 4 for neighbours at distance 1).
    random_state : int, RandomState or None, default=0
        Seed of the projections.

    Attributes
    ----------
    width_ : float
    """

    _VALUES = HyperplaneCoder._VALUES | {"width_"}

    n_bits: int = param(64, integer(1, MOST_BITS))
    p: int = param(2, choice(1, 2))
    width: float | None = param(None, positive)
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw projections for vectors like X (n, d); y is ignored."""
        samples = check_vectors(self, X, least=2 if self.width is None else 1)
        # Separate streams, so that a shorter code is a prefix of a longer one.
        planes, shifts, draws = generator(self.random_state).spawn(3)
        metric = "euclidean" if self.p == 2 else "manhattan"
        width = self.width or 4 * neighbour_distance(samples, 1, name="width", rng=draws, metric=metric)
        shape = (self.n_bits, samples.shape[1])
        A = planes.standard_normal(shape) if self.p == 2 else planes.standard_cauchy(shape)
        self.width_ = float(width)
        return self._set_hyperplanes(A.T / width, shifts.random(self.n_bits), samples.mean(axis=0, dtype=np.float64))

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the distance to the nearest border of the cell, in widths, with the sign of the parity."""
        place = np.mod(super()._project(X), 2)
        inside = np.mod(place, 1)
        border = np.minimum(inside, 1 - inside)
        # On the border itself, the value of an odd cell must stay negative.
        return np.where(place < 1, border, -np.maximum(border, np.finfo(X.dtype).tiny))

    def _onnx_values(self, graph: OnnxGraph, X: str) -> str:
        cell = graph.add("Floor", super()._onnx_values(graph, X))
        half = graph.add("Mul", cell, np.array(0.5, np.float32))
        parity = graph.add("Sub", half, graph.add("Floor", half))  # 0 in even cells, 0.5 in odd ones
        return graph.add("Sub", np.array(0.25, np.float32), parity)

    def _check_state(self) -> None:
        super()._check_state()
        check_real("width_", self.width_, 0, open_below=True)


@estimator
class ShiftInvariantLSH(PrefixMixin, HyperplaneCoder):
    """Signs of random Fourier features of the Gaussian kernel (Raginsky and Lazebnik, NIPS 2009).

    With K(x, y) = exp(-gamma ||x - y||^2), a bit is sign(cos(w . x + b) + t): w normal with variance 2 gamma, b
    uniform in [0, 2 pi), t uniform in [-1, 1]. Two vectors differ in it with probability

        8/pi^2 sum over m >= 1 of (1 - K(m x, m y)) / (4 m^2 - 1),

    which grows with their distance up to 4/pi^2. Any number of bits is possible, and every prefix is the code of that
    length.

    Parameters
    ----------
    n_bits : int, default=64
    gamma : float > 0 or None, default=None
        None: 1 / (2 r^2), where r is the mean distance of a sample to its 50th nearest neighbour, as in the authors'
        experiments.
    random_state : int, RandomState or None, default=0
        Seed of the features.

    Attributes
    ----------
    bandwidth_ : float
        The gamma used.
    """

    _ARRAYS = HyperplaneCoder._ARRAYS | {"threshold_"}
    _VALUES = HyperplaneCoder._VALUES | {"bandwidth_"}
    _BY_BIT = ("coef_", "intercept_", "threshold_")

    n_bits: int = param(64, integer(1, MOST_BITS))
    gamma: float | None = param(None, positive)
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw features for vectors like X (n, d); y is ignored."""
        samples = check_vectors(self, X, least=2 if self.gamma is None else 1)
        waves, phases, thresholds, draws = generator(self.random_state).spawn(4)
        gamma = self.gamma or 0.5 / neighbour_distance(samples, _NEIGHBOUR, name="gamma", rng=draws) ** 2
        W = np.sqrt(2 * gamma) * waves.standard_normal((self.n_bits, samples.shape[1]))
        self.threshold_ = thresholds.uniform(-1, 1, self.n_bits)
        self.bandwidth_ = float(gamma)
        phase = phases.uniform(0, 2 * np.pi, self.n_bits)
        return self._set_hyperplanes(W.T, phase, samples.mean(axis=0, dtype=np.float64))

    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        return np.cos(super()._project(X)) + self.threshold_.astype(X.dtype)

    def _onnx_values(self, graph: OnnxGraph, X: str) -> str:
        waves = graph.add("Cos", super()._onnx_values(graph, X))
        return graph.add("Add", waves, self.threshold_.astype(np.float32))

    def _check_state(self) -> None:
        super()._check_state()
        check_arrays(self, {"threshold_": (self.n_bits_,)})
        check_real("bandwidth_", self.bandwidth_, 0, open_below=True)


def neighbour_distance(
    X: NDArray[np.floating], k: int, *, name: str, rng: np.random.Generator, metric: str = "euclidean"
) -> float:
    """Return the mean distance to the k-th nearest neighbour, over at most 1,000 samples among at most 20,000.

    Duplicates count once. With fewer than k other samples, take the furthest. ``name`` is the parameter that the
    error mentions if all samples are equal.
    """
    among = np.unique(X[rng.permutation(len(X))[:_MAX_SAMPLES]], axis=0)
    if len(among) < 2:
        raise ValueError(f"{name}=None: expected a number, because all samples of X are one point")
    among = rng.permutation(among - among.mean(axis=0))  # distances lose fewest digits around the mean
    k = min(k, len(among) - 1)
    search = NearestNeighbors(n_neighbors=k + 1, algorithm="brute", metric=metric).fit(among)
    distances, _ = search.kneighbors(among[:_MAX_QUERIES])  # the sample itself comes first, at distance 0
    return float(distances[:, k].mean(dtype=np.float64))
