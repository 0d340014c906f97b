"""The search for one new bit: the most violated dual constraint (docs/method.md, section 6).

Maximise over the hyperplane (beta, b), and over the weight vector r the bit would enter under,
Pi_r(h) = sum over pairs of c_ij |h_i - h_j|, h = sign(X beta + b). The problem is not convex, so the start decides:
many directions are tried, each at its exactly best threshold; the best few climb the relaxed objective by L-BFGS;
the true objective has the last word. A bit may then be smoothed: the ridge regression of its values on the features
takes the place of its hyperplane, which follows the training samples more closely than it should in many dimensions.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from cbid.learning.graph import Graph, worth
from cbid.learning.ridge import RidgeMap

__all__ = ["SIGMOIDS", "STARTS", "Bit", "BitSearch", "Sigmoid", "relaxed_objective"]

Array = NDArray[np.float32]
Real = NDArray[np.floating]
Sigmoid = Callable[[Real], tuple[Real, Real]]  # z -> value, derivative


def arctan(z: Real) -> tuple[Real, Real]:
    """(2 / pi) arctan z: the paper's choice; heavy tails keep a gradient on far points."""
    return (2 / np.pi) * np.arctan(z), (2 / np.pi) / (1 + z * z)


def logistic(z: Real) -> tuple[Real, Real]:
    """2 / (1 + exp(-z)) - 1."""
    p = expit(z)
    return 2 * p - 1, 2 * p * (1 - p)


def tanh(z: Real) -> tuple[Real, Real]:
    """tanh z."""
    h = np.tanh(z)
    return h, 1 - h * h


SIGMOIDS: dict[str, Sigmoid] = {"arctan": arctan, "logistic": logistic, "tanh": tanh}


STARTS = ("pencil", "spectral", "random", "paper")


@dataclass(frozen=True)
class Bit:
    """A hyperplane in the learner's features, its values on the training samples, and its worth Pi.

    ``whitened``: beta is a direction over whitened features; otherwise over those from which they were made, centred.
    ``likeness``: a bit of likeness, whose beta is over X, centred.
    """

    beta: NDArray[np.float64]
    intercept: float
    h: Array
    value: float
    whitened: bool = True
    likeness: bool = False


def relaxed_objective(
    params: NDArray[np.float64], X: Array, graph: Graph, sigmoid: Sigmoid, ridge: float
) -> tuple[float, NDArray[np.float64]]:
    """-(h' L h) / size + ridge ||beta||^2 with h = sigma(X beta + b), and its gradient in (beta, b).

    Divided by the total edge weight, so that ``ridge`` means the same at the first bit and at the last.
    """
    beta, b = params[:-1], params[-1]
    h, slope = sigmoid(X @ beta.astype(np.float32) + np.float32(b))
    Lh = graph.laplacian_times(h)
    value = float(np.dot(h.astype(np.float64), Lh)) / graph.size
    g = (2 / graph.size) * Lh * slope  # (n,)
    gradient = np.append(X.T @ g.astype(np.float32), g.sum(dtype=np.float64)).astype(np.float64)
    gradient[:-1] -= 2 * ridge * beta
    return ridge * float(beta @ beta) - value, -gradient


# Iterations of L-BFGS; a start rarely gains after that, and the best threshold is found exactly anyway.
_MOST_ITERATIONS = 60
# Deviation of the projections at the start of a climb: wide enough to tell bits, not yet flat.
_SHARPNESS = 2.0
# Of the starts, this share is spectral and the rest random, which reach where the leading eigenvectors do not.
_SPECTRAL_SHARE = 1 / 3
# Vectors beyond those asked for, and products with the matrix, of the Krylov space of a spectral start.
_OVERSAMPLING = 2
_KRYLOV_DEPTH = 5
# A bit that loses more of its worth in smoothing stays as it was found.
_LEAST_KEPT = 0.5


