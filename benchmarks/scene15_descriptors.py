"""Descriptors on Scene-15: 100 training images a class, a linear SVM, accuracy on all other images, five splits.

    python -m benchmarks.scene15_descriptors [ROW ...]

Each row of ROWS is one way from images to accuracy: ``values`` of every image (what needs no training; kept between
runs in the folder of temporary files), ``fitted`` on the training images of a split, and classifiers to choose from.
The choice is made within the training images: learned on 80 of each class, the best on the other 20 is learned again
on all 100. The test images are used once, for the figure. Rows named on the command line replace their stored ones.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

from benchmarks.results import load, store
from cbid.bags import Bags
from cbid.descriptors import CENTRIST, GIST, BlockPCA, DenseSIFT, KernelDescriptors, PyramidHOG, RawPixels, describe
from cbid.paper.sets import DataAbsent, open_set
from cbid.pooling import EMK, LLC, AdditiveKernelMap, BagOfWords, HIKClassifier, ScSPM

CACHE = Path(tempfile.gettempdir()) / "cbid-scene15-descriptors"
NAME = "scene15_descriptors"


def described(descriptor):
    """Values of a descriptor, from the cache where they are in it."""
    return lambda scenes: describe(scenes.images, descriptor, cache=CACHE).values


def bagged(descriptor):
    """Bags of a local descriptor, mapped from files in the same folder."""
    folder = CACHE / f"bags-{descriptor.fingerprint()}"
    return lambda scenes: describe(scenes.images, descriptor, n_jobs=-1, out=folder).values


class Unit(TransformerMixin, BaseEstimator):
    """Values centred and divided by one number, so that the squared length of a row is 1 on average and one range of
    C serves all descriptors."""

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        self.length_ = np.sqrt(((X - self.mean_) ** 2).sum(axis=1).mean())
        return self

    def transform(self, X):
        return (X - self.mean_) / self.length_


class RowSpace(TransformerMixin, BaseEstimator):
    """The training rows in an orthonormal basis of the space they span, where they have more columns than rows.

    A linear SVM with a squared penalty has its weights in that space: the machine is the same, learned much faster.
    """

    def fit(self, X, y=None):
        self.basis_ = None
        if X.shape[1] > len(X):
            variances, axes = np.linalg.eigh((X @ X.T).astype(np.float64))
            kept = variances > 1e-7 * variances[-1]
            self.basis_ = (X.T @ (axes[:, kept] / np.sqrt(variances[kept])).astype(X.dtype)).astype(X.dtype)
        return self

    def transform(self, X):
        return X if self.basis_ is None else X @ self.basis_


def linear(*costs):
    """Linear SVMs, one against the rest."""
    svm = LinearSVC(tol=1e-3, max_iter=20_000, random_state=0)
    return {f"C={c:g}": make_pipeline(Unit(), RowSpace(), clone(svm).set_params(C=c)) for c in costs}


def rbf(costs, gammas):
    """SVMs with the kernel exp(-gamma |x - x'|^2) on values scaled to -1..1, as LIBSVM's guide has it."""
    svms = [SVC(C=c, gamma=g) for c in costs for g in gammas]
    return {f"C={svm.C:g}, gamma={svm.gamma:g}": make_pipeline(MinMaxScaler((-1, 1)), svm) for svm in svms}


def intersection(*costs):
    """SVMs with the histogram intersection kernel, one against the rest."""
    return {f"C={c:g}": HIKClassifier(C=c, n_jobs=-1) for c in costs}


@dataclass(frozen=True)
class Row:
    """values: from the open set to an array (n, d), or to ``Bags``. fitted: makes the transformer that is learned on
    training images. classifiers: by name; the best on held-out training images is taken. published: accuracy in the
    literature, with its source in ``note``."""

    values: Callable[[Any], Any]
    fitted: Callable[[], Any] = FunctionTransformer
    classifiers: Mapping[str, Any] = field(default_factory=lambda: linear(0.1, 1, 10))
    published: float | None = None
    note: str = ""


def census_components():
    return BlockPCA(n_components=40, n_blocks=31, n_kept=2)


def grid_of_sift(step):
    """16 x 16 patches as they are: without blur and window."""
    return bagged(DenseSIFT(step=step, sides=(16,), longest=None, magnification=None, window=None))


def histograms():
    return BagOfWords(n_words=400, n_jobs=-1)


ROWS = {
    "raw pixels": Row(described(RawPixels(size=(32, 32), norm="contrast")), classifiers=linear(0.01, 0.1, 1)),
    "GIST": Row(described(GIST()), StandardScaler, published=0.73, note="GIST with an SVM, as later papers quote it"),
    "pHOG": Row(described(PyramidHOG(signed=True, orientations=40))),
    "CENTRIST": Row(described(CENTRIST())),
    "CENTRIST, roots": Row(described(CENTRIST(norm="root"))),
    "CENTRIST, spatial PACT": Row(
        described(CENTRIST(moments=True)), lambda: make_pipeline(census_components(), MinMaxScaler((-1, 1)))
    ),
    "CENTRIST, spatial PACT, RBF kernel": Row(
        described(CENTRIST(moments=True)),
        census_components,
        rbf((1, 3, 10), (2**-8, 2**-7)),
        published=0.839,
        note="Wu and Rehg 2011, with this kernel",
    ),
    "CENTRIST, spatial PACT of roots, RBF kernel": Row(
        described(CENTRIST(norm="root", moments=True)), census_components, rbf((1, 3, 10), (2**-8, 2**-7))
    ),
    "SIFT, pyramid of words, chi-squared map": Row(
        grid_of_sift(8), lambda: make_pipeline(histograms(), AdditiveKernelMap(kernel="chi2", sample_steps=2))
    ),
    "SIFT, pyramid of words, intersection kernel": Row(
        grid_of_sift(8),
        histograms,
        intersection(1, 3, 10),
        published=0.814,
        note="Lazebnik, Schmid and Ponce 2006",
    ),
    "SIFT, LLC": Row(grid_of_sift(6), lambda: LLC(n_jobs=-1)),
    "SIFT, ScSPM": Row(
        grid_of_sift(6), lambda: ScSPM(n_jobs=-1), published=0.803, note="Yang, Yu, Gong and Huang 2009"
    ),
    "kernel descriptors, gradient": Row(bagged(KernelDescriptors(kernel="gradient")), lambda: EMK(n_jobs=-1)),
    "kernel descriptors, shape": Row(bagged(KernelDescriptors(kernel="shape")), lambda: EMK(n_jobs=-1)),
    "EfficientNet-Lite0 embedding": Row(lambda scenes: scenes.part("embeddings").astype(np.float32), StandardScaler),
}


def take(values, rows):
    return values.take(rows) if isinstance(values, Bags) else values[rows]


def run(row, scenes):
    """Accuracy over all test images and mean accuracy of classes, and what was chosen, for each split."""
    started = time.perf_counter()
    values, y = row.values(scenes), scenes.labels
    found = {"seconds for values": round(time.perf_counter() - started, 1), "splits": []}
    for repeat in range(5):
        split = scenes.split("usual", repeat)
        # Of the training images alone: 80 of each class to learn from, 20 to choose by.
        order = np.concatenate([split.train[y[split.train] == c] for c in np.unique(y)]).reshape(-1, 100)
        drawn = np.random.default_rng(repeat).permuted(order, axis=1)
        chosen, scores = choose(row, values, y, drawn[:, :80].ravel(), drawn[:, 80:].ravel())
        model = make_pipeline(row.fitted(), clone(row.classifiers[chosen]))
        predicted = model.fit(take(values, split.train), y[split.train]).predict(take(values, split.test))
        right = predicted == y[split.test]
        found["splits"].append(
            {
                "accuracy": right.mean(),
                "mean of classes": np.mean([right[y[split.test] == c].mean() for c in np.unique(y)]),
                "chosen": chosen,
                "validation": scores,
            }
        )
    return {"published": row.published, "note": row.note, **found}


def choose(row, values, y, learn, held_out):
    """The name of the classifier that is best on held-out training images, and the accuracy of all."""
    transformer = row.fitted()
    X, Xt = transformer.fit_transform(take(values, learn), y[learn]), transformer.transform(take(values, held_out))
    scores = {name: clone(svm).fit(X, y[learn]).score(Xt, y[held_out]) for name, svm in row.classifiers.items()}
    return max(scores, key=scores.__getitem__), scores


def main():
    results = load(NAME, {})
    try:
        scenes = open_set("scene15")
    except DataAbsent as reason:
        print(reason)
        return
    for name in sys.argv[1:] or ROWS:
        results[name] = run(ROWS[name], scenes)
        accuracy = np.array([split["accuracy"] for split in results[name]["splits"]])
        print(f"{name}: {accuracy.mean():.4f} ± {accuracy.std():.4f}, published {ROWS[name].published}", flush=True)
        store(NAME, {row: results[row] for row in ROWS if row in results})


if __name__ == "__main__":
    main()
