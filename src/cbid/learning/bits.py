"""The search for one new bit: the most violated dual constraint (docs/method.md, section 6).

Maximise over the hyperplane (beta, b), and over the weight vector r the bit would enter under,
Pi_r(h) = sum over pairs of c_ij |h_i - h_j|, h = sign(X beta + b). The problem is not convex, so the start decides:
many directions are tried, each at its exactly best threshold; the best few climb the relaxed objective by L-BFGS;
the true objective has the last word. A bit may then be smoothed: the ridge regression of its values on the features
takes the place of its hyperplane, which follows the training samples more closely than it should in many dimensions.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from cbid.learning.graph import Graph, WeightedClassGraph, worths
from cbid.learning.ridge import RidgeMap
from cbid.learning.sides import WholeClassSides
from cbid.threads import each

__all__ = ["SIGMOIDS", "STARTS", "Bit", "BitSearch", "Sigmoid", "TakenBits", "descend", "relaxed_objective"]

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
    ``shares``: a class bit whose beta is over the shares of the classes.
    """

    beta: NDArray[np.float64]
    intercept: float
    h: Array
    value: float
    whitened: bool = True
    likeness: bool = False
    shares: bool = False


def relaxed_objective(params: Array, X: Array, graph: Graph, sigmoid: Sigmoid, ridge: float) -> tuple[float, Array]:
    """-(h' L h) / size + ridge ||beta||^2 with h = sigma(X beta + b), and its gradient in (beta, b).

    Divided by the total edge weight, so that ``ridge`` means the same at the first bit and at the last.
    """
    beta, b = params[:-1], params[-1]
    h, slope = sigmoid(X @ beta + b)
    Lh = graph.laplacian_times(h)
    value = float(np.dot(h, Lh)) / graph.size
    slope *= Lh
    slope *= np.float32(-2 / graph.size)
    gradient = np.empty_like(params)
    np.dot(slope, X, out=gradient[:-1])
    gradient[:-1] += np.float32(2 * ridge) * beta
    gradient[-1] = slope.sum()
    return ridge * float(np.dot(beta, beta)) - value, gradient


class _ClassObjective:
    """The same for whole classes and the arctan, compiled: a bit takes dozens of these, on few samples."""

    def __init__(self, X: Array, graph: WeightedClassGraph, ridge: float) -> None:
        sides = graph.sides
        self.X = X
        self.about = X, np.ascontiguousarray(graph.V.T), sides.y, sides.sizes, graph.degree
        self.numbers = np.float32(1 / graph.size), np.float32(ridge)
        self.z, self.h = np.empty((2, len(X)), dtype=np.float32)

    def __call__(self, params: Array) -> tuple[float, Array]:
        np.dot(self.X, params[:-1], out=self.z)
        self.z += params[-1]
        np.arctan(self.z, out=self.h)
        gradient = np.empty_like(params)
        return _class_objective(params, *self.about, *self.numbers, self.z, self.h, gradient), gradient


_SAMPLES_AT_A_TIME = 1024  # their values stay in the cache
_TWO_OVER_PI = np.float32(2 / np.pi)


@numba.njit(nogil=True, cache=True, fastmath=True)
def _class_objective(params, X, V, y, sizes, degree, scale, ridge, z, h, gradient):  # type: ignore[no-untyped-def]
    """Return the value and write the gradient, with V (k, n); z = X beta + b and its arctan h are overwritten."""
    n, k = len(h), len(V)
    mean, received = np.zeros(k, np.float32), np.zeros(k, np.float32)
    for i in range(n):
        h[i] *= _TWO_OVER_PI
        mean[y[i]] += h[i]
    mean /= sizes
    Lh = np.empty(n, np.float32)  # as in WeightedClassGraph
    for start in range(0, n, _SAMPLES_AT_A_TIME):
        here = slice(start, start + _SAMPLES_AT_A_TIME)
        some, out = h[here], Lh[here]
        out[:] = degree[here] * some
        for r in range(k):
            edges, of_class, total = V[r, here], mean[r], np.float32(0)
            for i in range(len(some)):
                total += edges[i] * some[i]
                out[i] -= edges[i] * of_class
            received[r] += total
    received /= sizes
    value, total, factor = 0.0, np.float32(0), np.float32(-2) * scale * _TWO_OVER_PI
    for i in range(n):
        Lh[i] -= received[y[i]]
        value += h[i] * Lh[i]
        z[i] = factor * Lh[i] / (np.float32(1) + z[i] * z[i])
        total += z[i]
    np.dot(z, X, gradient[:-1])
    square = np.float32(0)
    for j in range(len(gradient) - 1):
        gradient[j] += np.float32(2) * ridge * params[j]
        square += params[j] * params[j]
    gradient[-1] = total
    return ridge * square - value * scale


