"""KSH."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.optimize import minimize

from cbid.checks import check_integer
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder, generator
from cbid.coders.shapes import check_arrays
from cbid.coders.supervised import SupervisedMixin
from cbid.learning.centring import indicator
from cbid.learning.features import Anchors
from cbid.learning.variation import NOTHING_VARIES, check_squares

__all__ = ["KSH"]

Array = NDArray[np.float64]


class KSH(SupervisedMixin, HyperplaneCoder):
    """Supervised hashing with kernels (Liu, Wang, Ji, Jiang and Chang, CVPR 2012).

    The codes H (n, n_bits) of labelled samples shall have H H' / n_bits near S, which is +1 for a pair of one class
    and -1 for others. Bits are found greedily: with R the part of n_bits S that earlier bits have not explained, the
    next one, h = sign(K a) over similarities K around their mean, shall maximise h' R h. A start comes from the
    largest generalised eigenvector of (K' R K, K' K); then the sign is smoothed, tanh(K a / 2), and climbed. The
    better of both, by h' R h, is kept.

    S has as many terms as there are classes, so that all samples can be labelled ones and no pair is stored. The
    climb is by L-BFGS in place of the paper's accelerated gradient.

    Parameters
    ----------
    n_bits : int
    n_anchors : int
        Random training samples that similarities are taken to (the paper's 300).
    gamma : float > 0 or None
        Width of the kernel. None: 1 / (2 s) with s the mean squared distance of samples and anchors, as in the
        authors' program.
    n_labelled : int or None
        How many training samples the bits are learned from, drawn at random; None: all. The paper takes 1,000 to
        5,000.
    n_iter : int
        Most steps of a climb (the paper's 500).
    random_state : int, RandomState or None
        Draws the anchors and the labelled samples.

    Attributes
    ----------
    objective_ : (n_bits,)
        ||S - H H' / n_bits||^2 over the labelled pairs, divided by their number, after each bit (with the bits so
        far).
    """

    _ARRAYS = HyperplaneCoder._ARRAYS | {"objective_"}

    def __init__(
        self,
        *,
        n_bits: int = 64,
        n_anchors: int = 300,
        gamma: float | None = None,
        n_labelled: int | None = None,
        n_iter: int = 500,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.gamma = gamma
        self.n_labelled = n_labelled
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from vectors X (n, d) and labels y (n,)."""
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        self._check_kernel("rbf", self.n_anchors, self.gamma)
        if self.n_labelled is not None:
            check_integer("n_labelled", self.n_labelled, 1)
        check_integer("n_iter", self.n_iter, 0)
        samples, numbers = self._labelled(X, y)
        rng = generator(self.random_state)
        points = samples[np.sort(rng.choice(len(samples), min(self.n_anchors, len(samples)), replace=False))]
        anchors = Anchors(points, _width(samples, points) if self.gamma is None else float(self.gamma))
        K = anchors(samples)
        mean = K.mean(axis=0, dtype=np.float64)
        if self.n_labelled is not None and self.n_labelled < len(K):
            labelled = np.sort(rng.choice(len(K), self.n_labelled, replace=False))
            K, numbers = K[labelled], numbers[labelled]
        centred = K - mean
        basis = _whitening(centred)
        A, H = learn_bits(centred @ basis, numbers, len(self.classes_), self.n_bits, self.n_iter)
        self.objective_ = residues(H, numbers, len(self.classes_))
        return self._set_hyperplanes(basis @ A, 0.0, mean, anchors)

    def _check_state(self) -> None:
        super()._check_state()
        check_arrays(self, {"objective_": (self.n_bits_,)})


class ClassAffinity:
    """R = scale S - sum over the bits taken so far of h h', as an operator on (n,) or (n, c)."""

    def __init__(self, numbers: NDArray[np.integer], n_classes: int, *, scale: float, capacity: int) -> None:
        self.numbers, self.scale = numbers, scale
        self._Y = indicator(numbers, n_classes)
        self._H = np.empty((capacity, len(numbers)))
        self._taken = 0

    @property
    def bits(self) -> Array:
        """The bits taken so far, (n, taken)."""
        return self._H[: self._taken].T

    def take(self, h: Array) -> None:
        """Take in one more bit (n,) in -1/+1."""
        self._H[self._taken] = h
        self._taken += 1

    def times(self, V: Array) -> Array:
        """R V."""
        product = self.scale * (2 * (V.T @ self._Y).T[self.numbers] - V.sum(axis=0))
        return product - self.bits @ (self.bits.T @ V)


def learn_bits(
    Z: Array, numbers: NDArray[np.integer], n_classes: int, n_bits: int, n_iter: int
) -> tuple[Array, Array]:
    """Directions A (c, n_bits) and bits H (n, n_bits), in features with Z' Z = n I, where the pencil is plain."""
    R = ClassAffinity(numbers, n_classes, scale=n_bits, capacity=n_bits)
    scatter = Z.T @ R.times(Z)  # Z' R Z, kept up to date by one term a bit
    A = np.empty((Z.shape[1], n_bits))
    for s in range(n_bits):
        start = leading_direction(scatter)
        candidates = [start]
        if n_iter:
            candidates.append(climb(Z, R, start, n_iter))
        bits = [np.where(Z @ a >= 0, 1.0, -1.0) for a in candidates]
        best = int(np.argmax([h @ R.times(h) for h in bits]))
        A[:, s] = candidates[best]
        R.take(bits[best])
        pull = Z.T @ bits[best]
        scatter -= np.outer(pull, pull)
    return A, R.bits


def leading_direction(scatter: Array) -> Array:
    """The eigenvector of the largest eigenvalue, of unit length: then Z a has unit variance."""
    last = len(scatter) - 1
    a = eigh(scatter, subset_by_index=(last, last))[1][:, 0]
    return a * (np.sign(a[np.abs(a).argmax()]) or 1.0)  # a definite sign, whatever LAPACK's


def climb(Z: Array, R: ClassAffinity, start: Array, n_iter: int) -> Array:
    """A direction that raises b' R b, b = tanh(Z a / 2), by L-BFGS."""
    size = float(R.scale) * len(Z) ** 2

    def lost(a: Array) -> tuple[float, Array]:
        b = np.tanh(Z @ a / 2)
        Rb = R.times(b)
        return -float(b @ Rb) / size, -(Z.T @ (Rb * (1 - b * b))) / size

    return minimize(lost, start, jac=True, method="L-BFGS-B", options={"maxiter": n_iter, "ftol": 1e-7}).x


def residues(H: Array, numbers: NDArray[np.integer], n_classes: int) -> Array:
    """Mean over pairs of (S - H H' / t)^2 for the first 1, 2, ... of the t bits, from sums over classes alone.

    S^2 is 1 for every pair; h_s' S h_s = 2 sum over classes of (sum of h_s in the class)^2 - (sum of h_s)^2.
    """
    n, t = H.shape
    sums = np.zeros((n_classes, t))
    np.add.at(sums, numbers, H)
    along = 2 * np.sum(sums**2, axis=0) - H.sum(axis=0) ** 2  # h' S h
    crossed = (H.T @ H) ** 2
    # Adding bit s adds to ||H H'||^2 its square with itself and twice those with the bits before it.
    square = np.cumsum(2 * np.tril(crossed, -1).sum(axis=1) + np.diag(crossed))
    return 1 - 2 * np.cumsum(along) / (t * n**2) + square / (t * n) ** 2


def _width(X: NDArray[np.floating], points: NDArray[np.floating]) -> float:
    """1 / (2 s), s the mean squared distance of samples and anchors, from means and variances alone."""
    apart = X.mean(axis=0, dtype=np.float64) - points.mean(axis=0, dtype=np.float64)
    spread = X.var(axis=0, dtype=np.float64).sum() + points.var(axis=0, dtype=np.float64).sum() + apart @ apart
    check_squares(float(spread), X)
    return 1 / (2 * float(spread)) if spread > 0 else 1.0


def _whitening(K: Array) -> Array:
    """A basis (m, c) with (K basis)' (K basis) = n I; directions without variance are left out."""
    values, vectors = np.linalg.eigh(K.T @ K / len(K))
    kept = values > max(1e-10 * values[-1], np.finfo(np.float64).tiny)
    if not kept.any():
        raise ValueError(NOTHING_VARIES)
    return vectors[:, kept] / np.sqrt(values[kept])
