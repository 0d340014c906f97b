"""The distance from patches to classes, built from the settings of an NBNN classifier; images, and their classes.

A ``ClassDistances`` is called with rows (q, width) and returns distances (q, n_classes) float32, inf where nothing
was found. A ``Decision`` is called with image-to-class distances (n, n_classes), mean over the patches, and returns
scores (n, n_classes), the least for the predicted class.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize
from scipy.sparse import csr_array, eye_array, hstack
from scipy.special import logsumexp
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from cbid.classify.lower_bounds import bound_axes
from cbid.classify.patch_search import (
    CodeSearch,
    FlatSearch,
    Floats,
    KDTreeSearch,
    LSHSearch,
    PatchSearch,
    far_centre,
)
from cbid.classify.patches import PatchStore
from cbid.search.partition import Partition

Rows = NDArray[Any]
Weights = NDArray[np.floating] | None


class ClassDistances(Protocol):
    """Distances from patches to classes."""

    nbytes: int  # memory in addition to the rows

    def __call__(self, rows: Rows, n_threads: int) -> Floats: ...


class ByClass:
    """NBNN (Boiman et al., 2008): the nearest patch of each class, by one structure for each class."""

    def __init__(self, structures: Sequence[PatchSearch]) -> None:
        self._structures = structures
        self.nbytes = sum(structure.nbytes for structure in structures)

    def __call__(self, rows: Rows, n_threads: int) -> Floats:
        return np.stack([s.query(rows, 1, n_threads)[0][:, 0] for s in self._structures], axis=1)


class ByPartition:
    """NBNN on codes."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.nbytes = partition.nbytes

    def __call__(self, rows: NDArray[np.uint8], n_threads: int) -> Floats:
        return self._partition.nearest(rows, n_threads=n_threads)


class Local:
    """Local NBNN (McCann and Lowe, 2012): one structure over all classes.

    Of the k + 1 nearest patches, the distance of the last is the background distance of all classes that are not
    among the first k. It is subtracted: those classes get zero, all others a negative value.
    """

    def __init__(self, structure: PatchSearch, classes: NDArray[np.integer], n_classes: int, k: int) -> None:
        self._structure, self._classes, self._n_classes = structure, classes, n_classes
        self._k = min(k, len(classes) - 1)
        self.nbytes = structure.nbytes

    def __call__(self, rows: Rows, n_threads: int) -> Floats:
        distances, positions = self._structure.query(rows, self._k + 1, n_threads)
        found = positions >= 0
        background = np.where(found, distances, 0).max(axis=1)
        out = np.zeros((len(rows), self._n_classes), np.float32)
        for j in range(self._k - 1, -1, -1):  # the nearest patch of a class comes last and stays
            at = np.flatnonzero(found[:, j])
            out[at, self._classes[positions[at, j]]] = distances[at, j] - background[at]
        return out


def class_distances(
    parts: list[Rows], classes: NDArray[Any], params: dict[str, Any], coder: Any, seed: int
) -> ClassDistances:
    """Build the structures of a classifier with these settings over the rows of each class."""
    weights = _bit_weights(coder, params["weighted"], classes.tolist())
    axes = bound_axes(parts) if coder is None and params["search"] in ("exact", "lsh") else None
    flat = coder is None and axes is None and params["search"] in ("exact", "pca")
    centre = far_centre(parts) if flat else None

    def structure(rows: Rows) -> PatchSearch:
        if coder is not None:
            return CodeSearch(rows, n_bits=coder.n_bits_, weights=weights)
        if params["search"] == "kd-tree":
            return KDTreeSearch(rows, checks=params["checks"], n_trees=params["n_trees"], seed=seed)
        if params["search"] == "lsh":
            settings = {name: params[name] for name in ("n_tables", "n_functions", "bin_width")}
            return LSHSearch(rows, **settings, seed=seed, axes=axes)
        return FlatSearch(rows, axes, centre)

    if params["local"]:
        if weights is not None and weights.ndim == 2:
            raise ValueError("local=True: expected one weight for each bit; the coder has weights for each class")
        class_of_row = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return Local(structure(np.concatenate(parts)), class_of_row, len(parts), params["n_neighbors"])
    if coder is not None:
        return ByPartition(Partition(parts, coder.n_bits_, weights))
    return ByClass([structure(part) for part in parts])


