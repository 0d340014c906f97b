"""Boosted decision trees over binned features, as plain arrays.

A tree of depth D is stored as a complete tree, level by level. Node i has children 2 i + 1 and 2 i + 2; a sample goes
left if x[feature] <= threshold. The 2^D leaves follow from left to right. A node that no split improves sends all
samples left.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

_N_BINS = 256
_ALWAYS = np.finfo(np.float32).max  # a threshold that every finite float32 passes
_MIN_ERROR = 1e-10


@dataclass(frozen=True)
class Bins:
    """Bin indices (n, d) uint8 and edges (d, 255): a value is in bin b or lower exactly if it is <= edge b."""

    indices: NDArray[np.uint8]
    edges: NDArray[np.float32]


class Trees(NamedTuple):
    """Boosted trees: features and thresholds (m, 2^D - 1), leaves (m, 2^D) in -1/+1, weights (m,)."""

    features: NDArray[np.int32]
    thresholds: NDArray[np.float32]
    leaves: NDArray[np.int8]
    weights: NDArray[np.float32]

    def __call__(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the weighted sum of the trees' outputs, (n,)."""
        return sum_of_trees(X, *self)


def fit_bins(X: NDArray[np.float32]) -> Bins:
    """Cut each feature into at most 256 bins: one per distinct value, or quantiles if there are more values."""
    indices = np.empty(X.shape, dtype=np.uint8)
    edges = np.full((X.shape[1], _N_BINS - 1), _ALWAYS, dtype=np.float32)
    for j, column in enumerate(X.T):
        values = np.unique(column).astype(np.float64)
        if len(values) > _N_BINS:
            values = np.unique(np.quantile(column, np.linspace(0, 1, _N_BINS), method="nearest")).astype(np.float64)
        between = _round_down((values[:-1] + values[1:]) / 2)
        edges[j, : len(between)] = between
        indices[:, j] = np.searchsorted(between, column, side="left")
    return Bins(indices, edges)


