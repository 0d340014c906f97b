"""Candidates in the order of Hamming distance, measured again under weights."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.codes import hamming, weighted_hamming
from cbid.search.milvus.settings import Settings

__all__ = ["distances_of", "nearest", "recalls"]


def distances_of(
    query: NDArray[np.uint8],
    codes: NDArray[np.uint8],
    labels: NDArray[Any],
    weights: NDArray[np.float64] | Settings | None,
) -> NDArray[np.float32]:
    """Distances (c,) of one query (bytes,) to codes (c, bytes).

    weights: None for plain Hamming, (n_bits,), or the settings of a collection with weights for each class.
    """
    if weights is None:
        return np.asarray(hamming(query, codes), dtype=np.float32)
    if not isinstance(weights, Settings):
        return np.asarray(weighted_hamming(query, codes, weights), dtype=np.float32)
    distances = np.empty(len(codes), dtype=np.float32)
    for label in np.unique(labels):
        of_class = labels == label
        distances[of_class] = weighted_hamming(query, codes[of_class], weights.weights_of(label))
    return distances


def nearest(ids: NDArray[np.int64], distances: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """The places of the k nearest, nearest first, ties by smaller id."""
    return np.lexsort((ids, distances))[:k]


def recalls(found: list[NDArray[np.float32]], exact: NDArray[np.float32], candidates: list[int]) -> dict[int, float]:
    """The share of the exact k nearest among the first so many candidates.

    found: for each query, the distances of its candidates, in the order in which Milvus gave them
    exact: (q, k) distances of the exact answer, inf where there are fewer than k
    A candidate as near as the k-th exact one counts as found.
    """
    wanted = np.isfinite(exact).sum(axis=1)  # (q,)
    furthest = np.where(np.isfinite(exact), exact, -1).max(axis=1)
    return {
        c: float(
            sum(min(int(np.count_nonzero(d[:c] <= f)), int(w)) for d, f, w in zip(found, furthest, wanted))
            / wanted.sum()
        )
        for c in candidates
    }
