"""Iterative quantisation: axes rotated so that taking signs loses least, after PCA (ITQ) or CCA (CCA-ITQ)."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.mixins import SupervisedMixin
from cbid.coders.rivals.common import Seed, check_vectors
from cbid.coders.rivals.signs import canonical_directions, canonical_directions_of_sets
from cbid.learning.axes import check_enough_axes, parts, principal_axes
from cbid.learning.likeness import fit_rotation
from cbid.learning.scaling import centre
from cbid.params import check_params, estimator, integer, param, real

__all__ = ["CCAITQ", "ITQ"]


@estimator
class ITQ(HyperplaneCoder):
    """Iterative quantisation of the leading principal axes (Gong and Lazebnik, CVPR 2011).

    Minimises ||B - V R||^2 over codes B and rotations R, where V are the projections on ``n_bits`` axes. The rotation
    mixes all axes, so a prefix is not a code of its own.

    Parameters
    ----------
    n_bits : int, default=64
        At most the number of axes along which X varies.
    n_iter : int, default=50
        Iterations over codes and rotation (50 in the paper).
    random_state : int, RandomState or None, default=0
        Seed of the initial rotation.
    """

    n_bits: int = param(64, integer(1, MOST_BITS))
    n_iter: int = param(50, integer(0))
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from vectors X (n, d); y is ignored."""
        samples = check_vectors(self, X)
        mean, axes = principal_axes(samples, self.n_bits)
        check_enough_axes(self.n_bits, len(axes.vectors), samples)
        W = axes.vectors.T  # (d, n_bits)
        V = np.concatenate([(samples[part] - mean) @ W for part in parts(len(samples))])
        R = fit_rotation(V, self.n_bits, n_iter=self.n_iter, rng=generator(self.random_state))
        return self._set_hyperplanes(W @ R, 0.0, mean)


@estimator
class CCAITQ(SupervisedMixin, HyperplaneCoder):
    """Iterative quantisation of canonical directions (Gong and Lazebnik, CVPR 2011 and PAMI 2013).

    Each canonical direction of samples and labels is weighted by its correlation, as in the paper. There are at most
    n_classes - 1 of them; with more bits, the rotation distributes them over all bits.

    Parameters
    ----------
    n_bits : int, default=64
    reg : float >= 0, default=1e-4
        Regularisation of the covariance of X, relative to the mean variance of its columns.
    n_iter : int, default=50
        Iterations over codes and rotation (50 in the paper).
    random_state : int, RandomState or None, default=0
        Seed of the initial rotation.
    """

    n_bits: int = param(64, integer(1, MOST_BITS))
    reg: float = param(1e-4, real(0))
    n_iter: int = param(50, integer(0))
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,), or a matrix or lists of several labels each."""
        check_params(self)
        samples, kinds = self._label_kinds(X, y)
        data = centre(samples)
        if kinds.alike is None:
            W, correlations = canonical_directions(data.Z, kinds.numbers, len(self.classes_), reg=self.reg)
        else:
            W, correlations = canonical_directions_of_sets(data.Z, kinds.matrix, reg=self.reg)
        W = (W * correlations)[:, : self.n_bits]
        R = fit_rotation(data.Z @ W, self.n_bits, n_iter=self.n_iter, rng=generator(self.random_state))
        return self._set_hyperplanes(W @ R / data.unit, 0.0, data.mean)
