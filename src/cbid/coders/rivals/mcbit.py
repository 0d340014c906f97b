"""MC-bit: thresholded classifiers of meta-classes, the nodes of a label tree."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from cbid.checks import as_random_state
from cbid.coders.hyperplane import HyperplaneCoder
from cbid.coders.mixins import SupervisedMixin
from cbid.coders.rivals.common import Seed, check_most_bits
from cbid.learning.scaling import centre
from cbid.params import check_params, estimator, integer, param, positive
from cbid.pooling.meta_class import MetaClass

__all__ = ["MCBit"]


@estimator
class MCBit(SupervisedMixin, HyperplaneCoder):
    """Meta-class bits (Bergamo and Torresani, CVPR 2012), with the training set as its own base set.

    A label tree over the classes splits classes last that a classifier confuses most. Every node except the root is a
    meta-class with a linear SVM against all other classes; its sign is a bit (``cbid.pooling.MetaClass``). Bits are
    ordered from the root down: first groups of classes, last single classes.

    Parameters
    ----------
    n_bits : int or None, default=None
        Use the first ``n_bits`` of the 2 n_classes - 2 nodes. None: all.
    C : float > 0, default=1.0
        Weight of the SVM losses, as in LIBLINEAR, with X centred and scaled to unit mean squared length.
    n_folds : int, default=3
        Folds of the cross-validation that measures which classes are confused.
    random_state : int, RandomState or None, default=0
        Seed of the folds.

    Attributes
    ----------
    groups_ : (n_bits_, n_classes) bool
        The classes of each node.
    """

    _ARRAYS = HyperplaneCoder._ARRAYS | {"groups_"}

    n_bits: int | None = param(None, integer(1))
    C: float = param(1.0, positive)
    n_folds: int = param(3, integer(2))
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,); every class needs two samples."""
        check_params(self)
        as_random_state(self.random_state)
        samples, labels = self._labelled(X, y)
        k = len(self.classes_)
        most = 2 * k - 2
        n_bits = most if self.n_bits is None else self.n_bits
        check_most_bits(n_bits, most, f"a label tree of {k} classes has {most} nodes below its root")
        counts = np.bincount(labels)
        if counts.min() < 2:
            alone = self.classes_.tolist()[counts.argmin()]
            raise ValueError(f"y has one sample of class {alone!r}: expected at least two of each class")
        data = centre(samples)
        meta = MetaClass(C=self.C, n_folds=self.n_folds, random_state=self.random_state).fit(data.Z, labels)
        self.groups_ = meta.groups_[:n_bits]
        return self._set_hyperplanes(meta.coef_[:n_bits].T / data.unit, meta.intercept_[:n_bits], data.mean)

    def _check_state(self) -> None:
        super()._check_state()
        if self.groups_.dtype != bool or self.groups_.shape != (self.n_bits_, len(self.classes_)):
            raise ValueError(f"groups_ {self.groups_.dtype} {self.groups_.shape}: expected bool, one row per bit")
