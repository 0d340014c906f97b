"""LDA-sign: on which side of the mean a sample lies, along each discriminant direction."""

from typing import Self

from numpy.typing import ArrayLike

from cbid.checks import check_integer, check_real
from cbid.coders.hyperplane import HyperplaneCoder
from cbid.coders.rivals.discriminants import canonical_directions
from cbid.coders.supervised import SupervisedMixin
from cbid.learning.centring import centre

__all__ = ["LDASign"]


class LDASign(SupervisedMixin, HyperplaneCoder):
    """Signs of Fisher's linear discriminants around the mean of the samples.

    There are at most n_classes - 1 of them, nor more than features: more bits are an error.

    Parameters
    ----------
    n_bits : int or None
        None: as many as there are.
    reg : float >= 0
        Regularisation of the covariance of X, as a share of the mean variance of its columns.
    """

    def __init__(self, *, n_bits: int | None = None, reg: float = 1e-4) -> None:
        self.n_bits = n_bits
        self.reg = reg

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,)."""
        check_real("reg", self.reg, 0)
        if self.n_bits is not None:
            check_integer("n_bits", self.n_bits, 1)
        samples, numbers = self._labelled(X, y)
        most = min(len(self.classes_) - 1, samples.shape[1])
        n_bits = most if self.n_bits is None else self.n_bits
        if n_bits > most:
            raise ValueError(
                f"n_bits={n_bits!r} is not accepted; {len(self.classes_)} classes in {samples.shape[1]} features "
                f"have {most} discriminants: give an integer from 1 to {most}, or None"
            )
        data = centre(samples)
        W, _ = canonical_directions(data.Z, numbers, len(self.classes_), reg=self.reg)
        return self._set_hyperplanes(W[:, :n_bits] / data.unit, 0.0, data.mean)