def _krylov_space(times: Callable[[Array], Array], d: int, count: int, rng: np.random.Generator) -> Array:
    """Return orthonormal columns (d, m), with m > count where d allows it, near the leading eigenvectors."""
    block = rng.standard_normal((d, min(d, count + _OVERSAMPLING))).astype(np.float32)
    basis = [np.linalg.qr(block)[0]]
    for _ in range(_KRYLOV_DEPTH if len(basis[0].T) < d else 0):
        basis.append(np.linalg.qr(times(basis[-1]))[0])
    return np.linalg.qr(np.hstack(basis))[0]


def descend(
    objective: Callable[[Array], tuple[float, Array]], x: Array, *, max_iter: int, tol: float, memory: int = 8
) -> Array:
    """Return a point below x: L-BFGS with backtracking, until a step gains less than ``tol`` of the value.

    Everything is float32, and the whole costs little more than the evaluations: general solvers spend as long on a
    step as these small problems on an evaluation.
    """
    x = x.copy()
    value, gradient = objective(x)
    # The latest steps, the changes of the gradient along them, and one over their products; oldest overwritten first.
    steps, changes = np.zeros((2, memory, len(x)), dtype=np.float32)
    inverse = np.zeros(memory, dtype=np.float32)
    known, scale = 0, np.float32(1 / max(float(np.linalg.norm(gradient)), 1e-30))
    direction = -scale * gradient
    slope = float(np.dot(direction, gradient))
    for _ in range(max_iter):
        if not slope < 0:
            break
        size = 1.0
        for _ in range(_MOST_HALVINGS):
            new = x + direction if size == 1 else x + np.float32(size) * direction
            new_value, new_gradient = objective(new)
            if new_value <= value + _SUFFICIENT * size * slope:
                break
            # The minimum of the parabola through what is known, within reason.
            curve = new_value - value - size * slope
            size *= min(max(-slope * size / (2 * curve), 0.1), 0.5)
        else:
            break
        gained, value = value - new_value, new_value
        if gained <= tol * abs(value):
            return new
        known, scale, slope = _advance(
            new, new_gradient, x, gradient, steps, changes, inverse, known, scale, direction
        )
    return x


@numba.njit(nogil=True, cache=True, fastmath=True)
def _advance(  # type: ignore[no-untyped-def]
    new, new_gradient, x, gradient, steps, changes, inverse, known, scale, out
):
    """Move to the new point, learn from the step to it, and write the next direction, out = -H gradient.

    H is that of the two loops of L-BFGS. Return the number of steps known, the scale of H and the slope along out.
    """
    memory, d = steps.shape
    curvature, square, place = np.float32(0), np.float32(0), known % memory
    for j in range(d):
        change = new_gradient[j] - gradient[j]
        curvature += (new[j] - x[j]) * change
        square += change * change
    learned = square > 0 and curvature > _LEAST_CURVATURE * square
    for j in range(d):
        if learned:
            steps[place, j] = new[j] - x[j]
            changes[place, j] = new_gradient[j] - gradient[j]
        x[j] = new[j]
        gradient[j] = new_gradient[j]
        out[j] = -gradient[j]
    if learned:
        scale = curvature / square
        inverse[place] = 1 / curvature
        known += 1
    shares = np.empty(memory, np.float32)
    for number in range(known - 1, max(known - memory, 0) - 1, -1):
        place = number % memory
        product = np.float32(0)
        for j in range(d):
            product += steps[place, j] * out[j]
        shares[place] = inverse[place] * product
        for j in range(d):
            out[j] -= shares[place] * changes[place, j]
    for j in range(d):
        out[j] *= scale
    for number in range(max(known - memory, 0), known):
        place = number % memory
        product = np.float32(0)
        for j in range(d):
            product += changes[place, j] * out[j]
        share = shares[place] - inverse[place] * product
        for j in range(d):
            out[j] += share * steps[place, j]
    slope = np.float32(0)
    for j in range(d):
        slope += out[j] * gradient[j]
    return known, scale, slope


# A step must gain this share of what the slope promises; it is shortened at most so many times.
_SUFFICIENT = 1e-4
_MOST_HALVINGS = 10
# A step along which the gradient changes by rounding only teaches nothing.
_LEAST_CURVATURE = np.float32(1e-10)

