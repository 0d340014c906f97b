"""Coders by name at several lengths, and classifiers over their bits."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid import CBID, CodeKNeighborsClassifier, coders
from cbid.coders import Coder
from cbid.paper.vectors import Vectors

__all__ = [
    "CODERS",
    "Method",
    "code_lengths",
    "linear_svm",
    "nearest_neighbours",
    "support_vectors",
    "svm_features",
]

Labels = NDArray[np.int64]
Floats = NDArray[Any]


@dataclass(frozen=True)
class Method:
    """A coder and its settings. ``prefix``: one fit gives every length. ``whole``: the coder has one length only."""

    text: str
    make: Callable[..., Any]
    settings: dict[str, Any] = field(default_factory=dict)
    prefix: bool = False
    whole: bool = False


# The text of the report and how to make the coder. To add a method, add a line.
CODERS: dict[str, Method] = {
    "C-BID": Method("linear class bits, compared with whole classes", CBID, {"likeness": 0}, prefix=True),
    "C-BID, RBF": Method(
        "class bits over similarities to 1,000 training samples", CBID, {"likeness": 0, "kernel": "rbf"}, prefix=True
    ),
    "C-BID, 5 nearest": Method(
        "linear class bits, 5 nearest hits and misses, as in the paper",
        CBID,
        {"likeness": 0, "hits": "nearest"},
        prefix=True,
    ),
    "C-BID, the paper’s form": Method(
        "Eq. 3, l1 penalty, 25 triplets of nearest neighbours, random starts", CBID.paper, prefix=True
    ),
    "spectral hashing": Method("Weiss et al. 2008", coders.SpectralHashing),
    "anchor graphs": Method("Liu et al. 2011, two layers, 300 anchors, 5 nearest", coders.AnchorGraphHashing),
    "spherical hashing": Method("Heo et al. 2012", coders.SphericalHashing),
    "self-taught hashing": Method("Zhang et al. 2010, 5 neighbours", coders.SelfTaughtHashing),
    "Laplacian co-hashing": Method("Zhang et al. 2010", coders.LaplacianCoHashing),
    "LSI": Method("Deerwester et al. 1990", coders.LSI),
    "PiCoDes": Method("Bergamo et al. 2011, 3 turns", coders.PiCoDes, {"n_iter": 3}),
    "MC-bit": Method("Bergamo and Torresani 2012, over the training classes", coders.MCBit, whole=True),
}


def code_lengths(name: str, vectors: Vectors, lengths: Sequence[int], seed: int) -> Iterator[tuple[int, Coder | str]]:
    """Yield a fitted coder for each length, or the reason why there is none."""
    method = CODERS[name]
    settings = dict(method.settings)
    if "random_state" in method.make().get_params():
        settings["random_state"] = seed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that learning ended early: the number of bits shows it
        if method.prefix:
            longest = method.make(n_bits=max(lengths), **settings).fit(vectors.X, vectors.y)
            for length in lengths:
                if length <= longest.n_bits_:
                    yield length, longest.truncate(length)
                else:
                    yield length, f"learning ended at {longest.n_bits_} bits"
            return
        for length in lengths:
            try:
                n_bits = None if method.whole else length
                coder: Coder | str = method.make(n_bits=n_bits, **settings).fit(vectors.X, vectors.y)
            except ValueError as error:
                if "n_bits" not in str(error):
                    raise
                coder = str(error)
            yield length, coder


def nearest_neighbours(vectors: Vectors, coder: Coder | None, k: int = 5) -> Labels:
    """Return the classes of the test vectors by k-NN: on weighted codes, or on the vectors without a coder."""
    if coder is None:
        from sklearn.neighbors import KNeighborsClassifier

        model: Any = KNeighborsClassifier(k, algorithm="brute")
        return model.fit(vectors.X, vectors.y).predict(vectors.Xt)
    weights = getattr(coder, "weights_", None)
    packed = CodeKNeighborsClassifier(k, packed=True, n_bits=coder.n_bits_, bit_weights=weights)
    return packed.fit(coder.encode(vectors.X), vectors.y).predict(coder.encode(vectors.Xt))


def support_vectors(vectors: Vectors, coder: Coder | None) -> Labels:
    """Return the classes of the test vectors by linear SVMs: on the bits, or on the vectors without a coder."""
    train, test = svm_features(vectors.X, vectors.Xt, coder)
    return linear_svm().fit(train, vectors.y).predict(test)


def svm_features(X: Floats, Xt: Floats, coder: Coder | None) -> tuple[Floats, Floats]:
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
