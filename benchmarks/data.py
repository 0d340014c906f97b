"""The data sets of the benchmarks, with their splits. A set that is not on the machine raises ``Absent``."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from cbid.descriptors import describe
from cbid.paper.sets import DataAbsent as Absent
from cbid.paper.sets import open_set

__all__ = ["Absent", "caltech101", "digits", "fashion_mnist", "mnist", "scene15"]


def _reduced(n_components, X, *others):
    """PCA fitted on the first array, applied to all."""
    pca = PCA(n_components, random_state=0).fit(X)
    return [pca.transform(part).astype(np.float32) for part in (X, *others)]


def scene15(part="test", split=0, n_components=256):
    """L2-normalised EfficientNet-Lite0 embeddings, 100 training images a class, PCA fitted on them.

    part "test": the given split. "random": 100 training images a class drawn by ``split``. "validation": 20 of every
    100 training images of the given split held out, by ``split``; its test images are not touched.
    """
    scenes = open_set("scene15")
    X, y = normalize(scenes.part("embeddings").astype(np.float32)), scenes.labels
    train = scenes.part("set") == "train"
    if part == "random":
        drawn = np.concatenate(
            [np.flatnonzero(y == c)[_shuffled((y == c).sum(), split, c, 1)[:100]] for c in range(15)]
        )
        train = np.isin(np.arange(len(y)), drawn)
    if part == "validation":
        X, y = X[train], y[train]
        held_out = np.concatenate([np.flatnonzero(y == c)[_shuffled(100, split, c)[:20]] for c in range(15)])
        train = ~np.isin(np.arange(len(y)), held_out)
    return _in_random_order(*_reduced(n_components, X[train], X[~train]), y[train], y[~train], split)


def fashion_mnist(part="test", split=0, n_train=2000, n_test=5000, n_components=64):
    """Pixels in 0..1, a random part of the training set, PCA fitted on it.

    part "test": queries from the test set. "validation": queries from the rest of the training set.
    """
    clothes = open_set("fashion_mnist")
    X, y = _pixels(clothes, "train")
    order = _shuffled(len(X), split, part == "validation")
    train, queries = order[:n_train], order[n_train : n_train + n_test]
    if part == "validation":
        Xt, yt = X[queries], y[queries]
    else:
        Xt, yt = _pixels(clothes, "test")
        chosen = _shuffled(len(Xt), split, 2)[:n_test]
        Xt, yt = Xt[chosen], yt[chosen]
    return _in_random_order(*_reduced(n_components, X[train], Xt), y[train], yt, split)


def mnist(split=0, n_train=5000):
    """All 70,000 digits as pixels in 0..1: 1,000 queries, 100 of each digit, drawn by ``split``; the others are the
    database. ``n_train`` of the database, as many of each digit, are the training sample.

    X, y of the database, its rows in the sample, and X, y of the queries.
    """
    digits = open_set("mnist")
    (X, y), (Xt, yt) = _pixels(digits, "train"), _pixels(digits, "test")
    X, y = np.concatenate([X, Xt]), np.concatenate([y, yt])
    order = _shuffled(len(X), split, 5)
    places = [order[y[order] == c] for c in range(10)]
    queries = np.concatenate([place[:100] for place in places])
    database = np.setdiff1d(np.arange(len(X)), queries)
    sample = np.concatenate([place[100 : 100 + n_train // 10] for place in places])
    return X[database], y[database], np.searchsorted(database, np.sort(sample)), X[queries], y[queries]


def caltech101(part="test", split=0, n_components=256):
    """GIST of Caltech-101, 102 classes; 15 training images a class, at most 20 to test; PCA fitted on the training
    part.

    part "test": the given repeat of the protocol. "validation": the 20 images a class that train and validate in
    repeat 0, of which ``split`` draws 5 to hold out; no test image of that repeat is touched. Descriptors are
    computed once and kept in the folder for temporary files.
    """
    from cbid.descriptors import GIST

    objects = open_set("caltech101")
    drawn = objects.split("paper", split if part == "test" else 0)
    if part == "test":
        train, queries = drawn.train, drawn.test
    else:
        pool = np.sort(np.concatenate([drawn.train, drawn.validation]))
        label = objects.labels[pool]
        held_out = np.concatenate(
            [pool[label == c][_shuffled((label == c).sum(), split, c, 4)[:5]] for c in np.unique(label)]
        )
        train, queries = np.setdiff1d(pool, held_out), held_out
    described = describe(objects.images, GIST(), cache=Path(tempfile.gettempdir()) / "cbid-benchmarks", n_jobs=2)
    X, y = described.values, objects.labels
    return _in_random_order(*_reduced(n_components, X[train], X[queries]), y[train], y[queries], split)


def digits(part="test", split=0):
    """scikit-learn's 8 x 8 digits: the last 597 for the test, 300 of the others held out for validation."""
    handwriting = open_set("digits")
    X, y = 16 * handwriting.images.items.reshape(-1, 64), handwriting.labels
    if part == "test":
        return X[:1200], y[:1200], X[1200:], y[1200:]
    order = _shuffled(1200, split, 3)
    return X[order[300:]], y[order[300:]], X[order[:300]], y[order[:300]]


def _in_random_order(X, Xt, y, yt, seed):
    """X, y, Xt, yt with the training rows in random order: of two that are as near the first one counts, which in
    the order of the classes would favour some of them."""
    order = np.random.default_rng(seed).permutation(len(X))
    return X[order], y[order], Xt, yt


def _shuffled(n, *seed):
    return np.random.default_rng([int(v) for v in seed]).permutation(n)


def _pixels(images, part):
    """Values (n, d) in 0..1 and labels of the training or the test images."""
    rows = images.part("set") == part
    return images.images.items[rows].reshape(rows.sum(), -1).astype(np.float32) / 255, images.labels[rows]
