"""All pairs of near codes, the k-NN graph, and groups of duplicates: exact, one block of queries at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.search.queries import Queries
from cbid.search.scan import within
from cbid.search.segments import Rows, Segment

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from cbid.search.index import CodeIndex

__all__ = ["DuplicateGroup", "Pairs", "duplicate_groups", "near_pairs", "neighbour_graph", "pair_blocks"]

_BLOCK = 1024  # queries of one scan


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of ids with left < right, ordered by (left, distance, right)."""

    left: NDArray[np.int64]  # (n,)
    right: NDArray[np.int64]  # (n,)
    distances: NDArray[np.float32]  # (n,)

    def __len__(self) -> int:
        return len(self.left)


class DuplicateGroup(NamedTuple):
    """Ids that are connected by pairs of near codes; the representative is the one with the most near codes."""

    representative: int
    ids: list[int]  # ascending


def pair_blocks(
    codes: NDArray[np.uint8],
    n_bits: int,
    weights: NDArray[np.float64] | None,
    radius: float,
    *,
    n_threads: int | None = None,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]]:
    """Yield the pairs of rows i < j at distance <= radius, for blocks of i in order: i, j and distances.

    Each block scans only the codes that follow it, so each pair is computed once.
    """
    n = len(codes)
    segment = Segment.build(Rows(codes, np.arange(n)), by_class=False) if n else None
    for first in range(0, n, _BLOCK):
        assert segment is not None
        queries = Queries.from_codes(codes[first : first + _BLOCK], n_bits, weights)
        offsets, right, distances = within(segment.blocks, n, queries, radius, start=first, n_threads=n_threads)
        left = np.repeat(np.arange(first, first + len(queries)), np.diff(offsets))
        after = right > left
        yield left[after], right[after], distances[after]


def near_pairs(
    ids: NDArray[np.int64],
    codes: NDArray[np.uint8],
    n_bits: int,
    weights: NDArray[np.float64] | None,
    radius: float,
    *,
    limit: int,
    n_threads: int | None = None,
) -> Pairs:
    """Return all pairs at distance <= radius of codes whose ids ascend; raise if there are more than ``limit``."""
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
    n_found = 0
    for part in pair_blocks(codes, n_bits, weights, radius, n_threads=n_threads):
        n_found += len(part[0])
        if n_found > limit:
            raise ValueError(f"radius={radius}: more than limit={limit:,} pairs; expected a smaller radius")
        parts.append(part)
    left, right, distances = (np.concatenate(arrays) for arrays in zip(*parts))
    return Pairs(ids[left], ids[right], distances)


def duplicate_groups(
    ids: NDArray[np.int64],
    codes: NDArray[np.uint8],
    n_bits: int,
    weights: NDArray[np.float64] | None,
    radius: float,
    *,
    n_threads: int | None = None,
) -> list[DuplicateGroup]:
    """Return the connected components of the pairs at distance <= radius, without single ids.

    Equal codes are compared once, so many exact copies take no more memory than one.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if len(ids) == 0:
        return []
    distinct, code_of, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    code_of = code_of.reshape(-1)
    n_near = counts.copy()  # codes within the radius, with multiplicity
    edges = []
    for left, right, _ in pair_blocks(distinct, n_bits, weights, radius, n_threads=n_threads):
        np.add.at(n_near, left, counts[right])
        np.add.at(n_near, right, counts[left])
        edges.append(np.stack([left, right]))
    left, right = np.concatenate(edges, axis=1)
    graph = coo_array((np.ones(len(left), bool), (left, right)), shape=(len(distinct), len(distinct)))
    component = connected_components(graph, directed=False)[1][code_of]
    order = np.argsort(component, kind="stable")  # ids stay ascending within a component
    groups = []
    for members in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
        if len(members) > 1:
            best = members[np.argmax(n_near[code_of[members]])]  # the first of equals: the smallest id
            groups.append(DuplicateGroup(int(ids[best]), ids[members].tolist()))
    return sorted(groups, key=lambda group: group.ids[0])


def neighbour_graph(index: "CodeIndex", k: int) -> "csr_array":
    """Return the k nearest of each code, without itself, as a sparse matrix; see `CodeIndex.neighbours`."""
    from scipy.sparse import csr_array

    ids = index.ids
    n = len(ids)
    k = min(k, max(n - 1, 0))
    columns = np.empty((n, k), np.int64)
    distances = np.empty((n, k), np.float32)
    for first in range(0, n if k else 0, _BLOCK):
        own = ids[first : first + _BLOCK]
        found = index.search(index.reconstruct(own), k + 1, probes=index.cells)
        # Leave the code itself out; more than k equal codes with smaller ids may have displaced it already.
        keep = np.argsort(found.ids == own[:, None], axis=1, kind="stable")[:, :k]
        columns[first : first + len(own)] = np.searchsorted(ids, np.take_along_axis(found.ids, keep, axis=1))
        distances[first : first + len(own)] = np.take_along_axis(found.distances, keep, axis=1)
    starts = np.arange(n + 1) * k
    return csr_array((distances.reshape(-1), columns.reshape(-1), starts), shape=(n, n))
