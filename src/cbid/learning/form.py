"""The form of class bits, chosen on the training data: hyperplanes in X, or over similarities to anchors.

A trial needs no bits. A part of the samples is held out, and the classes are regressed on the other part by ridge
regression, once in each form. The form that names the classes of the held-out samples better is chosen, and with it
the width of the kernel. With several labels per sample, their similarity is regressed, and the form is chosen that
explains most of that of samples left out. The number of regressions is fixed, so the same samples and seed give the
same form.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix

from cbid.learning.features import Anchors, kernel_unit
from cbid.learning.label_scores import fit_label_scores
from cbid.learning.scaling import centre, indicator

__all__ = ["Form", "choose_form"]

Array = NDArray[np.floating]

# Trials: at least this many labelled samples, else bits are linear; at most a fifth of them, within these limits.
_FEWEST = 100
_LEAST_MOST, _MOST = 1200, 4500
_MOST_CLASSES = 150
_SPLITS = 3
# Widths, in units of the inverse of `kernel_unit`, and ridges of classes, in units of the typical variance.
_WIDTHS = (0.5, 1.0, 2.0)
_GAIN = 0.005  # by which another width than 1 must be better
# The same for a narrower kernel if every sample is an anchor: a training sample is then like itself and little else,
# which no new sample is, and bits learned from that may be constant on new samples.
_NARROW_GAIN = 0.05
_RIDGES = {"linear": (1e-3, 1e-2, 1e-1), "rbf": (1e-4, 1e-3, 1e-2)}


@dataclass(frozen=True)
class Form:
    """The form of class bits.

    kernel : "linear", "rbf" or, for several labels per sample, "laplacian"
    width : gamma in units of the inverse of the total variance; None: not chosen here
    scores : by form, the share of held-out samples whose class was right, or, of several labels per sample, the share
        of the variance of their similarity that was explained; empty without a trial
    figure : what the scores are
    """

    kernel: str
    width: float | None = None
    scores: dict[str, float] | None = None
    figure: str = "accuracy"

    def __str__(self) -> str:
        tried = ", ".join(f"{name} {share:.3f}" for name, share in (self.scores or {}).items())
        why = f"{self.figure} on the trial: {tried}" if tried else "no trial"
        return f"form of class bits: {self.kernel} ({why})"


def choose_form(
    X: Array,
    y: NDArray[np.integer],
    *,
    n_anchors: int,
    gamma: float | None,
    seed: int,
    sets: csr_matrix | None = None,
) -> Form:
    """Return the form for samples X (n, d) with class numbers y (n,), -1 without a label, or with label sets.

    At most 3 + 2 regressions for the kernel and 3 for the linear form, on at most 4,500 samples of 150 classes, each
    with three ridges; for label sets, seven regressions with seven. The kernel is chosen if it is at least as good:
    its bits separate classes better than hyperplanes of the same accuracy do. ``gamma`` is the kernel's width, if it
    is given. ``sets`` (n, k) of 0 and 1 are several labels per sample.
    """
    rng = np.random.default_rng(seed)
    rows = _trial_samples(y, rng) if sets is None else _trial_samples_of_sets(sets, rng)
    if len(rows) < _FEWEST:
        return Form("linear")
    centred = centre(X[rows])
    if not centred.Z.any():
        return Form("linear")
    Z = centred.Z.astype(np.float32)
    if sets is not None:
        return _form_for_sets(Z, sets[rows], n_anchors, gamma, centred.unit, rng)
    targets = np.unique(y[rows], return_inverse=True)[1]
    splits = [_split(targets, rng) for _ in range(_SPLITS)]
    widths = _WIDTHS if gamma is None else (gamma * centred.unit**2,)

    def score(split: tuple[NDArray[np.int64], NDArray[np.int64]], width: float | None) -> float:
        fit, held_out = split
        features, others = Z[fit], Z[held_out]
        if width is not None:
            points = rng.permutation(len(features))[:n_anchors]
            anchors = Anchors(features[points], width)
            features, others = anchors(features), anchors(others)
        ridges = _RIDGES["linear" if width is None else "rbf"]
        return _accuracy(features, targets[fit], others, targets[held_out], ridges)

    first = {width: score(splits[0], width) for width in widths}
    narrow = _NARROW_GAIN if len(X) <= n_anchors else 0.0
    width = max(first, key=lambda w: first[w] + (_GAIN if w == 1 else -narrow if w > 1 else 0))
    rbf = [first[width], *(score(split, width) for split in splits[1:])]
    linear = [score(split, None) for split in splits]
    scores = {"linear": float(np.mean(linear)), "rbf": float(np.mean(rbf))}
    if scores["linear"] > scores["rbf"]:
        return Form("linear", scores=scores)
    return Form("rbf", width if gamma is None else None, scores)


def _form_for_sets(
    Z: Array, sets: csr_matrix, n_anchors: int, gamma: float | None, unit: float, rng: np.random.Generator
) -> Form:
    """Return the form in which scores of left-out samples explain most of their similarity by labels.

    ``gamma`` is in the units of X, of which ``unit`` is one in those of Z.
    """
    seed = rng.integers(2**31)  # the same similarities for all
    points = Z[rng.permutation(len(Z))[:n_anchors]]

    def explained(kernel: str, width: float) -> float:
        anchors = Anchors(points, width / kernel_unit(Z, kernel), kernel) if kernel != "linear" else None
        F = Z if anchors is None else anchors(Z)
        mean = F.mean(axis=0, dtype=np.float64)
        return fit_label_scores(F, sets, anchors, mean=mean, rng=np.random.default_rng(seed)).explained

    widths: dict[tuple[str, float | None], float] = {
        (kernel, width): width for kernel in ("rbf", "laplacian") for width in _WIDTHS
    }
    if gamma is not None:
        widths = {("rbf", None): gamma * unit**2 * kernel_unit(Z, "rbf")}
    found = {form: explained(form[0], width) for form, width in widths.items()}
    linear = explained("linear", 0.0)
    kernel, width = max(found, key=lambda form: found[form])
    scores = {"linear": linear, kernel: found[kernel, width]}
    if linear > found[kernel, width]:
        kernel, width = "linear", None
    return Form(kernel, width, scores, figure="explained variance of the similarity")


def _trial_samples(y: NDArray[np.integer], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return labelled samples of a trial: of some classes if there are many, and of each in proportion."""
    classes, sizes = np.unique(y[y >= 0], return_counts=True)
    classes = classes[sizes >= 3]
    if len(classes) < 2:
        return np.empty(0, dtype=np.int64)
    if len(classes) > _MOST_CLASSES:
        classes = rng.choice(classes, _MOST_CLASSES, replace=False)
    rows = rng.permutation(np.flatnonzero(np.isin(y, classes)))
    most = int(np.clip(len(rows) // 5, _LEAST_MOST, _MOST))
    if len(rows) <= most:
        return rows
    # Round after round, one of every class: no class drops out of the trial.
    place = np.empty(len(rows), dtype=np.int64)
    for c in classes:
        place[y[rows] == c] = np.arange((y[rows] == c).sum())
    share = most / len(rows)
    return rows[place < np.maximum(3, np.ceil(share * np.bincount(y[rows])[y[rows]]))]


def _trial_samples_of_sets(sets: csr_matrix, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return samples of a trial, drawn from those with a label."""
    rows = rng.permutation(np.flatnonzero(np.diff(sets.indptr)))
    return rows[: int(np.clip(len(rows) // 5, _LEAST_MOST, _MOST))]


def _split(y: NDArray[np.integer], rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return samples to fit and samples held out, a third of each class."""
    held_out = np.zeros(len(y), dtype=bool)
    for c in range(int(y.max()) + 1):
        members = rng.permutation(np.flatnonzero(y == c))
        held_out[members[: max(1, len(members) // 3)]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _accuracy(F: Array, y: NDArray[Any], others: Array, yo: NDArray[Any], ridges: Sequence[float]) -> float:
    """Return the share of ``others`` whose class a ridge regression of F on the classes names, at its best ridge."""
    Y = indicator(y, int(max(y.max(), yo.max())) + 1)
    return max(float(np.mean(scores.argmax(axis=1) == yo)) for scores in _regressions(F, Y, others, ridges))


def _regressions(F: Array, Y: Array, others: Array, ridges: Sequence[float]) -> Iterator[Array]:
    """Yield what ridge regressions of the targets Y (n, k) on F say of ``others``, one for each ridge."""
    mean = F.mean(axis=0)
    A, V = F - mean, others - mean
    n, m = A.shape
    prior = Y.mean(axis=0)
    Y = (Y - prior) / n
    wide = m > n
    gram = ((A @ A.T if wide else A.T @ A) / n).astype(np.float64)
    target = Y if wide else A.T.astype(np.float64) @ Y
    typical = float(np.sum(gram * gram) / (np.trace(gram) or 1.0)) or 1.0
    for ridge in ridges:
        regularised = gram.copy()
        regularised[np.diag_indices(len(gram))] += ridge * typical
        P = cho_solve(cho_factor(regularised, overwrite_a=True), target)
        yield V @ ((A.T @ P) if wide else P) + prior
