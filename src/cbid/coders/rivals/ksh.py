"""KSH: kernel hyperplanes, one bit at a time, whose inner products follow the similarity of the labels.

S = 2 Y Y' - 1 1', with Y the indicators of the classes, has rank at most n_classes + 1. Products with it cost n, not
n^2, and no matrix of pairs is stored.
"""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.optimize import minimize

from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.mixins import SupervisedMixin, check_arrays
from cbid.coders.rivals.common import Array, Seed, fix_signs
from cbid.learning.features import Anchors
from cbid.learning.scaling import NOTHING_VARIES, check_squares, indicator
from cbid.params import check_params, estimator, integer, param, positive


@estimator
class KSH(SupervisedMixin, HyperplaneCoder):
    """Supervised hashing with kernels (Liu, Wang, Ji, Jiang and Chang, CVPR 2012).

    The codes H (n, n_bits) of labelled samples should have H H' / n_bits near S, which is +1 for a pair of one class
    (or of at least one common label) and -1 for other pairs. Bits are learned greedily. Let R be the part of n_bits S
    that earlier bits do not explain. The next bit h = sign(K a), over similarities K around their mean, should
    maximise h' R h. The initial a is the leading generalised eigenvector of (K' R K, K' K). Then the smoothed sign
    tanh(K a / 2) is optimised, by L-BFGS instead of the paper's accelerated gradient. Of both directions, the one
    with the larger h' R h is kept.

    Parameters
    ----------
    n_bits : int, default=64
    n_anchors : int, default=300
        Random training samples that serve as anchors (300 in the paper).
    gamma : float > 0 or None, default=None
        Parameter of the kernel. None: 1 / (2 s), where s is the mean squared distance of samples and anchors, as in
        the authors' program.
    n_labelled : int or None, default=None
        Number of random training samples to learn from. None: all. The paper uses 1,000 to 5,000.
    n_iter : int, default=500
        Largest number of L-BFGS iterations per bit (500 steps in the paper).
    random_state : int, RandomState or None, default=0
        Seed of the anchors and the labelled samples.

    Attributes
    ----------
    objective_ : (n_bits,)
        Mean of (S - H H' / n_bits)^2 over the labelled pairs, after each bit.
    """

    _ARRAYS = HyperplaneCoder._ARRAYS | {"objective_"}

    n_bits: int = param(64, integer(1, MOST_BITS))
    n_anchors: int = param(300, integer(1))
    gamma: float | None = param(None, positive)
    n_labelled: int | None = param(None, integer(1))
    n_iter: int = param(500, integer(0))
    random_state: Seed = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,), or a matrix or lists of several labels each."""
        check_params(self)
        samples, kinds = self._label_kinds(X, y)
        labels = kinds.numbers
        rng = generator(self.random_state)
        points = samples[np.sort(rng.choice(len(samples), min(self.n_anchors, len(samples)), replace=False))]
        anchors = Anchors(points, _width(samples, points) if self.gamma is None else float(self.gamma))
        K = anchors(samples)
        mean = K.mean(axis=0, dtype=np.float64)
        if self.n_labelled is not None and self.n_labelled < len(K):
            labelled = np.sort(rng.choice(len(K), self.n_labelled, replace=False))
            K, labels = K[labelled], labels[labelled]
        centred = K - mean
        basis = _whitening(centred)
        A, H = learn_bits(centred @ basis, labels, kinds.n_kinds, self.n_bits, self.n_iter, kinds.alike)
        self.objective_ = residues(H, labels, kinds.n_kinds, kinds.alike)
        return self._set_hyperplanes(basis @ A, 0.0, mean, anchors)

    def _check_state(self) -> None:
        super()._check_state()
        check_arrays(self, {"objective_": (self.n_bits_,)})


class ClassAffinity:
    """R = scale S - sum over the bits added so far of h h', as an operator on (n,) or (n, c).

    ``alike`` (classes, classes) says which classes are similar; None: each only to itself.
    """

    def __init__(
        self,
        labels: NDArray[np.integer],
        n_classes: int,
        *,
        scale: float,
        capacity: int,
        alike: NDArray[np.bool_] | None = None,
    ) -> None:
        self.labels, self.scale = labels, scale
        self._alike = None if alike is None else alike.astype(np.float64)
        self._Y = indicator(labels, n_classes)
        self._H = np.empty((capacity, len(labels)))
        self._n_bits = 0

    @property
    def bits(self) -> Array:
        """Return the bits added so far, (n, t)."""
        return self._H[: self._n_bits].T

    def add(self, h: Array) -> None:
        """Add one bit (n,) in -1/+1."""
        self._H[self._n_bits] = h
        self._n_bits += 1

    def times(self, V: Array) -> Array:
        """Return R V."""
        sums = (V.T @ self._Y).T
        if self._alike is not None:
            sums = self._alike @ sums
        product = self.scale * (2 * sums[self.labels] - V.sum(axis=0))
        return product - self.bits @ (self.bits.T @ V)


def learn_bits(
    Z: Array,
    labels: NDArray[np.integer],
    n_classes: int,
    n_bits: int,
    n_iter: int,
    alike: NDArray[np.bool_] | None = None,
) -> tuple[Array, Array]:
    """Return directions A (c, n_bits) and bits H (n, n_bits) for whitened features Z (n, c) with Z' Z = n I."""
    R = ClassAffinity(labels, n_classes, scale=n_bits, capacity=n_bits, alike=alike)
    scatter = Z.T @ R.times(Z)  # Z' R Z; every bit subtracts one term
    A = np.empty((Z.shape[1], n_bits))
    for s in range(n_bits):
        start = leading_direction(scatter)
        candidates = [start]
        if n_iter:
            candidates.append(climb(Z, R, start, n_iter))
        bits = [np.where(Z @ a >= 0, 1.0, -1.0) for a in candidates]
        best = int(np.argmax([h @ R.times(h) for h in bits]))
        A[:, s] = candidates[best]
        R.add(bits[best])
        projection = Z.T @ bits[best]
        scatter -= np.outer(projection, projection)
    return A, R.bits


