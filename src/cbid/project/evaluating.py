"""Accuracy of codes and of raw vectors, measured on images that were not used for learning."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.classify.votes import Neighbours, count_votes, neighbours_with_ties
from cbid.codes import unpack
from cbid.evaluation import average_precision, mean_average_precision, shared_labels
from cbid.project.table import LABEL_SEPARATOR, split_labels
from cbid.search import CodeIndex
from cbid.search.segments import random_keys

MAX_RANKED_TIES = 512  # images at one distance whose vectors are compared; of more, a random subset

_K = 5  # neighbours that vote
_OVERLAP = 10  # nearest neighbours by codes and by raw vectors that are compared
_HOW = ("weighted", "plain")
_MAX_QUERIES = 2_000
_MAX_RANKED, _MAX_RANKINGS = 20_000, 500  # images per ranking, and rankings, for average precision
_CHUNK_BYTES = 32 * 2**20

Weights = Callable[[int, str], NDArray[np.float64]]
Codes = NDArray[np.uint8]
Vectors = NDArray[np.float32]
Labelled = tuple[Vectors, Codes, NDArray[np.str_]]  # vectors (n, d), codes and labels (n,)


def evaluate(
    queries: Labelled, stored: Labelled, *, n_bits: int, lengths: list[int], weights: Weights, seed: int = 0
) -> dict[str, Any]:
    """Measure accuracy, mean average precision and overlap of codes of each length, and of the raw vectors.

    Parameters
    ----------
    queries, stored : tuples (vectors (n, d), codes, labels (n,))
        The images to search with and the images to search. The label "" means no label.
    n_bits : int
        Bits of a code.
    lengths : list of int
        Lengths of the prefixes to measure.
    weights : function of (length, how)
        Returns the weights (n_bits,) of a prefix for "weighted" or "plain" search, zero after the prefix. One index
        of whole codes then serves all lengths.
    seed : int, default=0
        Seed of the samples of queries and stored images.

    Returns
    -------
    dict
        "raw" and, for each length and kind of search, "codes". Values are None if they cannot be measured, because
        there are no held-out images or no labels.

        - accuracy: share of queries whose class wins the vote of the 5 nearest; if images have several labels, for
          which the label with most votes is one of them. Images at the same distance are ranked by their vectors, as
          ``Project.search`` and ``Project.classify`` do.
        - map: mean average precision of up to 500 queries over the ranking of up to 20,000 stored images. An image
          that has a label of the query is relevant. Codes alone are ranked: the expectation over all orders of ties.
        - overlap: share of the 10 nearest by raw vectors that are also among the 10 nearest by codes, ties ranked
          by the vectors.
        - milliseconds: time per query in a batch of queries.
    """
    rng = np.random.default_rng(seed)
    asked = _sample(queries, _MAX_QUERIES, rng)
    texts = np.unique(np.concatenate([stored[2], asked[2]]))
    classes = np.unique([name for text in texts.tolist() for name in split_labels(text)])
    result: dict[str, Any] = {
        "k": _K,
        "n_queries": len(asked[0]),
        "n_stored": len(stored[0]),
        "n_classes": len(classes),
        "raw": {"bytes": 4 * stored[0].shape[1], "accuracy": None, "map": None, "milliseconds": None},
        "codes": [],
        "confusion": None,
    }
    index = CodeIndex(n_bits)
    index.add(stored[1], labels=stored[2])
    index.search(asked[1][:1], _OVERLAP, weights=weights(n_bits, "weighted"))  # load the kernels before timing
    near = None
    if len(asked[0]) and len(stored[0]):
        begun = time.perf_counter()
        near, distances = nearest_vectors(asked[0], stored[0], np.arange(len(stored[0])), _OVERLAP)
        result["raw"]["milliseconds"] = _milliseconds(begun, len(asked[0]))
        result["raw"]["accuracy"] = _accuracy(stored[2][near], distances, asked, classes)[0]
        ranked = _sample(stored, _MAX_RANKED, rng)
        findable = np.flatnonzero(np.isin(asked[2], [t for t in texts.tolist() if _shares(t, ranked[2])]))
        ranking = np.sort(rng.permutation(findable)[:_MAX_RANKINGS])
        if len(classes) > 1 and len(ranking):
            result["raw"]["map"] = _raw_map(asked[0][ranking], asked[2][ranking], ranked[0], ranked[2])
    ranking_of = b""
    for length in lengths:
        entry: dict[str, Any] = {"n_bits": length, "bytes": (length + 7) // 8}
        for how in _HOW:
            measured: dict[str, Any] = {"accuracy": None, "map": None, "overlap": None, "milliseconds": None}
            if near is not None:
                w = weights(length, how)
                begun = time.perf_counter()
                index.search(asked[1], _OVERLAP, weights=w)
                measured["milliseconds"] = _milliseconds(begun, len(asked[1]))
                key = (w / w.max(initial=1e-300)).tobytes()
                if ranking_of != key:  # weights are often equal, and then "weighted" and "plain" rank alike
                    ranking_of, (found, ranks) = key, _ranked(index, asked, stored[0], w)
                measured["overlap"] = _overlap(found, near)
                names = np.where(found < 0, "", stored[2][found])
                measured["accuracy"], confusion = _accuracy(names, ranks, asked, classes)
                if result["raw"]["map"] is not None:
                    bits, base = (unpack(c, n_bits)[:, :length] for c in (asked[1][ranking], ranked[1]))
                    measured["map"] = mean_average_precision(
                        bits,
                        _sets(asked[2][ranking]),
                        base,
                        _sets(ranked[2]),
                        weights=w[:length] if how == "weighted" else 1.0,
                    )
                if length == lengths[-1] and how == "weighted":
                    result["confusion"] = confusion
            entry[how] = measured
        result["codes"].append(entry)
    return result


def predict(queries: Labelled, stored: Labelled, *, n_bits: int, weights: NDArray[np.float64]) -> NDArray[np.str_]:
    """Return the class (n,) that wins the vote for each query, as ``evaluate`` counts it; "" without a vote."""
    classes = np.unique(np.concatenate([stored[2], queries[2]]))
    classes = classes[classes != ""]
    index = CodeIndex(n_bits)
    index.add(stored[1], labels=stored[2])
    found, ranks = _ranked(index, queries, stored[0], weights)
    names = np.where(found < 0, "", stored[2][found])
    votes = vote(ranks, names, classes, _K, queries[1])
    return np.where(votes.any(axis=1), classes[votes.argmax(axis=1)], "")


def sample_queries(ids: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return the ids that ``evaluate`` searches with: all, or a sample of 2,000."""
    return _sample((ids, ids, ids), _MAX_QUERIES, np.random.default_rng(seed))[0]