# Iterations of L-BFGS, and the share of the value that one must gain to be followed by another: a start rarely gains
# after that, and the best threshold is found exactly anyway.
_MOST_ITERATIONS = 60
_LEAST_GAIN = 1e-3
# Deviation of the projections at the start of a climb: wide enough to tell bits, not yet flat.
_SHARPNESS = 2.0
# Of the starts, this share is spectral and the rest random, which reach where the leading eigenvectors do not.
_SPECTRAL_SHARE = 1 / 3
# Up to this many classes, the span of their means is too small; of many, this many leading directions are enough.
_FEW_CLASSES = 4
_MOST_MEANS = 64
# Vectors beyond those asked for, and products with the matrix, of the Krylov space of a spectral start.
_OVERSAMPLING = 2
_KRYLOV_DEPTH = 5
# Below this many values of X, threads cost more than they give.
_VALUES_FOR_THREADS = 1_000_000
# A bit that loses more of its worth in smoothing stays as it was found.
_LEAST_KEPT = 0.5


class BitSearch:
    """Finds bits over features X (n, d), float32, whitened: uncorrelated columns of at most unit variance.

    scale : (d,) what each column was divided by in whitening
    starts : one of STARTS
    n_starts : directions tried per weight vector
    n_climbs : how many of the best starts L-BFGS improves
    smoothing : the regression, on the features before whitening, that smooths a bit; None: bits stay as found
    n_threads : climbs and thresholds of large problems run side by side
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
        n_threads: int = 1,
    ) -> None:
        self.X = X
        self.n_threads = n_threads
        self.scale = scale
        self.sigmoid = sigmoid
        self.ridge = ridge
        self.starts = starts
        self.n_starts = n_starts
        self.n_climbs = n_climbs
        self.smoothing = smoothing
        self._span: tuple[WholeClassSides, Array, Array] | None = None

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
        climbed = self._each(lambda start: self._climb(*start), starts)
        if self.smoothing is not None and climbed:
            graph, bit = max(zip((graph for graph, _ in starts), climbed), key=lambda pair: pair[1].value)
            for smooth in self._smoothed(graph, self.smoothing, bit):
                if smooth.value > _LEAST_KEPT * bit.value and not taken.holds(smooth.h):
                    return smooth
        found = climbed + [bit for _, bit in starts] + others
        best = _best_fresh(found, taken)
        if best is None and starts and self._classes_of(starts[0][0]) is not None:
            # Directions that reach where the leading ones do not.
            graph, directions = starts[0][0], rng.standard_normal((self.X.shape[1], self.n_starts))
            best = _best_fresh(self._at_best_threshold(graph, directions), taken)
        return best

    def _each(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Return the results of a function for all items, in threads where that pays."""
        return each(function, items, self._threads)

    @property
    def _threads(self) -> int:
        """Return the number of threads that pay."""
        return self.n_threads if self.X.size >= _VALUES_FOR_THREADS else 1

    def _start(self, graph: Graph, rng: np.random.Generator) -> list[Bit]:
        d = self.X.shape[1]
        if self.starts == "paper":
            return self._at_own_threshold(
                graph, rng.standard_normal((d, self.n_starts)), rng.standard_normal(self.n_starts)
            )
        n_spectral = 0 if self.starts == "random" else min(d, round(self.n_starts * _SPECTRAL_SHARE))
        if n_spectral and self._classes_of(graph) is not None:
            # Random directions are worth a tenth of these, and are tried only if every bit found is taken.
            return self._bits_at_best_threshold(graph, *self._leading_directions(graph, n_spectral, rng))
        directions = rng.standard_normal((d, self.n_starts - n_spectral))
        if n_spectral:
            directions = np.hstack([directions, self._leading_directions(graph, n_spectral, rng)[0]])
        return self._at_best_threshold(graph, directions)

    def _leading_directions(
        self, graph: Graph, count: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], Array]:
        """Return leading eigenvectors (d, count) of the pencil (X' L X, X' X + ridge), and samples along them.

        For spectral starts, those of X' L X before whitening.

        Whitening with a ridge makes X' X + ridge the identity, so the pencil is an ordinary eigenproblem. Before
        whitening the columns were ``scale`` times as large. X' L X is never formed. With whole classes, the leading
        directions lie near the span of the class means, where the problem is small, and samples are projected on it
        once. Else a block Krylov space from a few random vectors holds them to the accuracy that a start needs.
        """
        d = self.X.shape[1]
        back = self.scale.astype(np.float32)[:, None] if self.starts == "spectral" else np.float32(1)
        classes = self._classes_of(graph)
        if classes is not None:
            Q, P = self._span_of_means(classes)
        else:
            Q = _krylov_space(lambda V: back * (self.X.T @ graph.laplacian_times(self.X @ (back * V))), d, count, rng)
            P = self.X @ (back * Q)
        inside = np.linalg.eigh(graph.quadratic_form(P).astype(np.float64))[1][:, -count:]
        vectors = Q @ inside
        # Eigenvectors have no sign; fixing it keeps rounding from turning a bit into its complement.
        largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
        sign = np.where(largest < 0, -1.0, 1.0)
        return back * vectors * sign, P @ (inside * sign).astype(np.float32)

    def _classes_of(self, graph: Graph) -> WholeClassSides | None:
        """Return the classes in the span of whose means directions are sought, if they are."""
        if not isinstance(graph, WeightedClassGraph) or self.starts != "pencil":
            return None
        return graph.sides if graph.sides.n_classes > _FEW_CLASSES else None

    def _span_of_means(self, sides: WholeClassSides) -> tuple[Array, Array]:
        """Return orthonormal directions (d, m) that span the leading class means, and samples along them (n, m)."""
        if self._span is None or self._span[0] is not sides:
            left = np.linalg.svd(sides.means(self.X).T, full_matrices=False)[0][:, :_MOST_MEANS]
            self._span = sides, left, self.X @ left
        return self._span[1:]

    def _climb(self, graph: Graph, start: Bit) -> Bit:
        projection = self.X @ start.beta.astype(np.float32)
        projection -= projection.mean()
        spread = float(np.sqrt(np.dot(projection, projection) / len(projection))) or 1.0
        params = (np.append(start.beta, start.intercept) * (_SHARPNESS / spread)).astype(np.float32)
        found = descend(self._objective(graph), params, max_iter=_MOST_ITERATIONS, tol=_LEAST_GAIN).astype(np.float64)
        beta, b = found[:-1, None], found[-1:]
        ends = (
            self._at_own_threshold(graph, beta, b) if self.starts == "paper" else self._at_best_threshold(graph, beta)
        )
        return max([start, *ends], key=lambda bit: bit.value)

    def _objective(self, graph: Graph) -> Callable[[Array], tuple[float, Array]]:
        if isinstance(graph, WeightedClassGraph) and self.sigmoid is arctan:
            return _ClassObjective(self.X, graph, self.ridge)
        return lambda params: relaxed_objective(params, self.X, graph, self.sigmoid, self.ridge)

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
        return [Bit(directions[:, c], float(b[c]), H[:, c], v) for c, v in enumerate(worths(graph, H).tolist())]

    def _at_best_threshold(self, graph: Graph, directions: NDArray[np.float64]) -> list[Bit]:
        """A bit for every direction (d, m) that parts the samples at all."""
        return self._bits_at_best_threshold(graph, directions, self.X @ directions.astype(np.float32))

    def _bits_at_best_threshold(
        self, graph: Graph, directions: NDArray[np.float64], P: Array, *, whitened: bool = True
    ) -> list[Bit]:
        """The same from the samples' projections P (n, m)."""
        columns = np.array_split(P, min(self._threads, P.shape[1]) or 1, axis=1)
        thresholds, values = (np.concatenate(part) for part in zip(*self._each(graph.best_thresholds, columns)))
        H = np.where(np.ascontiguousarray(P.T) >= thresholds[:, None].astype(P.dtype), np.float32(1), np.float32(-1))
        return [
            Bit(directions[:, c], -thresholds[c], H[c], v, whitened)
            for c, v in enumerate(values.tolist())
            if np.isfinite(v)
        ]


def _best_fresh(bits: Sequence[Bit], taken: "TakenBits") -> Bit | None:
    """Return the bit that is worth most among those that are not taken."""
    ordered = sorted(bits, key=lambda bit: -bit.value)
    return next((bit for bit in ordered if not taken.holds(bit.h)), None)


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

    def __len__(self) -> int:
        return self._count

    def add(self, h: Array) -> None:
        self._packed[self._count] = np.packbits(h > 0)
        self._count += 1

    def holds(self, h: Array) -> bool:
        """Whether h is constant, or (nearly) one of the bits or the complement of one."""
        ones = int((h > 0).sum())
        return min(ones, self.n - ones) < 1 or self.nearest(h) < self.least

    def nearest(self, h: Array) -> int:
        """In how many samples h differs from the most similar of the bits and their complements."""
        differ = np.bitwise_count(self._packed[: self._count] ^ np.packbits(h > 0)).sum(axis=1, dtype=np.int64)
        return int(np.minimum(differ, self.n - differ).min(initial=self.n))
