"""What finds the nearest patches: here kd-trees searched best bin first, and codes; see also `flat` and `lsh`.

A structure is made over the rows (n, width) of some patches and answers ``query(Q, k, n_threads)``: distances (q, k)
float32, nearest first (squared Euclidean, or weighted Hamming of codes), and positions (q, k) int64 among the rows.
Places that stay empty have distance inf and position -1. ``nbytes`` is what it takes beside the rows.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.search.blocks import to_blocks
from cbid.search.queries import Queries
from cbid.search.scan import topk

__all__ = ["Answers", "CodeSearch", "Floats", "KDTreeSearch", "PatchSearch", "in_shares", "nothing_found"]

Floats = NDArray[np.float32]
Answers = tuple[Floats, NDArray[np.int64]]


class PatchSearch(Protocol):
    """What every structure is."""

    nbytes: int

    def query(self, Q: NDArray[Any], k: int, n_threads: int) -> Answers: ...


class KDTreeSearch:
    """kd-trees of OpenCV's FLANN, searched best bin first (Beis and Lowe, 1997).

    A search ends after ``checks`` comparisons of a query with a row, over ``n_trees`` trees together, which split at
    random among the dimensions that vary most.
    """

    def __init__(self, rows: Floats, *, checks: int, n_trees: int, seed: int) -> None:
        try:
            import cv2
        except ImportError as error:
            raise ImportError("search='kd-tree' needs OpenCV: install cbid[images]") from error
        self._rows = np.ascontiguousarray(rows)  # FLANN refers to them
        cv2.setRNGSeed(seed)  # the generator that FLANN draws from
        self._index = cv2.flann.Index(self._rows, {"algorithm": 1, "trees": n_trees})  # 1: kd-trees
        self._checks = checks
        # A tree has nearly two nodes for each row, each a dimension, a value and two pointers.
        self.nbytes = 2 * len(rows) * n_trees * 24

    def query(self, Q: Floats, k: int, n_threads: int) -> Answers:
        found = min(k, len(self._rows))

        def search(part: Floats) -> Answers:
            positions, distances = self._index.knnSearch(part, found, params={"checks": self._checks})
            return np.asarray(distances, np.float32), np.asarray(positions, np.int64)

        distances, positions = in_shares(search, np.ascontiguousarray(Q), n_threads)
        missing = ((0, 0), (0, k - found))
        return np.pad(distances, missing, constant_values=np.inf), np.pad(positions, missing, constant_values=-1)


class CodeSearch:
    """Packed codes under plain or weighted Hamming distance, exactly (`cbid.search.scan`)."""

    def __init__(self, rows: NDArray[np.uint8], *, n_bits: int, weights: ArrayLike | None) -> None:
        self._blocks, self._n = to_blocks(rows), len(rows)
        self._n_bits, self._weights = n_bits, weights
        self.nbytes = self._blocks.nbytes

    def query(self, Q: NDArray[np.uint8], k: int, n_threads: int) -> Answers:
        queries = Queries.from_codes(Q, self._n_bits, self._weights)
        positions, distances = topk(self._blocks, self._n, queries, k, n_threads=n_threads)
        return distances, positions


def nothing_found(n_queries: int, k: int) -> Answers:
    """Answers with all places empty."""
    return np.full((n_queries, k), np.inf, np.float32), np.full((n_queries, k), -1, np.int64)


def in_shares(search: Callable[[NDArray[Any]], Answers], Q: NDArray[Any], n_threads: int) -> Answers:
    """``search`` over the queries in equal shares, one thread each; it must let go of Python's lock."""
    shares = np.array_split(Q, max(1, min(n_threads, len(Q))))
    if len(shares) == 1:
        return search(Q)
    with ThreadPoolExecutor(len(shares)) as pool:
        distances, positions = zip(*pool.map(search, shares))
    return np.concatenate(distances), np.concatenate(positions)
