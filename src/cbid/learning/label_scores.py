"""Scores for samples with several labels: how similar a sample is to some training samples, by its labels.

Ridge regressions on similarities of features, or on X, say it of any sample. Bits over similarities to all training
samples can tell any of these from any other, which says little of new samples. The score of a training sample left
out of its own regression is that of a new sample. Bits over scores are hyperplanes over the features all the same, as
scores are linear in them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from cbid.learning.features import Anchors
from cbid.learning.graded import LabelSimilarity

__all__ = ["LabelScores", "fit_label_scores"]

Array = NDArray[np.floating]

_LANDMARKS = 300  # training samples whose label similarity is regressed
# Ridges that are tried. The similarity of a sample to itself is 1, and rows of X have a mean squared length of 1.
_RIDGES = 10.0 ** np.arange(-3, 4)
_ROWS = 8192
# Bits are over scores that explain at least this part of the similarity by labels. Of labels that are harder to tell,
# scores keep too little.
_LEAST_EXPLAINED = 0.4


@dataclass(frozen=True)
class LabelScores:
    """Scores (F - mean) @ basis, and ``values`` (n, k), those of the training samples as if each were left out.

    explained : the share of the variance of the label similarities that scores of left-out samples explain
    """

    basis: NDArray[np.float64]
    values: NDArray[np.float32]
    explained: float

    @property
    def suffice(self) -> bool:
        """Return whether bits over the scores are better than bits over the features."""
        return self.explained >= _LEAST_EXPLAINED


def fit_label_scores(
    F: Array, sets: csr_matrix, anchors: Anchors | None, *, mean: NDArray[np.float64], rng: np.random.Generator
) -> LabelScores:
    """Regress similarities by the labels (n, labels) of 0 and 1 on F (n, m): similarities to the anchors, or X.

    ``mean`` (m,) is where scores are zero. Similarities are regressed in the space of the kernel, whose norm is large
    for what varies from sample to sample. The ridge is the one whose scores of left-out samples explain most.
    """
    landmarks = rng.permutation(sets.shape[0])[:_LANDMARKS]
    targets = LabelSimilarity(sets).to(landmarks)
    prior = targets.mean(axis=0)
    targets -= prior
    middle = F.mean(axis=0, dtype=np.float64)
    into = _coordinates(F, middle, anchors)

    def parts(into: NDArray[np.float64]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        for start in range(0, len(F), _ROWS):
            rows = slice(start, start + _ROWS)
            yield rows, (F[rows] - middle) @ into

    gram = sum(part.T @ part for _, part in parts(into))
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-10 * max(values[-1], 1e-300)
    values = values[kept]
    into = into @ (vectors[:, kept] / np.sqrt(values))  # to orthonormal columns
    projected = np.zeros((len(values), targets.shape[1]))
    for rows, part in parts(into):
        projected += part.T @ targets[rows]

    def left_out(part: NDArray[np.float64], rows: slice, ridge: float) -> NDArray[np.float64]:
        """What the regression without it gets wrong about each sample."""
        shrunk = values / (values + ridge)
        leverage = 1 / len(F) + np.square(part) @ shrunk
        fitted = part @ (shrunk[:, None] * projected)
        return (targets[rows] - fitted) / np.maximum(1 - leverage, 1e-9)[:, None]

    losses = np.zeros(len(_RIDGES))
    for rows, part in parts(into):
        losses += [np.square(left_out(part, rows, ridge)).sum() for ridge in _RIDGES]
    ridge = float(_RIDGES[losses.argmin()])
    basis = into @ ((values / (values + ridge))[:, None] * projected)
    scores = np.empty(targets.shape, dtype=np.float32)
    at_mean = (mean - middle) @ basis
    for rows, part in parts(into):
        scores[rows] = targets[rows] - left_out(part, rows, ridge) - at_mean
    return LabelScores(basis, scores, 1 - float(losses.min() / (np.square(targets).sum() or 1.0)))


def _coordinates(F: Array, middle: NDArray[np.float64], anchors: Anchors | None) -> NDArray[np.float64]:
    """Return the map (m, r) to coordinates in which the norm is that of the kernel, or to X of unit mean square."""
    if anchors is None:
        square = np.mean(np.einsum("ij,ij->i", centred := F - middle, centred))
        return np.eye(F.shape[1]) / (float(np.sqrt(square)) or 1.0)
    values, vectors = np.linalg.eigh(anchors(anchors.points).astype(np.float64))
    kept = values > 1e-6 * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])
