"""The vote of the nearest codes: neighbours with all their ties, and a fair share of the vote for those that tie."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from cbid.label_trees import LabelTree
from cbid.search import CodeIndex, Matches
from cbid.search.segments import random_keys

EQUAL_SHARES = 1e-8  # shares of the votes that differ by less are equal
MAX_TIED = 8_192  # if about as many neighbours or more tie with the k-th, a random subset of them votes
_WIDTHS = (1, 64)  # neighbours beyond the k-th that are fetched, until all ties are known
_CHUNK = 1 << 20  # neighbours in memory at a time
_FIRST_SAMPLE = 4_096  # codes drawn, at least, to estimate how many tie and to find some of very many
_ENOUGH_TIED = 512  # ties in a sample that are enough
_EQUAL = 1e-9  # votes that differ relatively by less are equal


class CodeSearcher(Protocol):
    """An index or a store of codes that returns the nearest."""

    def search(
        self, codes: ArrayLike, k: int = 10, *, weights: ArrayLike | None = None, labels: ArrayLike | None = None
    ) -> Matches:
        """Return the k nearest codes, as ``CodeIndex.search``."""


class Neighbours(NamedTuple):
    """The nearest neighbours of some of the queries, and all neighbours as near as the k-th.

    rows : (r,) the queries
    ids, distances, labels : (r, m) nearest first; missing places have id -1 and distance inf
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.int64]
    distances: NDArray[np.float32]
    labels: NDArray[Any]


def neighbours_with_ties(
    index: CodeSearcher,
    codes: NDArray[np.uint8],
    k: int,
    *,
    weights: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    excluded: NDArray[np.int64] | None = None,
    counts: NDArray[np.int64] | None = None,
) -> Iterator[Neighbours]:
    """Yield the k nearest of every query with all neighbours that tie with the k-th, some queries at a time.

    ``excluded`` are ids to leave out. ``counts`` is the number of items that each id represents, if not one; an id is
    then the place in this array. If more than about 8,192 tie with the k-th, a random subset of at least 512 of them
    is returned instead. It is drawn by a fixed function of the ids and does not depend on the other queries. A store
    outside the process returns at most 64 more than k.
    """
    gone = np.empty(0, dtype=np.int64) if excluded is None else excluded
    local = index if isinstance(index, CodeIndex) else None
    n_stored = None if local is None else len(local)
    many: list[Neighbours] = []
    todo = np.arange(len(codes))
    for extra in _WIDTHS:
        width = k + extra
        if n_stored is not None:
            width = min(width, max(n_stored, k))
        is_last = extra == _WIDTHS[-1]
        unresolved = [todo[:0]]
        for rows in _chunks(todo, width):
            found = nearest_codes(index, codes[rows], width, weights=weights, labels=labels, excluded=gone)
            near = found._replace(rows=rows)
            kth = _kth_distance(near, k, counts)
            open_ended = (near.distances[:, -1] == kth) & np.isfinite(kth) & (n_stored is None or width < n_stored)
            if is_last and local is None:
                open_ended[:] = False
            yield _take(near, np.flatnonzero(~open_ended), kth)
            unresolved.append(rows[open_ended])
            if is_last and open_ended.any():
                many.append(_take(near, np.flatnonzero(open_ended), kth))
        todo = np.concatenate(unresolved)
    if local is not None:
        for near in many:
            last = near.distances[:, -1]
            for distance in np.unique(last):
                for part in _chunks(np.flatnonzero(last == distance), MAX_TIED):
                    same = Neighbours(near.rows[part], near.ids[part], near.distances[part], near.labels[part])
                    yield from _with_many_ties(local, codes, same, distance, weights, labels, gone)


def nearest_codes(
    index: CodeSearcher,
    codes: NDArray[np.uint8],
    k: int,
    *,
    weights: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    excluded: NDArray[np.int64],
) -> Neighbours:
    """Return the k nearest of every query without ``excluded``, ties in the order of their ids."""
    width = k + len(excluded)
    if isinstance(index, CodeIndex):
        width = min(width, max(len(index), k))
    found = index.search(codes, width, weights=weights, labels=labels)
    assert found.labels is not None
    return _without(Neighbours(np.arange(len(codes)), found.ids, found.distances, found.labels), excluded, k)


