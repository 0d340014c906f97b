"""Vectors of a set by the name of their features, coders by name at several lengths, and classifiers over them."""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid import CBID, CodeKNeighborsClassifier, coders, descriptors
from cbid.bags import Bags
from cbid.coders import Coder
from cbid.coders.rivals.common import CodeLengthError
from cbid.descriptors import describe
from cbid.paper.base import Context, Settings, key_of
from cbid.paper.sets import DataAbsent, NamedSet, per_class

Labels = NDArray[np.int64]
Array = NDArray[Any]
Rows = NDArray[np.int64]
Floats = NDArray[np.float32]
MOST_AXES = 256


@dataclass(frozen=True)
class Vectors:
    """Training and test vectors with labels, and their rows in the set.

    Training vectors are in random order: of two at one distance the first counts, and that must not favour a class.
    """

    X: Floats
    y: NDArray[np.int64]
    Xt: Floats
    yt: NDArray[np.int64]
    test_rows: Rows
    train_rows: Rows
    Xv: Floats | None = None  # the protocol's validation images, if it has any and they do not test
    yv: NDArray[np.int64] | None = None

    def for_validation(self) -> "Vectors":
        """Return the same training vectors with the validation images as the test."""
        if self.Xv is None or self.yv is None or not len(self.yv):
            raise ValueError("the protocol has no validation images to choose settings on")
        return replace(self, Xt=self.Xv, yt=self.yv)


def _values_of(kind: str, **settings: Any) -> Callable[[NamedSet, Rows, Context], Floats]:
    """Return a function that computes a descriptor of ``cbid.descriptors``, or reads it from the cache."""

    def values(data: NamedSet, rows: Rows, context: Context) -> Floats:
        found = describe(data.images[rows], getattr(descriptors, kind)(**settings), cache=context.cache).values
        assert isinstance(found, np.ndarray)
        return np.asarray(found, dtype=np.float32)

    return values


def _embeddings(data: NamedSet, rows: Rows, context: Context) -> Floats:
    values = data.part("embeddings")[rows].astype(np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


META_BASES = {"scene15": "caltech101", "caltech101": "scene15"}  # other photographs with other classes
BASE_IMAGES, BASE_AXES = 20, 256  # images of each base class, and principal axes of their embeddings


def _meta_classes(data: NamedSet, rows: Rows, context: Context) -> Floats:
    """Return meta-class features: outputs of the classifiers of a label tree over the classes of another set."""
    if data.info.name not in META_BASES:
        raise DataAbsent(f"{data.info.title} has no base set with embeddings for meta-classes")
    model = _base_classifiers(META_BASES[data.info.name], context)
    return np.asarray(model.transform(_embeddings(data, rows, context)), dtype=np.float32)


@lru_cache(maxsize=2)
def _base_classifiers(base: str, context: Context) -> Any:
    """Return classifiers of the meta-classes of a base set (Bergamo and Torresani 2012), over its embeddings."""
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline

    from cbid.pooling import MetaClass

    data = context.open(base)
    rows = _some_of_each(data.labels, np.flatnonzero(data.labels >= 0), BASE_IMAGES, 0)
    axes = PCA(BASE_AXES, random_state=0, whiten=False)
    return make_pipeline(axes, MetaClass(random_state=0)).fit(_embeddings(data, rows, context), data.labels[rows])


META = "meta-class features"

# From a set, rows of it and the context to values (n, d). To add features, add a line.
FEATURES: dict[str, Callable[[NamedSet, Rows, Context], Floats]] = {
    "EfficientNet-Lite0 embeddings": _embeddings,
    META: _meta_classes,
    "GIST": _values_of("GIST"),
    "raw pixels": _values_of("RawPixels"),
    "Haar-like features": _values_of("HaarFeatures", size=(19, 19), n_features=3000),
    "pHOG": _values_of("PyramidHOG"),
    "pHOG of windows": _values_of("PyramidHOG", cells=(18, 9, 3), orientations=8),
}


def mapped_bags(data: NamedSet, rows: Rows, descriptor: Any, context: Context) -> Bags:
    """Return bags of a local descriptor, computed or read from the cache.

    Bags of thousands of photographs take gigabytes. They are mapped from files that are already deleted, so the
    system frees the space once the bags are not used any more. A run that is killed while it describes leaves a
    folder bags-* behind.
    """
    context.cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="bags-", dir=context.cache, ignore_cleanup_errors=True) as folder:
        bags = describe(data.images[rows], descriptor, cache=context.cache, out=folder).values
    assert isinstance(bags, Bags)
    return bags