def leading_direction(scatter: Array) -> Array:
    """Return the leading eigenvector, of unit length; then Z a has unit variance."""
    last = len(scatter) - 1
    a = eigh(scatter, subset_by_index=(last, last))[1][:, 0]
    return fix_signs(a, axis=0)


def climb(Z: Array, R: ClassAffinity, start: Array, n_iter: int) -> Array:
    """Maximise b' R b, b = tanh(Z a / 2), over directions a by L-BFGS."""
    size = float(R.scale) * len(Z) ** 2

    def loss(a: Array) -> tuple[float, Array]:
        b = np.tanh(Z @ a / 2)
        Rb = R.times(b)
        return -float(b @ Rb) / size, -(Z.T @ (Rb * (1 - b * b))) / size

    return minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": n_iter, "ftol": 1e-7}).x


def residues(H: Array, labels: NDArray[np.integer], n_classes: int, alike: NDArray[np.bool_] | None = None) -> Array:
    """Return the mean over pairs of (S - H H' / t)^2 for the first 1, 2, ... of the t bits, from class sums.

    S^2 is 1 for every pair; h_s' S h_s = 2 sum over classes of (sum of h_s in the class)^2 - (sum of h_s)^2, where
    the product of the sums of two similar classes counts like a square.
    """
    n, t = H.shape
    sums = np.zeros((n_classes, t))
    np.add.at(sums, labels, H)
    along = 2 * np.sum(sums * (sums if alike is None else alike @ sums), axis=0) - H.sum(axis=0) ** 2  # h' S h
    crossed = (H.T @ H) ** 2
    # Bit s adds to ||H H'||^2 its own square and twice its squares with the bits before it.
    square = np.cumsum(2 * np.tril(crossed, -1).sum(axis=1) + np.diag(crossed))
    return 1 - 2 * np.cumsum(along) / (t * n**2) + square / (t * n) ** 2


def _width(X: NDArray[np.floating], points: NDArray[np.floating]) -> float:
    """Return 1 / (2 s), s the mean squared distance of samples and anchors, from means and variances."""
    shift = X.mean(axis=0, dtype=np.float64) - points.mean(axis=0, dtype=np.float64)
    s = float(X.var(axis=0, dtype=np.float64).sum() + points.var(axis=0, dtype=np.float64).sum() + shift @ shift)
    check_squares(s, X)
    return 1 / (2 * s) if s > 0 else 1.0


def _whitening(K: Array) -> Array:
    """Return a basis (m, c) with (K basis)' (K basis) = n I; directions without variance are dropped."""
    values, vectors = np.linalg.eigh(K.T @ K / len(K))
    kept = values > max(1e-10 * values[-1], np.finfo(np.float64).tiny)
    if not kept.any():
        raise ValueError(NOTHING_VARIES)
    return vectors[:, kept] / np.sqrt(values[kept])
