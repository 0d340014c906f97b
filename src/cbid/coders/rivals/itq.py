"""Iterative quantisation."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from cbid.checks import check_integer
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.rivals.rotation import fit_rotation
from cbid.learning.axes import check_enough_axes, parts, principal_axes

__all__ = ["ITQ"]


class ITQ(HyperplaneCoder):
    """Leading principal axes, rotated so that taking signs loses least (Gong and Lazebnik, CVPR 2011).

    Minimises ||B - V R||^2 over codes B and rotations R, where V are the projections on as many axes as there are
    bits. The rotation mixes all axes: a prefix is no code of its own.

    Parameters
    ----------
    n_bits : int
        At most the number of axes along which X varies.
    n_iter : int
        Turns of codes and rotation (the paper's 50).
    random_state : int, RandomState or None
        Draws the rotation that learning starts from.
    """

    def __init__(self, *, n_bits: int = 64, n_iter: int = 50, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from vectors X (n, d); y is not used."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        check_integer("n_iter", self.n_iter, 0)
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        mean, axes = principal_axes(samples, self.n_bits)
        check_enough_axes(self.n_bits, len(axes.vectors), samples)
        W = axes.vectors.T  # (d, n_bits)
        V = np.concatenate([(samples[part] - mean) @ W for part in parts(len(samples))])
        R = fit_rotation(V, self.n_bits, n_iter=self.n_iter, rng=generator(self.random_state))
        return self._set_hyperplanes(W @ R, 0.0, mean)