def nearest_vectors(
    queries: NDArray[np.float32], vectors: NDArray[np.float32], rows: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the k of ``rows`` whose vectors are nearest to each query, and their Euclidean distances, both (q, k).

    Works in chunks, so that only the compared part of a mapped file is read. Ties are broken by the smaller row.
    """
    q, k = len(queries), min(k, len(rows))
    best = np.full((q, k), np.inf)
    at = np.full((q, k), -1, dtype=np.int64)
    asked = queries.astype(np.float32)
    norms = np.einsum("ij,ij->i", asked, asked, dtype=np.float64)[:, None]
    size = max(1, _CHUNK_BYTES // (4 * vectors.shape[1]))
    for start in range(0, len(rows), size):
        chunk = rows[start : start + size]
        contiguous = chunk[-1] - chunk[0] + 1 == len(chunk)
        stored = vectors[chunk[0] : chunk[-1] + 1] if contiguous else vectors[chunk]
        squares = np.einsum("ij,ij->i", stored, stored, dtype=np.float64) - 2.0 * (asked @ stored.T) + norms
        joined = np.concatenate([best, squares], axis=1)
        candidates = np.concatenate([at, np.broadcast_to(chunk, (q, len(chunk)))], axis=1)
        chosen = np.argpartition(joined, k - 1, axis=1)[:, :k]
        best, at = np.take_along_axis(joined, chosen, axis=1), np.take_along_axis(candidates, chosen, axis=1)
    # The expansion above loses digits if vectors are close; the differences of those found do not.
    if k:
        exact = np.stack(
            [np.linalg.norm(vectors[row].astype(np.float64) - one, axis=1) for one, row in zip(asked, at)]
        )
        order = np.lexsort((at, exact), axis=1)
        at, best = np.take_along_axis(at, order, axis=1), np.take_along_axis(exact, order, axis=1)
    return at, best.astype(np.float32)


def rank_by_vectors(
    near: Neighbours, queries: NDArray[np.float32], vectors: NDArray[np.float32], k: int
) -> tuple[Neighbours, NDArray[np.float64]]:
    """Rank images at the same distance by their vectors, and return the k nearest and all that still tie with them.

    Parameters
    ----------
    near : Neighbours
        The k nearest by codes, with all that tie with the k-th.
    queries : array (q, d)
        Vectors of all queries; ``near.rows`` are places in it.
    vectors : array (n, d)
        Vectors by id.
    k : int

    Returns
    -------
    near : Neighbours
        In the new order; images with equal codes and vectors are ordered by id.
    ranks : array (r, m)
        0, 1, ...; equal only if the distances of both codes and vectors are; inf where there is no image.
    """
    ids, distances = near.ids.copy(), near.distances.copy()
    labels, ranks = near.labels.copy(), np.full(ids.shape, np.inf)
    most = 1
    for i, row in enumerate(near.rows):
        n = int((ids[i] >= 0).sum())
        found, d = ids[i, :n], distances[i, :n]
        step = np.flatnonzero(d[1:] != d[:-1]) + 1
        apart = np.zeros(n)
        chosen = np.ones(n, dtype=bool)
        for first, last in zip([0, *step], [*step, n]):
            if last - first > MAX_RANKED_TIES:
                kept = first + np.argsort(random_keys(found[first:last]), kind="stable")[: max(MAX_RANKED_TIES, k)]
                chosen[first:last] = False
                chosen[kept] = True
            if last - first > 1:
                group = first + np.flatnonzero(chosen[first:last])
                difference = vectors[found[group]] - queries[row]
                apart[group] = np.square(difference, out=difference).sum(axis=1)
        at = np.flatnonzero(chosen)
        at = at[np.lexsort((found[at], apart[at], d[at]))]
        different = (d[at][1:] != d[at][:-1]) | (apart[at][1:] != apart[at][:-1])
        rank = np.concatenate([[0], np.cumsum(different)])[: len(at)]
        at = at[rank <= rank[min(k, len(at)) - 1]] if len(at) else at
        most = max(most, len(at))
        for array in (ids, distances, labels):
            array[i, : len(at)] = array[i, at]
        ids[i, len(at) :], distances[i, len(at) :] = -1, np.inf
        ranks[i, : len(at)] = rank[: len(at)]
    return Neighbours(near.rows, ids[:, :most], distances[:, :most], labels[:, :most]), ranks[:, :most]


def _ranked(
    index: CodeIndex, asked: Labelled, vectors: Vectors, weights: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the nearest images of all queries, ties ranked by vectors: ids and ranks, both (q, m)."""
    parts = [
        rank_by_vectors(near, asked[0], vectors, _OVERLAP)
        for near in neighbours_with_ties(index, asked[1], _OVERLAP, weights=weights)
    ]
    width = max(ranks.shape[1] for _, ranks in parts)
    ids, all_ranks = np.full((len(asked[0]), width), -1, dtype=np.int64), np.full((len(asked[0]), width), np.inf)
    for near, ranks in parts:
        ids[near.rows, : ranks.shape[1]], all_ranks[near.rows, : ranks.shape[1]] = near.ids, ranks
    return ids, all_ranks


def is_evaluation(saved: Any) -> bool:
    """Return whether the content of a file is a result of ``evaluate``."""
    kinds = {"k": int, "n_queries": int, "n_stored": int, "n_classes": int, "raw": dict, "codes": list}
    return (
        isinstance(saved, dict)
        and all(isinstance(saved.get(name), kind) for name, kind in kinds.items())
        and isinstance(saved.get("confusion", ""), dict | None)
        and _has(saved["raw"], "bytes", "accuracy", "map", "milliseconds")
        and all(_has(entry, "n_bits", "bytes", *_HOW) for entry in saved["codes"])
        and all(_has(entry[how], "accuracy", "map", "overlap") for entry in saved["codes"] for how in _HOW)
    )


def _has(saved: Any, *names: str) -> bool:
    return isinstance(saved, dict) and saved.keys() >= set(names)


def vote(
    ranks: NDArray[Any],
    labels: NDArray[np.str_],
    classes: NDArray[np.str_],
    k: int,
    queries: Codes,
    weights: str = "uniform",
) -> NDArray[np.float64]:
    """Return the votes (q, n_classes) of the k nearest; a neighbour without a label gives its vote to no class.

    ``ranks`` (q, m) are distances or ranks, ascending; ``labels`` (q, m) their labels; ``queries`` the codes (q, b).
    """
    numbers = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    known = np.where(labels == "", -1, numbers)
    return count_votes(ranks, known, len(classes), k, weights=weights, queries=queries)


def _accuracy(
    labels: NDArray[np.str_], ranks: NDArray[Any], asked: Labelled, classes: NDArray[np.str_]
) -> tuple[float | None, dict[str, Any] | None]:
    """Return the share of correct votes of the k nearest, and the confusion matrix (true class, vote)."""
    known = asked[2] != ""
    if len(classes) < 2 or not known.any():
        return None, None
    texts = np.unique(np.concatenate([labels.ravel(), asked[2][known]]))
    if any(LABEL_SEPARATOR in text for text in texts.tolist()):
        texts = texts[texts != ""]
        members = np.array([np.isin(classes, split_labels(text)) for text in texts.tolist()], dtype=np.float64)
        votes = vote(ranks[known], labels[known], texts, _K, asked[1][known]) @ members
        right = members[np.searchsorted(texts, asked[2][known]), votes.argmax(axis=1)] > 0
        return float((right & votes.any(axis=1)).mean()), None
    votes = vote(ranks[known], labels[known], classes, _K, asked[1][known])
    voted = np.where(votes.any(axis=1), votes.argmax(axis=1), -1)  # -1: no neighbour has a label
    truth = np.searchsorted(classes, asked[2][known])
    matrix = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(matrix, (truth[voted >= 0], voted[voted >= 0]), 1)
    return float((voted == truth).mean()), {"classes": classes.tolist(), "matrix": matrix.tolist()}


def _raw_map(queries: Vectors, wanted: NDArray[np.str_], vectors: Vectors, labels: NDArray[np.str_]) -> float:
    squares = np.einsum("ij,ij->i", vectors, vectors)
    found = [
        average_precision(
            squares - 2 * (queries[i : i + 64] @ vectors.T),
            shared_labels(_sets(wanted[i : i + 64]), _sets(labels)) > 0,
        )
        for i in range(0, len(queries), 64)
    ]
    return float(np.nanmean(np.concatenate(found)))


def _sets(texts: NDArray[np.str_]) -> list[list[str]]:
    """Return the labels of each stored text."""
    return [split_labels(text) for text in texts.tolist()]


def _shares(text: str, others: NDArray[np.str_]) -> bool:
    """Return whether one of the other texts has a label of this one."""
    wanted = set(split_labels(text))
    return any(not wanted.isdisjoint(split_labels(other)) for other in np.unique(others).tolist())


def _overlap(found: NDArray[np.int64], near: NDArray[np.int64]) -> float:
    return float((found[:, :_OVERLAP, None] == near[:, None, :]).any(axis=1).mean())


def _sample(given: tuple[Any, Any, Any], most: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    if len(given[0]) <= most:
        return given
    drawn = np.sort(rng.choice(len(given[0]), most, replace=False))
    return given[0][drawn], given[1][drawn], given[2][drawn]


def _milliseconds(begun: float, n: int) -> float:
    return 1000 * (time.perf_counter() - begun) / n
