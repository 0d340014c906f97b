"""What a project answers, and the exact search over raw vectors that its codes are compared with."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["BitSides", "Explanation", "ProjectMatches", "Votes", "nearest_vectors"]

_CHUNK_BYTES = 32 * 2**20


@dataclass(frozen=True, eq=False)
class ProjectMatches:
    """The k nearest images of each query, nearest first; id -1, distance inf and label "" where there are fewer.

    ids, distances, labels : (q, k). An image without a label has the label "".
    seconds : what the search took, for all queries together.
    n_bytes : bytes that one stored image takes in this kind of search.
    """

    ids: NDArray[np.int64]
    distances: NDArray[np.float32]
    labels: NDArray[np.str_]
    seconds: float
    n_bytes: int

    def __len__(self) -> int:
        return len(self.ids)


class Votes(NamedTuple):
    """The vote of the nearest images.

    labels : (q,) the class with most votes, "" if there are none
    votes : (q, n_classes) in the order of ``project.classes``
    """

    labels: NDArray[np.str_]
    votes: NDArray[np.float64]


class Explanation(NamedTuple):
    """agree, weight : (n_bits,) whether two codes agree in a bit, and what it adds to their distance if not."""

    agree: NDArray[np.bool_]
    weight: NDArray[np.float64]


class BitSides(NamedTuple):
    """Ids of the images where a bit is not set, and where it is set, most certain first."""

    negative: NDArray[np.int64]
    positive: NDArray[np.int64]


def nearest_vectors(
    queries: NDArray[np.float32], vectors: NDArray[np.float32], places: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k of ``places`` whose vectors are nearest to each query, and their Euclidean distances, (q, k).

    Chunk by chunk, so that of a mapped file only what is compared is read. Equal distances come by smaller place.
    """
    q, k = len(queries), min(k, len(places))
    best = np.full((q, k), np.inf)
    at = np.full((q, k), -1, dtype=np.int64)
    asked = queries.astype(np.float32)
    own = np.einsum("ij,ij->i", asked, asked, dtype=np.float64)
    rows = max(1, _CHUNK_BYTES // (4 * vectors.shape[1]))
    for start in range(0, len(places), rows):
        chunk = places[start : start + rows]
        whole = chunk[-1] - chunk[0] + 1 == len(chunk)
        stored = vectors[chunk[0] : chunk[-1] + 1] if whole else vectors[chunk]
        squares = np.einsum("ij,ij->i", stored, stored, dtype=np.float64) - 2.0 * (asked @ stored.T) + own[:, None]
        joined = np.concatenate([best, squares], axis=1)
        names = np.concatenate([at, np.broadcast_to(chunk, (q, len(chunk)))], axis=1)
        taken = np.argpartition(joined, k - 1, axis=1)[:, :k]
        best, at = np.take_along_axis(joined, taken, axis=1), np.take_along_axis(names, taken, axis=1)
    # Squares of differences, which lose no digits where vectors are near each other, for those that were found.
    if k:
        exact = np.stack(
            [np.linalg.norm(vectors[row].astype(np.float64) - one, axis=1) for one, row in zip(asked, at)]
        )
        order = np.lexsort((at, exact), axis=1)
        at, best = np.take_along_axis(at, order, axis=1), np.take_along_axis(exact, order, axis=1)
    return at, best.astype(np.float32)
