"""MC-bit: thresholded classifiers of meta-classes, the nodes of a label tree."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from cbid.checks import as_random_state, check_integer, check_real
from cbid.coders.hyperplane import HyperplaneCoder
from cbid.coders.supervised import SupervisedMixin
from cbid.learning.centring import centre
from cbid.pooling.meta_class import MetaClass

__all__ = ["MCBit"]


class MCBit(SupervisedMixin, HyperplaneCoder):
    """Meta-class bits (Bergamo and Torresani, CVPR 2012), with the training set as its own base set.

    A tree over the classes keeps those together longest that a classifier mistakes for each other. Every node but the
    root is a meta-class with a linear SVM against all other classes, and its sign is a bit
    (``cbid.pooling.MetaClass``). Bits come from the root down: first groups of classes, at last single classes. There
    are 2 n_classes - 2; more bits are an error.

    Parameters
    ----------
    n_bits : int or None
        The first so many nodes. None: all.
    C : float > 0
        Weight of the SVMs' losses, as in LIBLINEAR, with X centred and scaled to samples of unit mean squared length.
    n_folds : int
        Parts of the training set that are held out in turn to see which classes are mistaken.
    random_state : int, RandomState or None
        Draws the parts.

    Attributes
    ----------
    groups_ : (n_bits_, n_classes) bool
        The classes of each node.
    """

    _ARRAYS = HyperplaneCoder._ARRAYS | {"groups_"}

    def __init__(self, *, n_bits: int | None = None, C: float = 1.0, n_folds: int = 3, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.C = C
        self.n_folds = n_folds
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,); every class needs two samples."""
        if self.n_bits is not None:
            check_integer("n_bits", self.n_bits, 1)
        check_real("C", self.C, 0, open_below=True)
        check_integer("n_folds", self.n_folds, 2)
        as_random_state(self.random_state)
        samples, numbers = self._labelled(X, y)
        k = len(self.classes_)
        n_bits = 2 * k - 2 if self.n_bits is None else self.n_bits
        if n_bits > 2 * k - 2:
            raise ValueError(
                f"n_bits={n_bits!r}: a tree over {k} classes has {2 * k - 2} nodes below its root, "
                f"and each gives one bit: give an integer from 1 to {2 * k - 2}, or None"
            )
        counts = np.bincount(numbers)
        if counts.min() < 2:
            alone = self.classes_.tolist()[counts.argmin()]
            raise ValueError(f"class {alone!r} has one sample in y; two of each class are needed")
        data = centre(samples)
        meta = MetaClass(C=self.C, n_folds=self.n_folds, random_state=self.random_state).fit(data.Z, numbers)
        self.groups_ = meta.groups_[:n_bits]
        return self._set_hyperplanes(meta.coef_[:n_bits].T / data.unit, meta.intercept_[:n_bits], data.mean)

    def _check_state(self) -> None:
        super()._check_state()
        if self.groups_.dtype != bool or self.groups_.shape != (self.n_bits_, len(self.classes_)):
            raise ValueError(f"groups_ is {self.groups_.dtype} {self.groups_.shape}; it must be bool, one row a bit")
