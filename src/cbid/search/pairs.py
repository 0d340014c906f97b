"""All pairs of near codes, the k-NN graph, and groups of duplicates: exact, one block of queries at a time."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.search.buckets import within_radius
from cbid.search.queries import Queries
from cbid.search.scan import ANY_NUMBER, TooManyHitsError
from cbid.search.segments import CodeRows, Segment
from cbid.storage.digests import digest_of
from cbid.storage.tensors import FileKind

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from cbid.search.index import CodeIndex

_BLOCK = 4096  # queries of one search
_MOST_HITS = 1 << 22  # of one search and thread; with more, it has fewer queries
_MOST_EDGES = 1 << 22  # pairs of distinct codes held at a time; groups need only their components
_SECONDS = 30.0  # between two writes of a checkpoint

FilePath = str | os.PathLike[str] | None
Positions = NDArray[np.int64]
Part = tuple[Positions, Positions, NDArray[np.float32]]  # left, right, distances


class CheckpointError(ValueError):
    """A checkpoint that is damaged, or belongs to another search."""


_CHECKPOINT = FileKind("cbid-pairs", 1, "checkpoint of pairs", CheckpointError)


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


class PairSearch(NamedTuple):
    """What to search: codes whose ids ascend, their weights (t,) or None, and the largest distance of a pair."""

    ids: NDArray[np.int64]
    codes: NDArray[np.uint8]
    n_bits: int
    weights: NDArray[np.float64] | None
    radius: float
    method: str = "auto"
    checkpoint: FilePath = None  # a file from which an interrupted search continues
    n_threads: int | None = None


class _Checkpoint:
    """The finished blocks and their results, in a file that is replaced atomically every half minute.

    ``search`` is what identifies a search, as JSON values.
    """

    def __init__(self, path: FilePath, search: dict[str, Any]) -> None:
        self._path, self._search = path, search
        self._written = time.monotonic()

    @classmethod
    def of_pairs(cls, search: PairSearch, what: str) -> "_Checkpoint":
        if search.checkpoint is None:
            return cls(None, {})
        weights = None if search.weights is None else search.weights.tolist()
        codes = digest_of(search.ids.tobytes(), search.codes.tobytes())
        return cls(search.checkpoint, {"what": what, "radius": search.radius, "weights": weights, "codes": codes})

    @classmethod
    def of_graph(cls, path: FilePath, index: "CodeIndex", ids: Positions, k: int) -> "_Checkpoint":
        if path is None:
            return cls(None, {})
        given = index.weights
        weights = None if given is None else given.tolist()
        labels = index.labels if given is not None and given.ndim == 2 else None  # they choose the weights
        codes = digest_of(
            ids.tobytes(), index.reconstruct(ids).tobytes(), None if labels is None else labels.tolist()
        )
        return cls(path, {"what": "neighbours", "k": k, "weights": weights, "codes": codes})

    def read(self) -> tuple[int, dict[str, NDArray[Any]]]:
        """Return the first row that is not done, and the arrays; 0 and none without a file."""
        if self._path is None or not os.path.lexists(self._path):
            return 0, {}
        content, arrays = _CHECKPOINT.read(self._path)
        if not isinstance(content, dict) or content.get("search") != self._search:
            raise CheckpointError(
                f"checkpoint={os.fspath(self._path)!r} is of another search: expected the same codes, weights and "
                "radius or k, or a new file"
            )
        return int(content["done"]), arrays

    def is_due(self) -> bool:
        return self._path is not None and time.monotonic() - self._written >= _SECONDS

    def write(self, done: int, arrays: dict[str, NDArray[Any]]) -> None:
        assert self._path is not None
        _CHECKPOINT.write(self._path, {"search": self._search, "done": done}, arrays)
        self._written = time.monotonic()

    def remove(self) -> None:
        """Remove the file: the result is complete."""
        if self._path is not None and os.path.lexists(self._path):
            os.unlink(self._path)


def _pair_blocks(search: PairSearch, first: int = 0) -> Iterator[tuple[int, Part]]:
    """Yield the pairs of rows i < j at distance <= radius for blocks of i from ``first`` on, and the next i."""
    n = len(search.codes)
    if n == 0:
        return
    segment, size = Segment.build(CodeRows(search.codes, np.arange(n)), by_class=False), _BLOCK
    while first < n:
        last = min(first + size, n)
        queries = Queries.from_codes(search.codes[first:last], search.n_bits, search.weights)
        try:
            offsets, right, distances = within_radius(
                segment, first, n, queries, np.float32(search.radius), keep=None, method=search.method,
                following=True, most_hits=_MOST_HITS if last - first > 1 else ANY_NUMBER, n_threads=search.n_threads,
            )  # fmt: skip
        except TooManyHitsError:
            size = max((last - first) // 4, 1)
            continue
        left = np.repeat(np.arange(first, last), np.diff(offsets))
        first, size = last, min(2 * size, _BLOCK)
        yield first, (left, right, distances)


def near_pairs(search: PairSearch, *, limit: int) -> Pairs:
    """Return all pairs at distance <= radius; raise if there are more than ``limit``."""
    checkpoint = _Checkpoint.of_pairs(search, "pairs")
    first, held = checkpoint.read()
    names = ("left", "right", "distances")
    none = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    parts: list[tuple[NDArray[Any], ...]] = [tuple(held[name] for name in names) if held else none]
    n_found = len(parts[0][0])
    for done, part in _pair_blocks(search, first):
        n_found += len(part[0])
        if n_found > limit:
            raise ValueError(f"limit={limit}: there are more than {limit:,} pairs; expected a smaller radius")
        parts.append(part)
        if checkpoint.is_due():
            parts = [tuple(np.concatenate(arrays) for arrays in zip(*parts))]
            checkpoint.write(done, dict(zip(names, parts[0])))
    left, right, distances = (np.concatenate(arrays) for arrays in zip(*parts))
    checkpoint.remove()
    return Pairs(search.ids[left], search.ids[right], distances)


def duplicate_groups(search: PairSearch) -> list[DuplicateGroup]:
    """Return the connected components of the pairs at distance <= radius, without single ids.

    Equal codes are compared once, and pairs are regularly reduced to their components: memory is bounded.
    """
    if len(search.ids) == 0:
        return []
    distinct, code_of, counts = _distinct(search.codes)
    checkpoint = _Checkpoint.of_pairs(search, "groups")
    first, held = checkpoint.read()
    n_near = held.get("n_near", counts.copy())  # codes within the radius, with multiplicity
    component = held.get("component", np.arange(len(distinct)))
    edges: list[NDArray[np.int64]] = []
    for done, (left, right, _) in _pair_blocks(search._replace(codes=distinct), first):
        np.add.at(n_near, left, counts[right])
        np.add.at(n_near, right, counts[left])
        edges.append(np.stack([left, right]))
        if sum(part.shape[1] for part in edges) > _MOST_EDGES or checkpoint.is_due():
            component, edges = _joined(component, edges), []
        if checkpoint.is_due():
            checkpoint.write(done, {"n_near": n_near, "component": component})
    of_id = _joined(component, edges)[code_of]
    order = np.argsort(of_id, kind="stable")  # ids stay ascending within a component
    groups = []
    for members in np.split(order, np.flatnonzero(np.diff(of_id[order])) + 1):
        if len(members) > 1:
            best = members[np.argmax(n_near[code_of[members]])]  # the first of equals: the smallest id
            groups.append(DuplicateGroup(int(search.ids[best]), search.ids[members].tolist()))
    checkpoint.remove()
    return sorted(groups, key=lambda group: group.ids[0])


def _distinct(codes: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], Positions, Positions]:
    """The distinct codes, the place of each code among them, and how often each occurs."""
    items = np.ascontiguousarray(codes).view(np.dtype((np.void, codes.shape[1])))[:, 0]
    distinct, code_of, counts = np.unique(items, return_inverse=True, return_counts=True)
    return distinct.view(np.uint8).reshape(-1, codes.shape[1]), code_of.reshape(-1), counts


def _joined(component: Positions, edges: list[NDArray[np.int64]]) -> Positions:
    """The components of the nodes once ``edges`` connect them."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not edges:
        return component
    left, right = component[np.concatenate(edges, axis=1)]
    graph = coo_array((np.ones(len(left), bool), (left, right)), shape=(len(component), len(component)))
    return connected_components(graph, directed=False)[1].astype(np.int64)[component]