class BitSearch:
    """Finds bits over features X (n, d), float32, whitened: uncorrelated columns of at most unit variance.

    scale : (d,) what each column was divided by in whitening
    starts : one of STARTS
    n_starts : directions tried per weight vector
    n_climbs : how many of the best starts L-BFGS improves
    smoothing : the regression, on the features before whitening, that smooths a bit; None: bits stay as found
    """

    def __init__(
        self,
        X: Array,
        *,
        scale: NDArray[np.floating],
        sigmoid: Sigmoid,
        ridge: float,
        starts: str,
        n_starts: int,
        n_climbs: int,
        smoothing: RidgeMap | None = None,
    ) -> None:
        self.X = X
        self.scale = scale
        self.sigmoid = sigmoid
        self.ridge = ridge
        self.starts = starts
        self.n_starts = n_starts
        self.n_climbs = n_climbs
        self.smoothing = smoothing

    def best(self, graphs: Iterable[Graph], taken: "TakenBits", rng: np.random.Generator) -> Bit | None:
        """The best new bit over all graphs (one per weight vector), or None when every bit found is taken."""
        starts: list[tuple[Graph, Bit]] = []  # the best so far, to climb from
        others: list[Bit] = []  # the rest, whose graphs need not be held
        for graph in graphs:
            if graph.size:
                starts += [(graph, bit) for bit in self._start(graph, rng)]
                starts.sort(key=lambda start: -start[1].value)
                others += [bit for _, bit in starts[self.n_climbs :]]
                del starts[self.n_climbs :]
        climbed = [self._climb(graph, bit) for graph, bit in starts]
        if self.smoothing is not None and climbed:
            graph, bit = max(zip((graph for graph, _ in starts), climbed), key=lambda pair: pair[1].value)
            for smooth in self._smoothed(graph, self.smoothing, bit):
                if smooth.value > _LEAST_KEPT * bit.value and not taken.holds(smooth.h):
                    return smooth
        found = climbed + [bit for _, bit in starts] + others
        fresh = (bit for bit in sorted(found, key=lambda bit: -bit.value) if not taken.holds(bit.h))
        return next(fresh, None)

    def _start(self, graph: Graph, rng: np.random.Generator) -> list[Bit]:
        d = self.X.shape[1]
        if self.starts == "paper":
            return self._at_own_threshold(
                graph, rng.standard_normal((d, self.n_starts)), rng.standard_normal(self.n_starts)
            )
        n_spectral = 0 if self.starts == "random" else min(d, round(self.n_starts * _SPECTRAL_SHARE))
        directions = rng.standard_normal((d, self.n_starts - n_spectral))
        if n_spectral:
            directions = np.hstack([directions, self._leading_directions(graph, n_spectral, rng)])
        return self._at_best_threshold(graph, directions)

    def _leading_directions(self, graph: Graph, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return leading eigenvectors (d, count) of the pencil (X' L X, X' X + ridge), or of X' L X before whitening.

        Whitening with a ridge makes X' X + ridge the identity, so the pencil is an ordinary eigenproblem. Before
        whitening the columns were ``scale`` times as large. X' L X is never formed: a block Krylov space from a few
        random vectors holds the leading eigenvectors to the accuracy that a start needs.
        """
        d = self.X.shape[1]
        back = self.scale.astype(np.float32)[:, None] if self.starts == "spectral" else np.float32(1)

        def times(V: Array) -> Array:
            return back * (self.X.T @ graph.laplacian_times(self.X @ (back * V)))

        block = rng.standard_normal((d, min(d, count + _OVERSAMPLING))).astype(np.float32)
        basis = [np.linalg.qr(block)[0]]
        for _ in range(_KRYLOV_DEPTH if len(basis[0].T) < d else 0):
            basis.append(np.linalg.qr(times(basis[-1]))[0])
        Q = np.linalg.qr(np.hstack(basis))[0]
        projected = (Q.T @ times(Q)).astype(np.float64)
        vectors = Q @ np.linalg.eigh((projected + projected.T) / 2)[1][:, -count:]
        # Eigenvectors have no sign; fixing it keeps rounding from turning a bit into its complement.
        largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
        return back * vectors * np.where(largest < 0, -1.0, 1.0)

    def _climb(self, graph: Graph, start: Bit) -> Bit:
        spread = float(np.std(self.X @ start.beta.astype(np.float32))) or 1.0
        params = np.append(start.beta, start.intercept) * (_SHARPNESS / spread)
        result = minimize(
            relaxed_objective,
            params,
            args=(self.X, graph, self.sigmoid, self.ridge),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _MOST_ITERATIONS},
        )
        beta, b = result.x[:-1, None], result.x[-1:]
        ends = (
            self._at_own_threshold(graph, beta, b) if self.starts == "paper" else self._at_best_threshold(graph, beta)
        )
        return max([start, *ends], key=lambda bit: bit.value)

    def _smoothed(self, graph: Graph, smoothing: RidgeMap, bit: Bit) -> list[Bit]:
        """The bit of the regression of a bit's values, at its best threshold; none where that is constant."""
        direction, _ = smoothing.solve(bit.h[:, None])
        P = smoothing.apply(direction, np.zeros(1)).astype(np.float32)
        return self._bits_at_best_threshold(graph, direction / smoothing.unit, P, whitened=False)

    def _at_own_threshold(self, graph: Graph, directions: NDArray[np.float64], b: NDArray[np.float64]) -> list[Bit]:
        """The bits of hyperplanes (d, m), (m,) as they are."""
        H = np.where(
            self.X @ directions.astype(np.float32) + b.astype(np.float32) >= 0, np.float32(1), np.float32(-1)
        )
        return [Bit(directions[:, c], float(b[c]), H[:, c], worth(graph, H[:, c])) for c in range(len(b))]

    def _at_best_threshold(self, graph: Graph, directions: NDArray[np.float64]) -> list[Bit]:
        """A bit for every direction (d, m) that parts the samples at all."""
        return self._bits_at_best_threshold(graph, directions, self.X @ directions.astype(np.float32), whitened=True)

    @staticmethod
    def _bits_at_best_threshold(
        graph: Graph, directions: NDArray[np.float64], P: Array, *, whitened: bool
    ) -> list[Bit]:
        """The same from the samples' projections P (n, m)."""
        thresholds, values = graph.best_thresholds(P)
        return [
            Bit(
                directions[:, c],
                -thresholds[c],
                np.where(P[:, c] >= thresholds[c], 1, -1).astype(np.float32),
                v,
                whitened,
            )
            for c, v in enumerate(values)
            if np.isfinite(v)
        ]


class TakenBits:
    """The bits learned so far, packed, so that a copy or a near copy is never emitted again.

    ``distinct`` is the least share of training samples in which two bits, or a bit and another's complement, must
    differ; however small, at least one sample must.
    """

    def __init__(self, n: int, capacity: int, distinct: float) -> None:
        self.n = n
        self.least = max(1, int(np.ceil(distinct * n)))
        self._packed = np.empty((capacity, (n + 7) // 8), dtype=np.uint8)
        self._count = 0

    def add(self, h: Array) -> None:
        self._packed[self._count] = np.packbits(h > 0)
        self._count += 1

    def holds(self, h: Array) -> bool:
        """Whether h is constant, or (nearly) one of the bits or the complement of one."""
        ones = int((h > 0).sum())
        if min(ones, self.n - ones) < 1:
            return True
        differ = np.bitwise_count(self._packed[: self._count] ^ np.packbits(h > 0)).sum(axis=1, dtype=np.int64)
        return bool((np.minimum(differ, self.n - differ) < self.least).any())