def _bit_weights(coder: Any, weighted: bool | None, classes: list[Any]) -> Weights:
    """Return None for plain Hamming, (t,), or (t, n_classes) in the order of ``classes``."""
    weights = None if weighted is False else getattr(coder, "weights_", None)
    if weights is None:
        if weighted:
            raise ValueError(f"weighted=True: {type(coder).__name__} has no weights_")
        return None
    weights = np.asarray(weights)
    if weights.ndim == 1:
        return weights
    column = {label: c for c, label in enumerate(coder.classes_.tolist())}
    unknown = [label for label in classes if label not in column]
    if unknown:
        raise ValueError(f"class {unknown[0]!r} is unknown to the coder, which has weights for each of its classes")
    return weights[:, [column[label] for label in classes]]


def sum_by_image(distances: Floats, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return distances (n, n_classes) of images whose patches are the rows offsets[i] to offsets[i + 1].

    Hashing may find no patch of a class. Its distance is then the next number after the largest distance found for
    any patch of the image: a class with a patch found comes first.
    """
    starts = offsets[:-1]
    missing = np.isinf(distances)
    if missing.any():
        found = np.where(missing, 0, distances).max(axis=1)
        beyond = np.nextafter(np.maximum.reduceat(found, starts), np.float32(np.inf))
        largest = np.repeat(beyond, np.diff(offsets))
        distances = np.where(missing, largest[:, None], distances)
    return np.add.reduceat(distances, starts, axis=0, dtype=np.float64)


Decision = Callable[[NDArray[np.float64]], NDArray[np.float64]]

# Patches of a training image that are searched for among the other images, and how often these are indexed for it.
_OWN_PATCHES, _ROUNDS = 200, 10


def distances_without_own(
    store: PatchStore, classes: NDArray[Any], params: dict[str, Any], coder: Any, seed: int, n_threads: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return mean distances (n, n_classes) of the training images to the classes, and their class numbers (n,).

    An image is not compared with itself. To keep the classes comparable, each of them leaves one image out: round j
    leaves image j of every class out, or image j modulo its number of images, and compares these with the rest. There
    are at most ``_ROUNDS``; larger classes leave several images out in each.
    """
    alone = [label for label, ids in zip(classes.tolist(), store.ids) if len(ids) < 2]
    if alone:
        raise ValueError(
            f"decision={params['decision']!r}: expected at least two images of each class, to compare one with the "
            f"other; class {alone[0]!r} has 1"
        )
    rng = np.random.default_rng([seed, 1])
    edges = [np.cumsum([0, *sizes]) for sizes in store.sizes]
    found, numbers = [], []
    for j in range(min(_ROUNDS, max(map(len, store.sizes)))):
        kept, queries, asking = [], [], []
        for c, (part, at) in enumerate(zip(store.parts, edges)):
            n = len(at) - 1
            out = range(j % min(n, _ROUNDS), n, _ROUNDS)
            kept.append(np.delete(part, np.concatenate([np.arange(at[i], at[i + 1]) for i in out]), axis=0))
            for i in out if j < n else ():
                chosen = np.sort(rng.permutation(int(at[i + 1] - at[i]))[:_OWN_PATCHES])
                queries.append(part[at[i] + chosen])
                asking.append(c)
        offsets = np.cumsum([0, *map(len, queries)])
        distances = class_distances(kept, classes, params, coder, seed)(np.concatenate(queries), n_threads)
        found.append(sum_by_image(distances, offsets) / np.diff(offsets)[:, None])
        numbers += asking
    return np.concatenate(found), np.array(numbers, np.int64)


# Ridge that holds the factors of classes near one; chosen on validation images.
_FACTOR_RIDGE = 0.03


def class_factors(D: NDArray[np.float64], y: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return factors (k,) of mean one for the distances D (n, k) from images of classes y to the classes.

    NBNN compares distances to classes of different density: one whose patches are close together attracts images of
    all others. Factors minimise the log loss of a softmax over minus the distances; a ridge holds them near one.
    """
    unit = float(D.mean())
    deviation = float((D - D.mean(axis=1, keepdims=True)).std()) / unit if unit > 0 else 0.0
    if deviation == 0:
        return np.ones(D.shape[1])
    start = np.zeros(1 + D.shape[1])
    bounds = [(-5, 5)] + [(None, None)] * D.shape[1]  # separable classes would raise the scale without end
    args = (D / unit, y, deviation)
    found = minimize(_factor_loss, start, args=args, jac=True, method="L-BFGS-B", bounds=bounds).x
    factors = np.maximum(1 + deviation * found[1:], 0.1)
    return np.asarray(factors / factors.mean())


def _factor_loss(
    params: NDArray[np.float64], L: NDArray[np.float64], y: NDArray[np.integer], deviation: float
) -> tuple[float, NDArray[np.float64]]:
    """Return the log loss at (log scale, p), factors being 1 + deviation p, with the ridge, and its gradient."""
    scale, p = np.exp(params[0]), params[1:]
    F = -scale * L * (1 / deviation + p)
    rows = np.arange(len(y))
    loss = float(np.mean(logsumexp(F, axis=1) - F[rows, y])) + _FACTOR_RIDGE * float(p @ p)
    E = np.exp(F - logsumexp(F, axis=1, keepdims=True))
    E[rows, y] -= 1
    E /= len(y)
    return loss, np.append((E * F).sum(), -scale * (E * L).sum(axis=0) + 2 * _FACTOR_RIDGE * p)


@dataclass(frozen=True)
class Correction:
    """The distance to class c is factor_c d_c + shift_c (Behmo et al., 2010): classes differ in density."""

    factor: NDArray[np.float64]
    shift: NDArray[np.float64]

    @classmethod
    def fit(cls, D: NDArray[np.float64], y: NDArray[np.int64]) -> "Correction":
        """Minimise the mean hinge loss of the margins between the own class and each other one: a linear program.

        D (n, n_classes) are the distances of images of classes y. Factors are not negative.
        """
        k = D.shape[1]
        unit = float(np.abs(D).mean()) or 1.0
        image, other = np.nonzero(np.arange(k) != y[:, None])
        row, own = np.arange(len(image)), y[image]
        # The margin (factor_r d_r + shift_r) - (factor_y d_y + shift_y) plus a slack is at least one.
        C = csr_array(
            (
                np.concatenate(
                    [D[image, other] / unit, -D[image, own] / unit, np.ones(len(row)), -np.ones(len(row))]
                ),
                (np.tile(row, 4), np.concatenate([other, own, k + other, k + own])),
            ),
            shape=(len(row), 2 * k),
        )
        result = linprog(
            np.concatenate([np.zeros(2 * k), np.full(len(row), 1 / len(row))]),
            A_ub=hstack([-C, -eye_array(len(row))], format="csr"),
            b_ub=-np.ones(len(row)),
            bounds=[(0, None)] * k + [(None, None)] * k + [(0, None)] * len(row),
            method="highs",
        )
        if result.x is None:
            raise RuntimeError(f"the linear program of the correction failed: {result.message}")
        return cls(result.x[:k] / unit, result.x[k : 2 * k])

    def __call__(self, D: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.factor * D + self.shift


@dataclass(frozen=True)
class ResponseSVM:
    """The NBNN kernel (Tuytelaars et al., 2011): the distances to all classes are the features of a linear SVM."""

    scaler: StandardScaler
    svm: LinearSVC
    n_classes: int

    @classmethod
    def fit(cls, D: NDArray[np.float64], y: NDArray[np.int64], seed: int) -> "ResponseSVM":
        """Fit on the distances D (n, n_classes) of images of classes y."""
        scaler = StandardScaler().fit(_relative(D))
        svm = LinearSVC(C=0.1, random_state=seed, max_iter=10_000).fit(scaler.transform(_relative(D)), y)
        return cls(scaler, svm, D.shape[1])

    def __call__(self, D: NDArray[np.float64]) -> NDArray[np.float64]:
        decision = self.svm.decision_function(self.scaler.transform(_relative(D)))
        return -decision if self.n_classes > 2 else np.stack([decision, -decision], axis=1)


def _relative(D: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances less their mean over the classes: how far an image is from everything says nothing of its class."""
    return D - D.mean(axis=1, keepdims=True)


def chosen_decision(store: PatchStore, params: dict[str, Any]) -> str:
    """Return the decision of these settings; "auto" is "balanced" for codes if each class has two images."""
    if params["decision"] != "auto":
        return str(params["decision"])
    fits = len(store.ids) > 1 and min(map(len, store.ids)) > 1
    return "balanced" if fits and params["coder"] is not None and not params["local"] else "nearest"


def fit_decision(
    store: PatchStore, classes: NDArray[Any], params: dict[str, Any], coder: Any, seed: int, n_threads: int
) -> Decision | None:
    """Return the decision of a classifier with these settings over the stored rows; None: the nearest class."""
    decision = chosen_decision(store, params)
    if decision == "nearest" or len(classes) == 1:
        return None
    D, y = distances_without_own(store, classes, params, coder, seed, n_threads)
    if decision == "kernel":
        return ResponseSVM.fit(D, y, seed)
    return (
        Correction.fit(D, y) if decision == "corrected" else Correction(class_factors(D, y), np.zeros(len(classes)))
    )
