"""Locality-sensitive hashing by p-stable projections cut into cells."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from cbid.checks import check_choice, check_integer, check_real
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.prefix import PrefixMixin
from cbid.coders.rivals.scales import neighbour_distance

__all__ = ["PStableLSH"]


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
