"""How far apart neighbours are: the unit in which kernels and cells are measured when none is given."""

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

__all__ = ["neighbour_distance"]

_QUERIES = 1_000
_AMONG = 20_000


def neighbour_distance(
    X: NDArray[np.floating], k: int, *, name: str, rng: np.random.Generator, metric: str = "euclidean"
) -> float:
    """Mean distance of a sample to its k-th nearest other one, over at most 1,000 samples among at most 20,000.

    Copies count once. A sample of fewer than k others takes the furthest. ``name`` is the argument that stands to be
    given where all samples are copies of one and there is no distance to speak of.
    """
    among = np.unique(X[rng.permutation(len(X))[:_AMONG]], axis=0)
    if len(among) < 2:
        raise ValueError(
            f"{name}=None is measured by the distance of neighbours, and all of X is one point; give {name}"
        )
    among = rng.permutation(among - among.mean(axis=0))  # around the mean, where distances have their digits
    k = min(k, len(among) - 1)
    search = NearestNeighbors(n_neighbors=k + 1, algorithm="brute", metric=metric).fit(among)
    distances, _ = search.kneighbors(among[:_QUERIES])  # the sample itself comes first, at distance 0
    return float(distances[:, k].mean(dtype=np.float64))