def kernel_vectors(
    data: NamedSet, train: Rows, test: Rows, context: Context, *, n_words: int, step: int, seed: int
) -> tuple[Floats, Floats]:
    """Return training and test vectors of gradient and shape kernel descriptors.

    Match kernels (EMK) pool them over the image and its quarters, with words learned on the training images.
    """
    from cbid.pooling import EMK

    found = []
    for kernel in ("gradient", "shape"):
        descriptor = descriptors.KernelDescriptors(kernel=kernel, step=step)
        emk = EMK(n_words=n_words, pyramid=(1, 2), random_state=seed)
        learned = emk.fit_transform(mapped_bags(data, train, descriptor, context))
        found.append((learned, emk.transform(mapped_bags(data, test, descriptor, context))))
    learned, tested = (np.concatenate(parts, axis=1) for parts in zip(*found))
    return learned, tested


def parts_of(data: NamedSet, settings: Settings) -> tuple[Rows, Rows, Rows]:
    """Return the rows to train on, to choose settings on, and to test on.

    In the settings, ``protocol`` is a name of the set's protocols, or [training, validation, test] images of each
    class, drawn at random. ``part`` "validation" tests on the protocol's validation images. ``classes`` keeps the
    first classes, ``most_train`` and ``most_test`` limit the images of each class.
    """
    protocol, repeat = settings["protocol"], settings["repeat"]
    split = data.split(protocol, repeat) if isinstance(protocol, str) else data.split_by(per_class(*protocol), repeat)
    train, validation, test = split.train, split.validation, split.test
    if settings.get("part") == "validation":
        validation, test = validation[:0], validation
    if settings.get("classes") is not None:
        train, validation, test = (
            rows[data.labels[rows] < settings["classes"]] for rows in (train, validation, test)
        )
    if settings.get("most_train") is not None:
        train = _some_of_each(data.labels, train, settings["most_train"], repeat)
    if settings.get("most_test") is not None:
        test = _some_of_each(data.labels, test, settings["most_test"], repeat)
    return train, validation, test


