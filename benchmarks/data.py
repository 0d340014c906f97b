"""The data sets of the benchmarks, with their splits. A set that is not on the machine raises ``Absent``."""

import gzip
import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

FASHION = Path("/usr/share/datasets/fashion-mnist")  # where Debian's dataset-fashion-mnist puts it


class Absent(RuntimeError):
    """The data is not here; the message says where to get it."""


def _shared(name):
    root = os.environ.get("CBID_DATA")
    if not root or not (Path(root) / name).exists():
        raise Absent(f"{name} is not there: set CBID_DATA to the folder that holds it")
    return Path(root) / name


def _reduced(n_components, X, *others):
    """PCA fitted on the first array, applied to all."""
    pca = PCA(n_components, random_state=0).fit(X)
    return [pca.transform(part).astype(np.float32) for part in (X, *others)]


def scene15(part="test", split=0, n_components=256):
    """L2-normalised EfficientNet-Lite0 embeddings, 100 training images a class, PCA fitted on them.

    part "test": the given split. "random": 100 training images a class drawn by ``split``. "validation": 20 of every
    100 training images of the given split held out, by ``split``; its test images are not touched.
    """
    folder = _shared("scene15")
    with np.load(folder / "embeddings_efficientnet_lite0.npz") as file:
        X, paths = normalize(file["features"].astype(np.float32)), file["paths"].astype(str)
    training = set((folder / "train_100_per_class.txt").read_text().split())
    y = np.unique([path.split("/")[0] for path in paths], return_inverse=True)[1]
    train = np.array([path in training for path in paths])
    if part == "random":
        drawn = np.concatenate(
            [np.flatnonzero(y == c)[_shuffled((y == c).sum(), split, c, 1)[:100]] for c in range(15)]
        )
        train = np.isin(np.arange(len(y)), drawn)
    if part == "validation":
        X, y = X[train], y[train]
        held_out = np.concatenate([np.flatnonzero(y == c)[_shuffled(100, split, c)[:20]] for c in range(15)])
        train = ~np.isin(np.arange(len(y)), held_out)
    return [*_interleave(*_reduced(n_components, X[train], X[~train]), y[train], y[~train])]


def fashion_mnist(part="test", split=0, n_train=2000, n_test=5000, n_components=64):
    """Pixels in 0..1, a random part of the training set, PCA fitted on it.

    part "test": queries from the test set. "validation": queries from the rest of the training set.
    """
    if not FASHION.exists():
        raise Absent("Fashion-MNIST is not there: install Debian's package dataset-fashion-mnist")
    X, y = _idx("train")
    order = _shuffled(len(X), split, part == "validation")
    train, queries = order[:n_train], order[n_train : n_train + n_test]
    if part == "validation":
        Xt, yt = X[queries], y[queries]
    else:
        Xt, yt = _idx("t10k")
        chosen = _shuffled(len(Xt), split, 2)[:n_test]
        Xt, yt = Xt[chosen], yt[chosen]
    return [*_interleave(*_reduced(n_components, X[train], Xt), y[train], yt)]


def digits(part="test", split=0):
    """scikit-learn's 8 x 8 digits: the last 597 for the test, 300 of the others held out for validation."""
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    if part == "test":
        return X[:1200], y[:1200], X[1200:], y[1200:]
    order = _shuffled(1200, split, 3)
    return X[order[300:]], y[order[300:]], X[order[:300]], y[order[:300]]


def _interleave(X, Xt, y, yt):
    return X, y, Xt, yt


def _shuffled(n, *seed):
    return np.random.default_rng([int(v) for v in seed]).permutation(n)


def _idx(name):
    images, labels = (
        np.frombuffer(gzip.decompress((FASHION / f"{name}-{kind}-ubyte.gz").read_bytes()), np.uint8, offset=offset)
        for kind, offset in (("images-idx3", 16), ("labels-idx1", 8))
    )
    return images.reshape(len(labels), -1).astype(np.float32) / 255, labels.astype(int)
