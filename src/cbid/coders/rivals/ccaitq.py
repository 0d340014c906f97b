"""CCA-ITQ: canonical directions of samples and labels, rotated so that their signs lose least."""

from typing import Any, Self

from numpy.typing import ArrayLike

from cbid.checks import check_integer, check_real
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.rivals.discriminants import canonical_directions
from cbid.coders.rivals.rotation import fit_rotation
from cbid.coders.supervised import SupervisedMixin
from cbid.learning.centring import centre

__all__ = ["CCAITQ"]


class CCAITQ(SupervisedMixin, HyperplaneCoder):
    """Iterative quantisation of canonical correlation analysis (Gong and Lazebnik, CVPR 2011 and PAMI 2013).

    Each canonical direction is weighed by its correlation, as in the paper. There are n_classes - 1 of them at most;
    with more bits than that, the rotation spreads them over all bits.

    Parameters
    ----------
    n_bits : int
    reg : float >= 0
        Regularisation of the covariance of X, as a share of the mean variance of its columns.
    n_iter : int
        Turns of the rotation (the paper's 50).
    random_state : int, RandomState or None
        Draws the rotation that learning starts from.
    """

    def __init__(self, *, n_bits: int = 64, reg: float = 1e-4, n_iter: int = 50, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.reg = reg
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,)."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        check_real("reg", self.reg, 0)
        check_integer("n_iter", self.n_iter, 0)
        samples, numbers = self._labelled(X, y)
        data = centre(samples)
        W, correlations = canonical_directions(data.Z, numbers, len(self.classes_), reg=self.reg)
        W = (W * correlations)[:, : self.n_bits]
        R = fit_rotation(data.Z @ W, self.n_bits, n_iter=self.n_iter, rng=generator(self.random_state))
        return self._set_hyperplanes(W @ R / data.unit, 0.0, data.mean)
