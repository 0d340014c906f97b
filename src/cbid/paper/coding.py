"""Coders by name at several lengths, and the answers of classifiers over their bits."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid import CBID, CodeKNeighborsClassifier, coders
from cbid.coders import Coder
from cbid.paper.scoring import svm_of_bits, unit_bits
from cbid.paper.vectors import Vectors

__all__ = ["CODERS", "NEIGHBOURS", "Method", "code_lengths", "nearest_neighbours", "support_vectors"]

NEIGHBOURS = 5
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Method:
    """A coder and its settings. whole: it comes in one length only. prefix: one fit gives every length."""

    text: str
    make: Callable[..., Any]
    settings: dict[str, Any] = field(default_factory=dict)
    prefix: bool = False
    whole: bool = False


# What is said of each in the report, and how it is made: one line adds another.
CODERS: dict[str, Method] = {
    "C-BID": Method("linear bits, compared with whole classes (the defaults)", CBID, prefix=True),
    "C-BID, RBF": Method("bits over similarities to 1,000 training samples", CBID, {"kernel": "rbf"}, prefix=True),
    "C-BID, 5 nearest": Method(
        "linear bits, 5 nearest hits and misses, as in the paper", CBID, {"hits": "nearest"}, prefix=True
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
    """A fitted coder for each length, or the reason why there is none. ``whole`` methods come at the first length."""
    method = CODERS[name]
    settings = dict(method.settings)
    if "random_state" in method.make().get_params():
        settings["random_state"] = seed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of learning that ended early: the number of bits tells
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


def nearest_neighbours(vectors: Vectors, coder: Coder | None, k: int = NEIGHBOURS) -> Labels:
    """Classes of the test vectors by k-NN: on codes under the coder's weights, or on the vectors themselves."""
    if coder is None:
        from sklearn.neighbors import KNeighborsClassifier

        model: Any = KNeighborsClassifier(k, algorithm="brute")
        return model.fit(vectors.X, vectors.y).predict(vectors.Xt)
    weights = getattr(coder, "weights_", None)
    packed = CodeKNeighborsClassifier(k, packed=True, n_bits=coder.n_bits_, bit_weights=weights)
    return packed.fit(coder.encode(vectors.X), vectors.y).predict(coder.encode(vectors.Xt))


def support_vectors(vectors: Vectors, coder: Coder | None) -> Labels:
    """Classes of the test vectors by linear SVMs: on the bits, or on the vectors scaled to a mean length of one."""
    if coder is None:
        centre = vectors.X.mean(axis=0)
        size = np.sqrt(np.mean(np.sum((vectors.X - centre) ** 2, axis=1)))
        train, test = ((part - centre) / size for part in (vectors.X, vectors.Xt))
    else:
        train, test = (unit_bits(coder.transform(part)) for part in (vectors.X, vectors.Xt))
    return svm_of_bits().fit(train, vectors.y).predict(test)
