"""Quantise embeddings with learned bits, called as the functions of sentence-transformers are."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_choice, check_integer
from cbid.coders import CBID, Coder
from cbid.search import CodeIndex

_OFFSET = 128  # "binary" is the unsigned byte minus this
_PRECISIONS = ("ubinary", "binary")


class EmbeddingQuantizer:
    """Learn bits for embeddings, pack them, and search them with an optional second look at the embeddings.

    Embeddings are scaled to unit length first; scores of a second look are cosines.

    Parameters
    ----------
    coder : Coder, default=None
        A coder of `cbid.coders`, fitted or not; by default ``CBID(n_bits=256)``. ``quantizer.coder.save`` and
        `cbid.load` keep it in a file.
    n_negatives : int, default=5
        The number of random embeddings, not paired with it, that each member of a pair is compared with.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(200) % 4
    >>> embeddings = rng.normal(size=(200, 32)) + 3 * np.eye(32)[labels]
    >>> quantizer = EmbeddingQuantizer(CBID(n_bits=32)).fit(embeddings, labels)
    >>> codes = quantizer.quantize(embeddings)
    >>> codes.shape, codes.dtype
    ((200, 4), dtype('uint8'))
    >>> hits = quantizer.semantic_search(embeddings[:1], codes, top_k=3, corpus_embeddings=embeddings)
    >>> hits[0][0]["corpus_id"]
    0
    """

    def __init__(self, coder: Coder | None = None, *, n_negatives: int = 5) -> None:
        check_integer("n_negatives", n_negatives, 1)
        self.coder: Any = CBID(n_bits=256) if coder is None else coder
        self.n_negatives = n_negatives

    def fit(
        self,
        embeddings: ArrayLike,
        labels: Any = None,
        *,
        pairs: ArrayLike | None = None,
        similarity: ArrayLike | None = None,
    ) -> Self:
        """Learn from embeddings (n, d) and labels or pairs; with neither, near embeddings get near codes.

        Parameters
        ----------
        embeddings : array (n, d)
        labels : sequence of n labels, default=None
            As for ``fit`` of the coder; None marks embeddings without a label.
        pairs : array (m, 2) of row numbers, default=None
            Embeddings that belong together, such as a question and its answer.
        similarity : array (m,), default=None
            How similar the members of each pair are, from 0 to 1. None: they belong together, and embeddings drawn
            at random do not.
        """
        X = self._normalized(embeddings, "embeddings")
        if pairs is None:
            if similarity is not None:
                raise ValueError("similarity: expected pairs with it")
            self.coder.fit(X, labels)
            return self
        if labels is not None:
            raise ValueError("labels and pairs: expected one of them")
        if not hasattr(self.coder, "fit_pairs"):
            raise ValueError(f"coder={self.coder!r} learns from no pairs: expected CBID")
        rows = _check_pairs(pairs, len(X))
        if similarity is None:
            self.coder.fit_triplets(X, *_triplets(rows, len(X), self.n_negatives))
        else:
            self.coder.fit_pairs(X, *rows.T, similarity)
        return self

    def quantize(self, embeddings: ArrayLike, precision: str = "ubinary") -> NDArray[np.uint8] | NDArray[np.int8]:
        """Return packed codes: uint8 ("ubinary"), or int8 after subtracting 128 ("binary")."""
        check_choice("precision", precision, _PRECISIONS)
        codes: NDArray[np.uint8] = self.coder.encode(self._normalized(embeddings, "embeddings"))
        return codes if precision == "ubinary" else (codes.astype(np.int16) - _OFFSET).astype(np.int8)

    def semantic_search(
        self,
        query_embeddings: ArrayLike,
        corpus: NDArray[np.uint8] | NDArray[np.int8] | CodeIndex,
        top_k: int = 10,
        *,
        corpus_embeddings: ArrayLike | None = None,
        rescore_multiplier: int = 10,
    ) -> list[list[dict[str, int | float]]]:
        """Return the best of the corpus for each query, as ``{"corpus_id": ..., "score": ...}``, best first.

        Queries are compared by their real-valued projections, not by their bits.

        Parameters
        ----------
        query_embeddings : array (q, d) or (d,)
        corpus : array (n, bytes), or CodeIndex
            What `quantize` returned, in either precision, or what `index` made of it once for many calls.
        top_k : int, default=10
        corpus_embeddings : array (n, d), default=None
            If given, the best ``top_k * rescore_multiplier`` are ranked again and scored by their cosine. It may be
            mapped from a file: only these rows are read. Without it, the score is the share of the weighted bits
            that agree, from 0 to 1.
        rescore_multiplier : int, default=10
        """
        index = corpus if isinstance(corpus, CodeIndex) else self.index(corpus)
        if index.n_bits != self.coder.n_bits_:
            raise ValueError(f"corpus has {index.n_bits} bits: expected {self.coder.n_bits_}, as the coder gives")
        check_integer("top_k", top_k, 1)
        check_integer("rescore_multiplier", rescore_multiplier, 1)
        queries = self._normalized(np.atleast_2d(np.asarray(query_embeddings)), "query_embeddings")
        n_found = min(top_k * (rescore_multiplier if corpus_embeddings is not None else 1), max(len(index), 1))
        found = index.search(projections=self.coder.project(queries), k=n_found)
        if corpus_embeddings is None:
            whole = float(index.n_bits if index.weights is None else index.weights.sum())
            ids, scores = found.ids, 1 - found.distances / whole
        else:
            ids, scores = self._rescored(queries, found.ids, corpus_embeddings, len(index))
        return [
            [{"corpus_id": int(i), "score": float(score)} for i, score in zip(*row) if i >= 0]
            for row in zip(ids[:, :top_k], scores[:, :top_k])
        ]

    def index(self, corpus: NDArray[np.uint8] | NDArray[np.int8]) -> CodeIndex:
        """Return an index of quantised embeddings for repeated searches; ids are row numbers."""
        codes = np.asarray(corpus)
        if codes.dtype == np.int8:
            codes = (codes.astype(np.int16) + _OFFSET).astype(np.uint8)
        weights = getattr(self.coder, "weights_", None)
        if weights is not None and weights.ndim == 2:
            raise ValueError("coder has weights for each class: expected one weight for each bit (margin='shared')")
        index = CodeIndex(self.coder.n_bits_, weights)
        index.add(codes)
        return index

    def _rescored(
        self, queries: NDArray[Any], ids: NDArray[np.int64], embeddings: ArrayLike, n: int
    ) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
        vectors = np.asanyarray(embeddings)  # a memory map stays one
        expected = (n, queries.shape[1])
        if vectors.shape != expected:
            raise ValueError(f"corpus_embeddings has shape {vectors.shape}: expected {expected}")
        scores = np.full(ids.shape, -np.inf)
        for row, query in enumerate(queries):
            known = ids[row] >= 0
            if known.any():
                scores[row, known] = self._normalized(vectors[ids[row, known]], "corpus_embeddings") @ query
        order = np.argsort(-scores, axis=1, kind="stable")
        return np.take_along_axis(ids, order, axis=1), np.take_along_axis(scores, order, axis=1)

    @staticmethod
    def _normalized(embeddings: ArrayLike, name: str) -> NDArray[np.floating]:
        X = np.asarray(embeddings)
        if X.dtype.kind not in "fiu" or X.ndim != 2:
            raise ValueError(f"{name} has dtype {X.dtype} and shape {X.shape}: expected real numbers (n, d)")
        X = X if X.dtype == np.float64 else X.astype(np.float32)
        lengths = np.linalg.norm(X, axis=1, keepdims=True)
        return X / np.where(lengths > 0, lengths, X.dtype.type(1))


def _check_pairs(pairs: ArrayLike, n: int) -> NDArray[np.int64]:
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu" or not len(array):
        raise ValueError(f"pairs has shape {array.shape} and dtype {array.dtype}: expected row numbers (m, 2)")
    if array.min() < 0 or array.max() >= n:
        raise ValueError(f"pairs holds {array.min()}..{array.max()}: expected rows 0..{n - 1}")
    return array.astype(np.int64)


def _triplets(
    pairs: NDArray[np.int64], n: int, n_negatives: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return anchors, positives and random negatives; each pair serves in both directions."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    anchors, positives = np.repeat(both, n_negatives, axis=0).T
    negatives = np.random.default_rng(0).integers(0, n, len(anchors))
    paired = np.unique(np.concatenate([both[:, 0] * n + both[:, 1], np.arange(n) * (n + 1)]))
    free = ~np.isin(anchors * n + negatives, paired)
    if not free.any():
        raise ValueError(f"pairs joins all {n} embeddings with each other: expected some that do not belong together")
    return anchors[free], positives[free], negatives[free]
