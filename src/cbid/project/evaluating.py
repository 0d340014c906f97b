"""What codes keep of the raw vectors, measured on images that were not learned from."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.classify.knn import count_votes
from cbid.codes import unpack
from cbid.evaluation import average_precision, mean_average_precision
from cbid.project.answers import nearest_vectors
from cbid.search import CodeIndex

__all__ = ["OVERLAP", "WAYS", "K", "evaluate", "is_evaluation"]

K = 5  # neighbours that vote
OVERLAP = 10  # nearest images that codes and raw vectors are compared in
WAYS = ("weighted", "plain")
_MOST_QUERIES = 2_000
_MOST_RANKED, _MOST_RANKINGS = 20_000, 500  # images of a whole ranking, as average precision needs it, and rankings

Weights = Callable[[int, str], NDArray[np.float64]]
Codes = NDArray[np.uint8]
Vectors = NDArray[np.float32]


def evaluate(
    queries: tuple[Vectors, Codes, NDArray[np.str_]],
    stored: tuple[Vectors, Codes, NDArray[np.str_]],
    *,
    n_bits: int,
    lengths: list[int],
    weights: Weights,
    seed: int = 0,
) -> dict[str, Any]:
    """Accuracy, mean average precision and overlap of codes of each length, beside those of the raw vectors.

    queries, stored : vectors (n, d), codes and labels (n,) of the images that ask and of those that are searched; ""
        is no label.
    weights : the weights (n_bits,) of a length, "weighted" or "plain": zero past the length, so that one index of
        whole codes answers for all of them.

    - accuracy: share of queries whose class wins the vote of the 5 nearest.
    - map: mean average precision of up to 500 queries over the ranking of up to 20,000 stored images; relevant is the
      same class.
    - overlap: share of the raw vectors' 10 nearest among the codes' 10 nearest.
    - milliseconds: of a query among others (batches), not of one alone.

    All values are None where there is nothing to measure on: no held-out images, or no labels.
    """
    rng = np.random.default_rng(seed)
    asked = _part(queries, _MOST_QUERIES, rng)
    classes = np.unique(np.concatenate([stored[2], asked[2]]))
    classes = classes[classes != ""]
    told: dict[str, Any] = {
        "k": K,
        "n_queries": len(asked[0]),
        "n_stored": len(stored[0]),
        "n_classes": len(classes),
        "raw": {"bytes": 4 * stored[0].shape[1], "accuracy": None, "map": None, "milliseconds": None},
        "codes": [],
        "confusion": None,
    }
    index = CodeIndex(n_bits)
    index.add(stored[1], labels=stored[2])
    index.search(asked[1][:1], OVERLAP, weights=weights(n_bits, "weighted"))  # compiled before it is timed
    near = None
    if len(asked[0]) and len(stored[0]):
        begun = time.perf_counter()
        near, distances = nearest_vectors(asked[0], stored[0], np.arange(len(stored[0])), OVERLAP)
        told["raw"]["milliseconds"] = _milliseconds(begun, len(asked[0]))
        told["raw"]["accuracy"] = _accuracy(stored[2][near], distances, asked[2], classes)[0]
        ranked = _part(stored, _MOST_RANKED, rng)
        findable = np.flatnonzero((asked[2] != "") & np.isin(asked[2], ranked[2]))
        ranking = np.sort(rng.permutation(findable)[:_MOST_RANKINGS])
        if len(classes) > 1 and len(ranking):
            told["raw"]["map"] = _raw_map(asked[0][ranking], asked[2][ranking], ranked[0], ranked[2])
    for length in lengths:
        entry: dict[str, Any] = {"n_bits": length, "bytes": (length + 7) // 8}
        for how in WAYS:
            measured: dict[str, Any] = {"accuracy": None, "map": None, "overlap": None, "milliseconds": None}
            if near is not None:
                w = weights(length, how)
                begun = time.perf_counter()
                found = index.search(asked[1], OVERLAP, weights=w)
                measured["milliseconds"] = _milliseconds(begun, len(asked[1]))
                measured["overlap"] = _overlap(found.ids, near)
                assert found.labels is not None
                measured["accuracy"], confusion = _accuracy(found.labels, found.distances, asked[2], classes)
                if told["raw"]["map"] is not None:
                    bits, base = (unpack(c, n_bits)[:, :length] for c in (asked[1][ranking], ranked[1]))
                    measured["map"] = mean_average_precision(
                        bits, asked[2][ranking], base, ranked[2], weights=w[:length] if how == "weighted" else 1.0
                    )
                if length == lengths[-1] and how == "weighted":
                    told["confusion"] = confusion
            entry[how] = measured
        told["codes"].append(entry)
    return told


def is_evaluation(saved: Any) -> bool:
    """Whether what a file has is an answer of ``evaluate``."""
    kinds = {"k": int, "n_queries": int, "n_stored": int, "n_classes": int, "raw": dict, "codes": list}
    return (
        isinstance(saved, dict)
        and all(isinstance(saved.get(name), kind) for name, kind in kinds.items())
        and isinstance(saved.get("confusion", ""), dict | None)
        and _has(saved["raw"], "bytes", "accuracy", "map", "milliseconds")
        and all(_has(entry, "n_bits", "bytes", *WAYS) for entry in saved["codes"])
        and all(_has(entry[how], "accuracy", "map", "overlap") for entry in saved["codes"] for how in WAYS)
    )


def _has(saved: Any, *names: str) -> bool:
    return isinstance(saved, dict) and saved.keys() >= set(names)


def _accuracy(
    labels: NDArray[np.str_], distances: NDArray[np.float32], wanted: NDArray[np.str_], classes: NDArray[np.str_]
) -> tuple[float | None, dict[str, Any] | None]:
    """Share of right votes of the k nearest, and how often each class was taken for each, (wanted, voted)."""
    known = wanted != ""
    if len(classes) < 2 or not known.any():
        return None, None
    near = labels[known, :K]
    numbers = np.searchsorted(classes, near)  # "" comes before every name: it is a vote for none
    numbers = np.where(near == "", len(classes), np.minimum(numbers, len(classes) - 1))
    votes = count_votes(distances[known, :K].astype(np.float64), numbers, len(classes) + 1, "uniform")
    voted = np.where(votes[:, :-1].any(axis=1), votes[:, :-1].argmax(axis=1), -1)  # -1: none of them has a label
    truth = np.searchsorted(classes, wanted[known])
    matrix = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(matrix, (truth[voted >= 0], voted[voted >= 0]), 1)
    return float((voted == truth).mean()), {"classes": classes.tolist(), "matrix": matrix.tolist()}


def _raw_map(queries: Vectors, wanted: NDArray[np.str_], vectors: Vectors, labels: NDArray[np.str_]) -> float:
    squares = np.einsum("ij,ij->i", vectors, vectors)
    found = [
        average_precision(squares - 2 * (queries[i : i + 64] @ vectors.T), wanted[i : i + 64, None] == labels)
        for i in range(0, len(queries), 64)
    ]
    return float(np.nanmean(np.concatenate(found)))


def _overlap(found: NDArray[np.int64], near: NDArray[np.int64]) -> float:
    return float((found[:, :, None] == near[:, None, :]).any(axis=1).mean())


def _part(given: tuple[Any, Any, Any], most: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    if len(given[0]) <= most:
        return given
    drawn = np.sort(rng.choice(len(given[0]), most, replace=False))
    return given[0][drawn], given[1][drawn], given[2][drawn]


def _milliseconds(begun: float, n: int) -> float:
    return 1000 * (time.perf_counter() - begun) / n
