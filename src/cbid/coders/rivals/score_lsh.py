"""Random hyperplanes over the scores of a linear classifier."""

from typing import Any, Self

from numpy.typing import ArrayLike

from cbid.checks import check_integer, check_real
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.rivals.linear_scores import fit_linear_scores
from cbid.coders.supervised import SupervisedMixin
from cbid.learning.centring import centre

__all__ = ["ScoreLSH"]


class ScoreLSH(SupervisedMixin, HyperplaneCoder):
    """Locality-sensitive hashing of class scores: a trivial baseline that supervised codes should beat.

    One-against-rest linear SVMs give each sample one score per class; the bits are signs of Gaussian random
    projections of the scores around their mean. Samples with proportional scores share bits (Charikar, STOC 2002).

    Parameters
    ----------
    n_bits : int
    C : float > 0
        Weight of the SVMs' losses, as in LIBLINEAR, with X centred and scaled to samples of unit mean squared length.
    random_state : int, RandomState or None
        Draws the projections.
    """

    def __init__(self, *, n_bits: int = 64, C: float = 1.0, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.C = C
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,)."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        check_real("C", self.C, 0, open_below=True)
        samples, numbers = self._labelled(X, y)
        data = centre(samples)
        W, _ = fit_linear_scores(data.Z, numbers, C=self.C)
        R = generator(self.random_state).standard_normal((W.shape[1], self.n_bits))
        # Around their mean, scores are linear in Z: the classifier's intercepts fall away.
        return self._set_hyperplanes(W @ R / data.unit, 0.0, data.mean)
