"""Supervised discrete hashing: codes that a linear classifier separates, kept binary during learning."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve

from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator, kernel_features
from cbid.coders.mixins import SupervisedMixin, check_arrays
from cbid.coders.rivals.common import Array, Seed
from cbid.learning.ridge import RidgeMap
from cbid.learning.scaling import centre
from cbid.params import check_params, estimator, integer, param, positive, real

__all__ = ["SDH"]


@estimator
class SDH(SupervisedMixin, HyperplaneCoder):
    """Supervised discrete hashing (Shen, Shen, Liu and Shen, CVPR 2015), with the squared loss.

    Minimises ||Y - B W||^2 + lam ||W||^2 + nu (||B - F P||^2 + ridge ||P||^2) over bits B in -1/+1 (n, n_bits),
    classifiers W and hash functions P. Y holds the indicators of the classes and F the features: similarities to
    anchors, or X. W and P are ridge regressions. Each column of B is updated exactly, given the others (discrete
    cyclic coordinate descent). The code of x is the sign of f(x) P.

    Parameters
    ----------
    n_bits : int, default=64
    kernel : {"rbf", None}, default="rbf"
        Similarities to ``n_anchors`` random training samples, as in the paper, or X itself.
    n_anchors : int, default=1000
    gamma : float > 0 or None, default=None
        Parameter of the kernel. None: the inverse of the total variance of X.
    lam, nu : float, default=1.0 and 1e-5
        Weights of the classifiers' ridge and of the fit of the hash functions (as in the authors' program).
    ridge : float, default=1e-2
        Ridge of the hash functions (as in the authors' program), with X centred and scaled to unit mean squared
        length.
    n_iter : int, default=5
        Iterations over W, P and B (5 in the authors' program).
    n_sweeps : int, default=10
        Largest number of passes over the bits in an iteration; they stop when no bit changes.
    random_state : int, RandomState or None, default=0
        Seed of the anchors and the initial bits.

    Attributes
    ----------
    objective_ : (n_iter + 1,)
        Value after fitting W and P to the initial bits, and after each iteration.
    """

    _ARRAYS = HyperplaneCoder._ARRAYS | {"objective_"}

    n_bits: int = param(64, integer(1, MOST_BITS))
    kernel: str | None = "rbf"
    n_anchors: int = 1000
    gamma: float | None = None
    lam: float = param(1.0, positive)
    nu: float = param(1e-5, real(0))
    ridge: float = param(1e-2, real(0))
    n_iter: int = param(5, integer(1))
    n_sweeps: int = param(10, integer(1))
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,), or a matrix or lists of several labels each."""
        check_params(self)
        self._check_kernel(self.kernel, self.n_anchors, self.gamma)
        samples, kinds = self._label_kinds(X, y)
        rng = generator(self.random_state)
        anchors, F = kernel_features(samples, kernel=self.kernel, n_anchors=self.n_anchors, gamma=self.gamma, rng=rng)
        functions = RidgeMap(F, self.ridge, unit=1.0 if anchors else centre(F).unit)
        Y = kinds.matrix.toarray().astype(np.float64)
        B = np.where(rng.standard_normal((len(Y), self.n_bits)) >= 0, 1.0, -1.0)
        trace = []
        for turn in range(self.n_iter + 1):
            W = fit_classifiers(B, Y, self.lam)
            P, offset = functions.solve(B)
            FP = functions.apply(P, offset)
            fit = np.sum((B - FP) ** 2) + self.ridge * np.sum(P**2)
            trace.append(np.sum((Y - B @ W) ** 2) + self.lam * np.sum(W**2) + self.nu * fit)
            if turn < self.n_iter:
                B = update_bits(B, W, Y @ W.T + self.nu * FP, self.n_sweeps)
        self.objective_ = np.array(trace)
        return self._set_hyperplanes(P / functions.unit, offset, functions.mean, anchors)

    def _check_state(self) -> None:
        super()._check_state()
        check_arrays(self, {"objective_": (self.n_iter + 1,)})


def fit_classifiers(B: Array, Y: Array, lam: float) -> Array:
    """Return W (t, k), the ridge regression of the indicators on the bits."""
    return solve(B.T @ B + lam * np.eye(B.shape[1]), B.T @ Y, assume_a="pos")


def update_bits(B: Array, W: Array, Q: Array, n_sweeps: int) -> Array:
    """Lower ||B W||^2 - 2 tr(B' Q), Q = Y W' + nu F P, over the bits B, one column at a time.

    With the other columns fixed, the best column s is sign(Q_s - B W w_s' + B_s |w_s|^2); a tie keeps the old bit.
    """
    B = B.copy()
    gram = W @ W.T
    for _ in range(n_sweeps):
        changed = False
        for s in range(B.shape[1]):
            pull = Q[:, s] - B @ gram[s] + B[:, s] * gram[s, s]
            new = np.where(pull == 0, B[:, s], np.sign(pull))
            changed |= not np.array_equal(new, B[:, s])
            B[:, s] = new
        if not changed:
            break
    return B
