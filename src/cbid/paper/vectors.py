"""Vectors of data sets by name, split as an experiment asks for."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.bags import Bags
from cbid.descriptors import describe
from cbid.paper.base import Context, Settings
from cbid.paper.sets import NamedSet, per_class

__all__ = ["FEATURES", "Vectors", "load_vectors", "mapped_bags", "split_of"]

Rows = NDArray[np.int64]
Floats = NDArray[np.float32]
MOST_AXES = 256


@dataclass(frozen=True)
class Vectors:
    """Training and test vectors with labels; training rows are in random order, so that the smaller of two rows at
    one distance means nothing."""

    X: Floats
    y: NDArray[np.int64]
    Xt: Floats
    yt: NDArray[np.int64]
    test_rows: Rows  # places of the test vectors in the set, and of the training vectors
    train_rows: Rows


def _described(make: Callable[[], Any]) -> Callable[[NamedSet, Rows, Context], Floats]:
    """Values of a descriptor, from the cache where they are in it."""

    def values(data: NamedSet, rows: Rows, context: Context) -> Floats:
        found = describe(data.images[rows], make(), cache=context.cache).values
        assert isinstance(found, np.ndarray)
        return np.asarray(found, dtype=np.float32)

    return values


def mapped_bags(data: NamedSet, rows: Rows, descriptor: Any, context: Context) -> Bags:
    """Bags of a local descriptor, from the cache where they are in it. Those of thousands of photographs take
    gigabytes: they are mapped from files that have lost their names, which the system removes once nobody reads them.
    (A run that is killed while it describes leaves bags-* behind.)"""
    context.cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="bags-", dir=context.cache, ignore_cleanup_errors=True) as folder:
        bags = describe(data.images[rows], descriptor, cache=context.cache, out=folder).values
    assert isinstance(bags, Bags)
    return bags


def _gist() -> Any:
    from cbid.descriptors import GIST

    return GIST()


def _pixels() -> Any:
    from cbid.descriptors import RawPixels

    return RawPixels()


def _haar() -> Any:
    from cbid.descriptors import HaarFeatures

    return HaarFeatures(size=(19, 19), n_features=3000)


def _window_phog() -> Any:
    from cbid.descriptors import PyramidHOG

    return PyramidHOG(cells=(18, 9, 3), orientations=8)


def _phog() -> Any:
    from cbid.descriptors import PyramidHOG

    return PyramidHOG()


def _embeddings(data: NamedSet, rows: Rows, context: Context) -> Floats:
    values = data.part("embeddings")[rows].astype(np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


# From a set, places in it and the context to values (n, d). One line adds another.
FEATURES: dict[str, Callable[[NamedSet, Rows, Context], Floats]] = {
    "EfficientNet-Lite0 embeddings": _embeddings,
    "GIST": _described(_gist),
    "raw pixels": _described(_pixels),
    "Haar-like features": _described(_haar),
    "pHOG": _described(_phog),
    "pHOG of windows": _described(_window_phog),
}


def split_of(data: NamedSet, settings: Settings) -> tuple[Rows, Rows]:
    """Places to train and to test.

    ``protocol`` in the settings is a name of the set's protocols, or [training, test] images of each class drawn at
    random. ``part`` "validation" tests on the protocol's validation images. ``classes`` keeps the first so many
    classes, ``most_train`` and ``most_test`` at most so many images of each.
    """
    protocol, repeat = settings["protocol"], settings["repeat"]
    if isinstance(protocol, str):
        split = data.split(protocol, repeat)
    else:
        split = data.split_by(per_class(protocol[0], 0, protocol[1]), repeat)
    train, test = split.train, split.validation if settings.get("part") == "validation" else split.test
    assert data.labels is not None
    if settings.get("classes") is not None:
        train, test = (rows[data.labels[rows] < settings["classes"]] for rows in (train, test))
    for name, rows in (("most_train", train), ("most_test", test)):
        if settings.get(name) is not None:
            kept = _some_of_each(data.labels, rows, settings[name], repeat)
            train, test = (kept, test) if name == "most_train" else (train, kept)
    return train, test


def _some_of_each(labels: NDArray[np.int64], rows: Rows, most: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    return np.concatenate([np.sort(rng.permutation(rows[labels[rows] == c])[:most]) for c in np.unique(labels[rows])])


def load_vectors(settings: Settings, context: Context) -> Vectors:
    """The vectors of a cell: ``set``, ``features``, ``axes`` and what ``split_of`` reads.

    ``axes``: "pca" keeps the principal axes of the training vectors that hold 99 % of their variance, at most 256,
    and None leaves the features as they are.
    """
    names = ("set", "features", "axes", "repeat", "protocol", "part", "classes", "most_train", "most_test")
    chosen = tuple((name, _frozen(settings.get(name))) for name in names)
    return _loaded(chosen, context)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@lru_cache(maxsize=2)
def _loaded(chosen: tuple[tuple[str, Any], ...], context: Context) -> Vectors:
    settings = dict(chosen)
    data = context.open(settings["set"])
    train, test = split_of(data, settings)
    train = np.random.default_rng(settings["repeat"]).permutation(train)
    values = FEATURES[settings["features"]](data, np.concatenate([train, test]), context)
    X, Xt = values[: len(train)], values[len(train) :]
    if settings["axes"] == "pca":
        from sklearn.decomposition import PCA

        pca = PCA(min(MOST_AXES, *X.shape), random_state=0).fit(X)
        share = np.cumsum(pca.explained_variance_ratio_)
        kept = int(np.searchsorted(share, 0.99)) + 1
        X, Xt = (pca.transform(part)[:, :kept].astype(np.float32) for part in (X, Xt))
    assert data.labels is not None
    return Vectors(X, data.labels[train], Xt, data.labels[test], test, train)
