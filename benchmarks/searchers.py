"""What searches vectors without being a Hamming code: faiss's quantisers at equal bytes, and floats.

Each takes (X, Xt) and a length in bits, and gives bytes per stored vector, the seconds it took, rows of distances,
and what a linear classifier may read of the stored vectors and of the queries.
"""

import time
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from sklearn.decomposition import PCA

from cbid.coders import SignEmbedding

_QUERIES = 256
CANDIDATES = 100  # that the second look at float vectors takes


@dataclass(frozen=True)
class Found:
    n_bytes: int
    fit_seconds: float
    encode_seconds: float  # of one vector
    rows: Any  # iterator over (part of the queries, n) distances
    features: tuple[Any, Any] | None  # stored and query vectors for a linear classifier


def product_quantiser(X, Xt, n_bits, *, rotate):
    """faiss PQ with 8 bits a sub-quantiser, after OPQ's rotation with ``rotate``; distances from float queries."""
    m = n_bits // 8
    if X.shape[1] % m:
        return None
    index = faiss.IndexPQ(X.shape[1], m, 8)
    if rotate:
        rotation = faiss.OPQMatrix(X.shape[1], m)
        rotation.niter = 10
        index = faiss.IndexPreTransform(rotation, index)
    return _quantised(index, X, Xt, m)


def rabitq(X, Xt, n_bits):
    """faiss RaBitQ, one bit an axis and 8 bytes of factors, over the leading principal axes that fit the bytes."""
    dimensions = min(n_bits - 64, X.shape[1])
    if dimensions < 8:
        return None
    pca = PCA(dimensions, random_state=0).fit(X)
    codes = faiss.IndexRaBitQ(dimensions, faiss.METRIC_L2)
    codes.qb = 8  # bits of a query's coordinate
    index = faiss.IndexPreTransform(faiss.RandomRotationMatrix(dimensions, dimensions), codes)
    X, Xt = (np.ascontiguousarray(pca.transform(part), dtype=np.float32) for part in (X, Xt))
    return _quantised(index, X, Xt, dimensions // 8 + 8)


def _quantised(index, X, Xt, n_bytes):
    start = time.process_time()
    index.train(X)
    trained = time.process_time()
    index.add(X)
    encoded = time.process_time()
    stored = index.reconstruct_n(0, len(X))

    def rows():
        for start in range(0, len(Xt), _QUERIES):
            found, ids = index.search(Xt[start : start + _QUERIES], len(X))
            distances = np.full(found.shape, np.finfo(np.float32).max, dtype=np.float32)
            np.put_along_axis(distances, ids, found, axis=1)
            yield distances

    size = float(np.sqrt(np.mean(np.sum(X**2, axis=1)) / X.shape[1]))
    return Found(n_bytes, trained - start, (encoded - trained) / len(X), rows(), (stored / size, Xt / size))


def floats(X, Xt, n_bits=None):
    """The vectors themselves."""

    def rows():
        squares = np.sum(X**2, axis=1)
        for start in range(0, len(Xt), _QUERIES):
            yield squares - 2 * Xt[start : start + _QUERIES] @ X.T

    size = float(np.sqrt(np.mean(np.sum(X**2, axis=1)) / X.shape[1]))
    return Found(4 * X.shape[1], 0.0, 0.0, rows(), (X / size, Xt / size))


def rescored_signs(X, Xt, n_bits):
    """Signs of coordinates, then a second look at the float vectors of the 100 nearest, kept on the side."""
    if n_bits > X.shape[1]:
        return None
    start = time.process_time()
    coder = SignEmbedding(n_bits=n_bits).fit(X)
    fitted = time.process_time()
    train, test = coder.transform(X).astype(np.float32), coder.transform(Xt).astype(np.float32)
    encoded = time.process_time()

    def rows():
        squares = np.sum(X**2, axis=1)
        for first in range(0, len(Xt), _QUERIES):
            part = slice(first, first + _QUERIES)
            distances = (n_bits - test[part] @ train.T) / 2
            near = np.argsort(distances, axis=1, kind="stable")[:, :CANDIDATES]
            exact = np.take_along_axis(squares - 2 * Xt[part] @ X.T, near, axis=1)
            # Candidates come before all others, in the order of their exact distances.
            places = np.argsort(np.argsort(exact, axis=1), axis=1) - float(CANDIDATES)
            np.put_along_axis(distances, near, places.astype(np.float32), axis=1)
            yield distances

    seconds = (encoded - fitted) / (len(X) + len(Xt))
    return Found(n_bits // 8 + 4 * X.shape[1], fitted - start, seconds, rows(), None)