def _round_down(value: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the largest float32 not above the value, so that an edge stays below the next value."""
    rounded = value.astype(np.float32)
    return np.where(rounded > value, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def boost(
    X: NDArray[np.float32],
    bins: Bins,
    z: NDArray[np.floating],
    *,
    n_trees: int,
    depth: int,
    n_features: int,
    trim: float,
    rng: np.random.Generator,
) -> Trees:
    """Run discrete AdaBoost for targets z (n,) in -1/+1, which the sign of the trees' weighted sum predicts.

    Each split considers ``n_features`` random features (LazyBoost). Each tree learns from the heaviest samples that
    hold a share ``trim`` of the weight (weight trimming). Boosting stops when a tree makes no error or is no better
    than chance; the remaining trees have weight 0.
    """
    targets = np.asarray(z, dtype=np.int8)
    nodes = 2**depth - 1
    features = np.zeros((n_trees, nodes), dtype=np.int32)
    thresholds = np.full((n_trees, nodes), _ALWAYS, dtype=np.float32)
    leaves = np.ones((n_trees, nodes + 1), dtype=np.int8)
    weights = np.zeros(n_trees, dtype=np.float32)
    w = np.full(len(targets), 1 / len(targets))
    for m in range(n_trees):
        candidates = rng.random((nodes, X.shape[1])).argpartition(n_features - 1, axis=1)[:, :n_features]
        features[m], cuts, leaves[m] = grow(bins.indices, targets, w, _heaviest(w, trim), candidates, depth)
        thresholds[m] = np.where(cuts < _N_BINS - 1, bins.edges[features[m], np.minimum(cuts, _N_BINS - 2)], _ALWAYS)
        one = slice(m, m + 1)
        h = sum_of_trees(X, features[one], thresholds[one], leaves[one], np.ones(1, np.float32))
        error = float(w[h != targets].sum())
        if error >= 0.5 - _MIN_ERROR:
            if m == 0:  # no split separates the targets: predict the majority
                leaves[0], weights[0] = (1 if targets.sum() >= 0 else -1), 1.0
            break
        weights[m] = 0.5 * np.log((1 - error) / max(error, _MIN_ERROR))
        if error <= _MIN_ERROR:
            break
        w *= np.exp(-weights[m] * h * targets)
        w /= w.sum()
    return Trees(features, thresholds, leaves, weights)


def _heaviest(w: NDArray[np.float64], trim: float) -> NDArray[np.intp]:
    """Return the ascending indices of the heaviest samples that hold a share ``trim`` of the weight."""
    order = np.argsort(-w, kind="stable")
    needed = int(np.searchsorted(np.cumsum(w[order]), trim * w.sum())) + 1
    return np.sort(order[:needed])


@numba.njit(nogil=True, cache=True)
def grow(indices, z, w, rows, candidates, depth):  # type: ignore[no-untyped-def]
    """Grow one tree: return features, the last bin that goes left (255: all samples), and leaves in -1/+1.

    rows : the samples to learn from; candidates : (nodes, f) the features that each node may test. Each split lowers
    the weighted Gini impurity of z most.
    """
    nodes, f = candidates.shape
    feature = np.zeros(nodes, dtype=np.int32)
    cut = np.full(nodes, _N_BINS - 1, dtype=np.int64)
    at = np.zeros(len(rows), dtype=np.int64)  # the current node of each sample
    for level in range(depth):
        first, width = 2**level - 1, 2**level
        weight = np.zeros((width, f, _N_BINS, 2))
        for i in range(len(rows)):
            row, node = rows[i], at[i]
            side = 1 if z[row] > 0 else 0
            for j in range(f):
                weight[node - first, j, indices[row, candidates[node, j]], side] += w[row]
        for k in range(width):
            total_minus, total_plus = weight[k, 0, :, 0].sum(), weight[k, 0, :, 1].sum()
            total = total_minus + total_plus
            if total_minus <= 0 or total_plus <= 0:
                continue
            best = (total_minus**2 + total_plus**2) / total * (1 + 1e-12)
            for j in range(f):
                minus, plus = 0.0, 0.0
                for b in range(_N_BINS - 1):
                    if weight[k, j, b, 0] == 0 and weight[k, j, b, 1] == 0:
                        continue  # an empty bin: the same split as one bin lower
                    minus += weight[k, j, b, 0]
                    plus += weight[k, j, b, 1]
                    left, right = minus + plus, total - minus - plus
                    if right <= 1e-12 * total:
                        break
                    purity = (minus**2 + plus**2) / left
                    purity += ((total_minus - minus) ** 2 + (total_plus - plus) ** 2) / right
                    if purity > best:
                        best = purity
                        feature[first + k] = candidates[first + k, j]
                        cut[first + k] = b
        for i in range(len(rows)):
            node = at[i]
            at[i] = 2 * node + (1 if indices[rows[i], feature[node]] <= cut[node] else 2)
    votes = np.zeros(nodes + 1)
    for i in range(len(rows)):
        votes[at[i] - nodes] += w[rows[i]] * z[rows[i]]
    leaves = np.ones(nodes + 1, dtype=np.int8)
    for k in range(nodes + 1):
        if votes[k] < 0:
            leaves[k] = -1
    return feature, cut, leaves


@numba.njit(nogil=True, cache=True)
def sum_of_trees(X, features, thresholds, leaves, weights):  # type: ignore[no-untyped-def]
    """Return the weighted sum of the trees' outputs, (n,) float32."""
    n, m, nodes = len(X), len(features), features.shape[1]
    total = np.zeros(n, dtype=np.float32)
    for i in range(n):
        for tree in range(m):
            if weights[tree] == 0:
                continue
            node = 0
            while node < nodes:
                node = 2 * node + (1 if X[i, features[tree, node]] <= thresholds[tree, node] else 2)
            total[i] += weights[tree] * leaves[tree, node - nodes]
    return total