def neighbour_graph(index: "CodeIndex", k: int, checkpoint: FilePath = None) -> "csr_array":
    """Return the k nearest of each code, without itself, as a sparse matrix; see `CodeIndex.neighbours`."""
    from scipy.sparse import csr_array

    ids = index.ids
    n = len(ids)
    k = min(k, max(n - 1, 0))
    state = _Checkpoint.of_graph(checkpoint, index, ids, k)
    done, held = state.read()
    columns, distances = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
    if held:
        columns[:done], distances[:done] = held["columns"], held["distances"]
    for first in range(done, n if k else 0, _BLOCK):
        own = ids[first : first + _BLOCK]
        rows = slice(first, first + len(own))
        found = index.search(index.reconstruct(own), k + 1, probes=index.cells)
        # Leave the code itself out; more than k equal codes with smaller ids may have displaced it already.
        keep = np.argsort(found.ids == own[:, None], axis=1, kind="stable")[:, :k]
        columns[rows] = np.searchsorted(ids, np.take_along_axis(found.ids, keep, axis=1))
        distances[rows] = np.take_along_axis(found.distances, keep, axis=1)
        if state.is_due():
            state.write(rows.stop, {"columns": columns[: rows.stop], "distances": distances[: rows.stop]})
    state.remove()
    starts = np.arange(n + 1) * k
    return csr_array((distances.reshape(-1), columns.reshape(-1), starts), shape=(n, n))