def _some_of_each(labels: NDArray[np.int64], rows: Rows, most: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    return np.concatenate([np.sort(rng.permutation(rows[labels[rows] == c])[:most]) for c in np.unique(labels[rows])])


def load_vectors(settings: Settings, context: Context) -> Vectors:
    """Return the vectors of a cell by its settings ``set``, ``features``, ``axes`` and those of ``parts_of``.

    ``axes`` "pca" keeps the principal axes of the training vectors that hold 99 % of the variance, at most 256; None
    keeps the features as they are.
    """
    names = ("set", "features", "axes", "repeat", "protocol", "part", "classes", "most_train", "most_test")
    return _loaded(key_of({name: settings.get(name) for name in names}), context)


@lru_cache(maxsize=2)
def _loaded(key: str, context: Context) -> Vectors:
    settings = json.loads(key)
    data = context.open(settings["set"])
    train, validation, test = parts_of(data, settings)
    train = np.random.default_rng(settings["repeat"]).permutation(train)
    values = FEATURES[settings["features"]](data, np.concatenate([train, test, validation]), context)
    X, Xt, Xv = np.split(values, [len(train), len(train) + len(test)])
    if settings["axes"] == "pca":
        from sklearn.decomposition import PCA

        pca = PCA(min(MOST_AXES, *X.shape), random_state=0).fit(X)
        share = np.cumsum(pca.explained_variance_ratio_)
        kept = int(np.searchsorted(share, 0.99)) + 1
        X, Xt, Xv = (
            pca.transform(part)[:, :kept].astype(np.float32) if len(part) else part[:, :kept] for part in (X, Xt, Xv)
        )
    return Vectors(X, data.labels[train], Xt, data.labels[test], test, train, Xv, data.labels[validation])


@dataclass(frozen=True)
class Method:
    """A coder and its settings.

    prefix : one fit gives every length
    whole : the coder has one length only
    grid : values of a setting, chosen on the validation images at the least length
    """

    text: str
    make: Callable[..., Any]
    settings: dict[str, Any] = field(default_factory=dict)
    prefix: bool = False
    whole: bool = False
    grid: tuple[str, tuple[Any, ...]] | None = None

    def fit(self, X: Array, y: Array, n_bits: int, seed: int, **settings: Any) -> Any:
        """Return a fitted coder. It may have fewer bits if learning ends early; the warning is not shown."""
        given = self.settings | settings
        if "random_state" in self.make().get_params():
            given["random_state"] = seed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.make(n_bits=None if self.whole else n_bits, **given).fit(X, y)

    def fit_or_reason(self, X: Array, y: Array, n_bits: int, seed: int) -> Any:
        """Return a fitted coder, or the reason why the method has none of this length."""
        try:
            return self.fit(X, y, n_bits, seed)
        except CodeLengthError as error:
            return str(error)


PAPER, OVERALL = "C-BID, the paper’s form", "C-BID, the paper’s form, overall misses"
PAPER_FORMS = (PAPER, OVERALL)
LINEAR, RBF = ({"likeness": 0, "kernel": kernel} for kernel in ("linear", "rbf"))
PAPER_NU = ("nu", (1e-8, 1e-7, 1e-6, 1e-5))  # the grid of the paper's section on SVM


# The text of the report and how to make the coder. To add a method, add a line.
CODERS: dict[str, Method] = {
    "C-BID": Method("linear class bits, compared with whole classes", CBID, LINEAR, prefix=True),
    "C-BID, RBF": Method("class bits over similarities to 1,000 training samples", CBID, RBF, prefix=True),
    "C-BID, 5 nearest": Method(
        "linear class bits, 5 nearest hits and misses, as in the paper",
        CBID,
        LINEAR | {"hits": "nearest"},
        prefix=True,
    ),
    PAPER: Method(
        "CBID.paper: Eq. 3, l1 penalty, 25 triplets of each image and other class, random starts; nu of the paper’s "
        "grid is chosen on the validation images; the class of the stored image gives the weights of a distance",
        CBID.paper,
        prefix=True,
        grid=PAPER_NU,
    ),
    OVERALL: Method(
        "the same with the other reading of “25 triplets per image”: 5 nearest misses of all other classes together",
        CBID.paper,
        {"misses": "overall"},
        prefix=True,
        grid=PAPER_NU,
    ),
    "spectral hashing": Method("Weiss et al. 2008", coders.SpectralHashing),
    "anchor graphs": Method("Liu et al. 2011, two layers, 300 anchors, 5 nearest", coders.AnchorGraphHashing),
    "spherical hashing": Method("Heo et al. 2012", coders.SphericalHashing),
    "self-taught hashing": Method("Zhang et al. 2010, 5 neighbours", coders.SelfTaughtHashing),
    "Laplacian co-hashing": Method("Zhang et al. 2010", coders.LaplacianCoHashing),
    "ITQ": Method("Gong and Lazebnik 2011", coders.ITQ),
    "SDH": Method("Shen et al. 2015", coders.SDH),
    "LSI": Method("Deerwester et al. 1990", coders.LSI),
    "PiCoDes": Method("Bergamo et al. 2011, 3 turns", coders.PiCoDes, {"n_iter": 3}),
    "MC-bit": Method("Bergamo and Torresani 2012, over the training classes", coders.MCBit, whole=True),
}


def code_lengths(
    name: str, vectors: Vectors, lengths: Sequence[int], seed: int, classify: "Classify | None" = None
) -> Iterator[tuple[int, Coder | str]]:
    """Yield a fitted coder for each length, or the reason why the method has none.

    ``classify`` (``nearest_neighbours`` by default) chooses a setting of the method's grid on the validation images.
    """
    method = CODERS[name]
    if not method.prefix:
        for length in lengths:
            yield length, method.fit_or_reason(vectors.X, vectors.y, length, seed)
        return
    longest = _longest(method, vectors, lengths, seed, classify or nearest_neighbours)
    for length in lengths:
        if length <= longest.n_bits_:
            yield length, longest.truncate(length)
        else:
            yield length, f"learning ended at {longest.n_bits_} bits"


def _longest(method: Method, vectors: Vectors, lengths: Sequence[int], seed: int, classify: "Classify") -> Any:
    """Return the coder of the greatest length; of a grid, the first that is best on the validation images."""
    if method.grid is None:
        return method.fit(vectors.X, vectors.y, max(lengths), seed)
    name, values = method.grid
    held_out = vectors.for_validation()
    # At the least length: the slowest fits are those of many bits.
    found = [method.fit(vectors.X, vectors.y, min(lengths), seed, **{name: value}) for value in values]
    right = [float(np.mean(classify(held_out, coder) == held_out.yt)) for coder in found]
    best = int(np.argmax(right))
    if max(lengths) == min(lengths):
        return found[best]
    return method.fit(vectors.X, vectors.y, max(lengths), seed, **{name: values[best]})


Classify = Callable[[Vectors, Any], Labels]


def nearest_neighbours(vectors: Vectors, coder: Coder | None) -> Labels:
    """Return the classes of the test vectors by 5-NN: on weighted codes, or on the vectors without a coder."""
    if coder is None:
        from sklearn.neighbors import KNeighborsClassifier

        model: Any = KNeighborsClassifier(5, algorithm="brute")
        return model.fit(vectors.X, vectors.y).predict(vectors.Xt)
    weights = getattr(coder, "weights_", None)
    packed = CodeKNeighborsClassifier(5, packed=True, n_bits=coder.n_bits_, bit_weights=weights)
    return packed.fit(coder.encode(vectors.X), vectors.y).predict(coder.encode(vectors.Xt))


def support_vectors(vectors: Vectors, coder: Coder | None) -> Labels:
    """Return the classes of the test vectors by linear SVMs: on the bits, or on the vectors without a coder."""
    train, test = svm_features(vectors.X, vectors.Xt, coder)
    return linear_svm().fit(train, vectors.y).predict(test)


def svm_features(X: Array, Xt: Array, coder: Coder | None) -> tuple[Array, Array]:
    """Return training and test rows for a linear SVM with C = 1.

    Bits in -1/+1 are divided by the root of their number. Vectors are centred and scaled to length 1 on average.
    """
    if coder is not None:
        return tuple(coder.transform(part) / np.sqrt(coder.n_bits_) for part in (X, Xt))
    centre = X.mean(axis=0)
    size = np.sqrt(np.mean(np.sum((X - centre) ** 2, axis=1)))
    return (X - centre) / size, (Xt - centre) / size


def linear_svm() -> Any:
    """Return the linear SVM that all experiments on codes use."""
    from sklearn.svm import LinearSVC

    # A loose tolerance: accuracies change by less than one query, and 102 classes are learned five times as fast.
    return LinearSVC(C=1.0, dual=True, tol=1e-2, max_iter=5000, random_state=0)