def _with_many_ties(
    index: CodeIndex,
    codes: NDArray[np.uint8],
    near: Neighbours,
    distance: np.float32,
    weights: ArrayLike | None,
    labels: ArrayLike | None,
    gone: NDArray[np.int64],
) -> Iterator[Neighbours]:
    """Replace the neighbours at ``distance`` by all that there are, or by a large enough random subset of very many.

    How many there are is estimated in a random subset of the codes, which the index keeps, so no query visits
    all codes more often than a search for the nearest.
    """
    steps = [(max(0, (len(index) // _FIRST_SAMPLE).bit_length() - 1), np.arange(len(near.rows)))]
    while steps:
        halvings, todo = steps.pop()
        found = index.range_search(
            codes[near.rows[todo]], float(distance), weights=weights, labels=labels, halvings=halvings
        )
        assert found.labels is not None
        few, more = [], []
        for i, one in zip(todo.tolist(), found):
            assert one.labels is not None
            tied = (one.distances == distance) & ~np.isin(one.ids, gone)
            n_tied = int(tied.sum())
            if halvings and n_tied << halvings < MAX_TIED:
                few.append(i)
                continue
            if halvings and n_tied < _ENOUGH_TIED:
                more.append(i)
                continue
            closer = near.distances[i] < distance
            both: list[tuple[Any, Any]] = [
                (near.ids, one.ids),
                (near.distances, one.distances),
                (near.labels, one.labels),
            ]
            joined = [np.concatenate([a[i, closer], b[tied]])[None] for a, b in both]
            yield Neighbours(near.rows[i : i + 1], *joined)
        following = [(0, few), (max(0, halvings - 2), more)]
        steps += [(step, np.array(places)) for step, places in following if places]


def _chunks(rows: NDArray[np.int64], width: int) -> Iterator[NDArray[np.int64]]:
    size = max(1, _CHUNK // width)
    return (rows[i : i + size] for i in range(0, len(rows), size))


def _without(near: Neighbours, gone: NDArray[np.int64], width: int) -> Neighbours:
    """Move excluded ids to the end, as missing, and return the first ``width`` columns."""
    if not len(gone):
        return near
    missing = np.isin(near.ids, gone)
    order = np.argsort(missing, axis=1, kind="stable")
    ids = np.where(missing, -1, near.ids)
    distances = np.where(missing, np.float32(np.inf), near.distances)
    labels = np.where(missing, np.zeros(1, near.labels.dtype), near.labels)
    taken = [np.take_along_axis(a, order, axis=1)[:, :width] for a in (ids, distances, labels)]
    return Neighbours(near.rows, *taken)


def _kth_distance(near: Neighbours, k: int, counts: NDArray[np.int64] | None) -> NDArray[np.float32]:
    """Return the distance of the k-th item (r,); inf if there are fewer."""
    if counts is None:
        return near.distances[:, k - 1] if near.distances.shape[1] >= k else np.full(len(near.rows), np.inf, "f4")
    total = np.where(near.ids < 0, 0, counts[near.ids]).cumsum(axis=1)
    at = (total < k).sum(axis=1)
    padded = np.pad(near.distances, ((0, 0), (0, 1)), constant_values=np.inf)
    return padded[np.arange(len(at)), at]


def _take(near: Neighbours, rows: NDArray[np.int64], kth: NDArray[np.float32]) -> Neighbours:
    """Return some rows, without the columns in which no item is as near as the k-th."""
    inside = np.isfinite(near.distances[rows]) & (near.distances[rows] <= kth[rows, None])
    width = int(inside.sum(axis=1).max(initial=1))
    ids, distances, labels = (a[rows, :width] for a in (near.ids, near.distances, near.labels))
    inside = inside[:, :width]
    return Neighbours(
        near.rows[rows], np.where(inside, ids, -1), np.where(inside, distances, np.float32(np.inf)), labels
    )


def neighbour_votes(
    distances: NDArray[Any], k: int, *, weights: str = "uniform", counts: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Return the votes of each neighbour (n, m); see `count_votes`."""
    present = np.isfinite(distances)
    amount = np.where(present, 1 if counts is None else counts, 0).astype(np.float64)
    rows = np.arange(len(distances))
    total = amount.cumsum(axis=1)
    at = np.minimum((total < k).sum(axis=1), distances.shape[1] - 1)
    kth = distances[rows, at][:, None]  # of the last one if there are fewer than k
    closer, tied = present & (distances < kth), present & (distances == kth)
    n_closer, n_tied = ((amount * part).sum(axis=1, keepdims=True) for part in (closer, tied))
    share = np.minimum((k - n_closer) / np.maximum(n_tied, 1), 1)
    vote = amount * np.where(tied, share, closer)
    if weights == "distance":
        same = distances == 0
        # Relative to the nearest: tiny distances do not overflow, and the shares stay the same.
        nearest = np.where(same, np.inf, distances).min(axis=1, keepdims=True)
        power = np.ones(distances.shape)
        np.divide(nearest, distances, out=power, where=~same & present)
        vote *= np.where(same.any(axis=1, keepdims=True), same, power)
    return vote


def count_votes(
    distances: NDArray[Any],
    labels: NDArray[np.int64],
    n_classes: int,
    k: int,
    *,
    weights: str = "uniform",
    counts: NDArray[np.int64] | None = None,
    queries: NDArray[np.uint8] | None = None,
) -> NDArray[np.float64]:
    """Return the votes of each class (n, n_classes).

    distances : (n, m) ascending, of the k nearest neighbours and all that tie with the k-th, which share the votes
        that the nearer ones leave; inf where there is no neighbour
    labels : (n, m) class numbers; a neighbour with a negative number takes its votes, but gives them to no class
    counts : (n, m) the number of items that each neighbour represents, if not one
    queries : (n, n_bytes) codes that decide, as random numbers, if nothing else does; without, the first class wins
    """
    vote = np.where(labels < 0, 0, neighbour_votes(distances, k, weights=weights, counts=counts))
    numbers = np.where(np.isfinite(distances) & (labels >= 0), labels, 0)
    votes = _sums(vote, numbers, n_classes)
    best = votes >= (1 - _EQUAL) * votes.max(axis=1, keepdims=True)
    several = np.flatnonzero((best.sum(axis=1) > 1) & (votes > 0).any(axis=1))
    if len(several):
        keys = None if queries is None else queries[several]
        winner = _winner(best[several], distances[several], vote[several], numbers[several], keys)
        votes[several, winner] = votes[several].max(axis=1) * (1 + _EQUAL)
    return votes


def set_shares(votes: NDArray[np.float64], sets: NDArray[np.int64], members: csr_matrix) -> NDArray[np.float64]:
    """Return the share of the votes (n, m) of the neighbours for each label, (n, n_labels).

    ``sets`` (n, m) is the number of each neighbour's label set, a row of ``members`` (n_sets, n_labels).
    """
    votes = votes / votes.sum(axis=1, keepdims=True)
    rows = np.arange(len(votes) + 1) * votes.shape[1]
    by_set = csr_matrix((votes.ravel(), np.where(votes > 0, sets, 0).ravel(), rows), (len(votes), members.shape[0]))
    found: NDArray[np.float64] = (by_set @ members).toarray()
    return found


def descend(tree: LabelTree, classes: list[Any], shares: NDArray[np.float64], threshold: float = 0.0) -> NDArray[Any]:
    """Return the node of the tree (n,) that the shares of the votes (n, n_classes) lead to, from the top down.

    On each level the node with most votes below the last one is next, while it has the share ``threshold``; at least
    the first level answers. Among nodes with equal votes, it is the one with the class that has most votes.
    """
    nodes, places = tree.levels(classes)
    found = np.empty(len(shares), dtype=object)
    goes_on, left = np.ones(len(shares), dtype=bool), shares
    for level, (names, place) in enumerate(zip(nodes, places)):
        parts = [left[:, place == i] for i in range(len(names))]
        of_nodes = np.stack([part.sum(axis=1) for part in parts], axis=1)
        largest = np.stack([part.max(axis=1) for part in parts], axis=1)
        most = of_nodes >= of_nodes.max(axis=1, keepdims=True) - EQUAL_SHARES
        best = np.where(most, largest, -1).argmax(axis=1)
        if level:
            goes_on = goes_on & (of_nodes[np.arange(len(best)), best] >= threshold - EQUAL_SHARES)
        for row in np.flatnonzero(goes_on):
            found[row] = names[best[row]]
        left = np.where(place[None] == best[:, None], left, 0)
    return found


def _sums(vote: NDArray[np.float64], numbers: NDArray[np.int64], n_classes: int) -> NDArray[np.float64]:
    places = np.arange(len(vote))[:, None] * n_classes + numbers
    votes: NDArray[Any] = np.bincount(places.ravel(), vote.ravel(), len(vote) * n_classes)
    return votes.reshape(-1, n_classes)


def _winner(
    best: NDArray[np.bool_],
    distances: NDArray[Any],
    vote: NDArray[np.float64],
    numbers: NDArray[np.int64],
    queries: NDArray[np.uint8] | None,
) -> NDArray[np.int64]:
    """Choose one of the classes with equal votes: the one with most votes at the least distance, then at the next."""
    best = best.copy()
    steps = np.zeros(distances.shape, dtype=np.int64)
    steps[:, 1:] = (distances[:, 1:] != distances[:, :-1]).cumsum(axis=1)
    for step in range(int(steps[vote > 0].max(initial=0)) + 1):
        todo = np.flatnonzero(best.sum(axis=1) > 1)
        if not len(todo):
            break
        here = _sums(np.where(steps[todo] == step, vote[todo], 0), numbers[todo], best.shape[1])
        here = np.where(best[todo], here, -1)
        best[todo] = here >= (1 - _EQUAL) * here.max(axis=1, keepdims=True)
    if queries is None:
        return best.argmax(axis=1)
    keys = np.zeros(len(queries), dtype=np.uint64)
    for column in queries.T:
        keys = random_keys(keys ^ column)
    chosen = (keys % best.sum(axis=1).astype(np.uint64)).astype(np.int64)
    return (best.cumsum(axis=1) > chosen[:, None]).argmax(axis=1)
