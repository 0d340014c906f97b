"""Answers of a project: nearest images, votes for a class, and the images at both ends of a bit."""

import sqlite3
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_choice, check_integer, check_real
from cbid.classify.votes import EQUAL_SHARES, CodeSearcher, Neighbours, nearest_codes, neighbours_with_ties
from cbid.codes import check_codes, n_bytes, pack, prefix, unpack
from cbid.project.evaluating import nearest_vectors, rank_by_vectors, sample_queries, vote
from cbid.project.files import ProjectError
from cbid.project.snapshot import Snapshot
from cbid.project.table import LABEL_SEPARATOR
from cbid.search import Matches, UnknownIdError
from cbid.search.checks import as_float32, as_ids
from cbid.search.matches import html_table

HOW = ("weighted", "plain", "raw")
NO_LABELS = "the images have no labels"
UNKNOWN = "unknown"  # the label of queries that are far from all images
_LARGEST_K = 1 << 16  # in projects of fewer images, as in CodeIndex.search: a larger k would only take memory
_UNLIKE = 0.5  # weight of the counter-examples relative to the examples


class CodeStore(Protocol):
    """A store outside the project that holds its codes, such as ``MilvusStore``."""

    @property
    def made_by(self) -> str:
        """The digest of the coder that made the codes."""

    @property
    def address(self) -> Any:
        """The address, for messages."""

    def search(
        self, codes: ArrayLike, k: int = 10, *, weights: ArrayLike | None = None, labels: ArrayLike | None = None
    ) -> Matches:
        """Return the k nearest codes, as ``CodeIndex.search``."""


@dataclass(frozen=True, eq=False)
class ProjectMatches:
    """The k nearest images of each query, nearest first.

    If there are fewer than k, the rest has id -1, distance inf, label "", similarity 0 and agree -1.

    Attributes
    ----------
    ids, distances, labels : arrays (q, k)
        An image without a label has the label ""; several labels are one text, separated by commas.
    similarity : array (q, k)
        From 0 to 1. Of codes: 1 minus the distance divided by the sum of the weights. Of raw vectors: 1 minus the
        distance divided by the sum of both norms, which is the largest possible distance.
    agree : array (q, k)
        Number of bits, of ``n_bits`` compared, in which query and image agree; -1 for raw vectors.
    n_bits : int or None
        Bits compared; None for raw vectors.
    seconds : float
        Duration of the search, for all queries together.
    n_bytes : int
        Bytes of one stored image in this kind of search.
    """

    ids: NDArray[np.int64]
    distances: NDArray[np.float32]
    labels: NDArray[np.str_]
    similarity: NDArray[np.float32]
    agree: NDArray[np.int64]
    seconds: float
    n_bytes: int
    n_bits: int | None
    pictures: Callable[[int], bytes] | None = field(default=None, repr=False)  # the thumbnail of an image

    def _repr_html_(self) -> str:
        rows = (
            (f"query {q}", [self._cell(q, place) for place in range(ids.shape[0]) if ids[place] >= 0])
            for q, ids in enumerate(self.ids)
        )
        return html_table(rows, len(self.ids))

    def _cell(self, q: int, place: int) -> str:
        id, label = int(self.ids[q, place]), escape(str(self.labels[q, place]))
        near = f"{self.distances[q, place]:.3f}"
        if self.n_bits is not None:
            near = f"{self.agree[q, place]} of {self.n_bits} bits"
        try:
            jpeg = None if self.pictures is None else self.pictures(id)
        except (ValueError, OSError, sqlite3.Error):  # made from vectors, removed meanwhile, or the project is closed
            jpeg = None
        picture = ""
        if jpeg is not None:
            picture = f'<img alt="" width="96" src="data:image/jpeg;base64,{b64encode(jpeg).decode()}"><br>'
        return f"{picture}{label or id}<br>{near}"

    def __len__(self) -> int:
        return len(self.ids)


class Examples(NamedTuple):
    """Images that a query consists of: codes (n, b), and vectors (n, d) if all are known."""

    codes: NDArray[np.uint8]
    vectors: NDArray[np.float32] | None


@dataclass(frozen=True, eq=False)
class Votes:
    """The vote of the nearest images. It unpacks into labels and votes.

    labels : (q,) the class with most votes; "" if there are none, and "unknown" if the images are too far away.
        If images have several labels: those with at least half of the votes, separated by commas
    votes : (q, n_classes) in the order of ``project.classes``; images that tie have parts of a vote
    label_sets : the labels of each query as a list, empty if it has none or is unknown
    """

    labels: NDArray[np.str_]
    votes: NDArray[np.float64]
    label_sets: list[list[str]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter((self.labels, self.votes))


class Explanation(NamedTuple):
    """Two codes bit by bit.

    agree : (n_bits,) whether the codes agree in a bit
    weight : (n_bits,) what the bit adds to the distance if they differ
    """

    agree: NDArray[np.bool_]
    weight: NDArray[np.float64]


class BitSides(NamedTuple):
    """Ids of images whose bit is 0 (negative) and 1 (positive), those farthest from the threshold first."""

    negative: NDArray[np.int64]
    positive: NDArray[np.int64]


@dataclass(frozen=True)
class SearchSettings:
    """What is compared and which images count; see ``Project.search``."""

    n_bits: int | None = None
    how: str = "weighted"
    exclude: int | Sequence[int] | None = None
    label: str | Sequence[str] | None = None
    match: str = "any"
    likeness: float | None = None


def search(
    snapshot: Snapshot,
    store: CodeStore | None,
    queries: NDArray[Any],
    k: int,
    settings: SearchSettings,
    vectors: ArrayLike | None = None,
    weights: NDArray[np.float64] | None = None,
) -> ProjectMatches:
    """Search by codes in the index or the store, or by raw vectors; see ``Project.search``.

    ``weights`` (snapshot.n_bits,) are used instead of those of the coder.
    """
    how, label, match = settings.how, settings.label, settings.match
    n_bits, likeness = settings.n_bits, settings.likeness
    check_choice("how", how, HOW)
    labels = None
    if label is not None:
        labels = snapshot.stored().texts([label] if isinstance(label, str) else list(label), match)
    elif match != "any":
        raise ValueError(f"match={match!r} is given without a label; expected a label too")
    check_integer("k", k, 1, max(len(snapshot.index), _LARGEST_K))
    excluded = _as_ids(settings.exclude)
    begun = time.perf_counter()
    if how == "raw":
        if queries.dtype == np.uint8:
            raise ValueError("how='raw' compares vectors; expected vectors, not codes")
        if n_bits is not None:
            raise ValueError(f"how='raw' compares vectors; n_bits={n_bits} is not accepted")
        if likeness is not None:
            raise ValueError(f"likeness={likeness}: expected how='weighted', not how='raw'")
        asked = as_vectors(snapshot, queries)
        near = _joined([_nearest_vectors(snapshot, asked, k, excluded, labels)], len(asked), k)
        seconds = time.perf_counter() - begun
        similarity = _similarity_of_vectors(snapshot, asked, near)
        agree = np.full(near.ids.shape, -1, dtype=np.int64)
        return ProjectMatches(*near[1:], similarity, agree, seconds, 4 * snapshot.n_features, None)
    length = _length(snapshot, store, n_bits)
    codes, asked_vectors = _codes_and_vectors(snapshot, queries, vectors)
    if weights is None:
        weights = snapshot.weights(length, how, likeness)
    searched = _searched(snapshot, store)
    chosen: dict[str, Any] = {"weights": weights, "labels": labels, "excluded": excluded}
    parts: Iterable[Neighbours]
    if asked_vectors is None:  # nothing ranks the ties
        parts = [nearest_codes(searched, codes, k, **chosen)]
    else:
        parts = (
            rank_by_vectors(part, asked_vectors, snapshot.vectors(part.ids.ravel()), k)[0]
            for part in neighbours_with_ties(searched, codes, k, **chosen)
        )
    near = _joined(parts, len(codes), k)
    seconds = time.perf_counter() - begun
    similarity = np.where(near.ids < 0, 0, 1 - near.distances / max(weights.sum(), 1e-300)).astype(np.float32)
    agree = _count_agreeing(snapshot, codes, near.ids, length)
    return ProjectMatches(*near[1:], np.clip(similarity, 0, 1), agree, seconds, n_bytes(length), length)


def search_examples(
    snapshot: Snapshot,
    store: CodeStore | None,
    like: Examples,
    unlike: Examples,
    k: int,
    settings: SearchSettings,
) -> ProjectMatches:
    """Search with several images and counter-examples; see ``Project.search_examples``.

    The mean distance to the examples less half the mean distance to the counter-examples is, up to a constant, the
    weighted Hamming distance to one code: bit s is the sign, and its weight the absolute value, of
    w_s (mean of like_s - 1/2 mean of unlike_s), with bits as -1 and +1. So the search is exact.
    """
    check_choice("how", settings.how, HOW)
    if not len(like.codes):
        raise ValueError("like is empty; expected at least one image")
    target = None if like.vectors is None else like.vectors.mean(axis=0, dtype=np.float64)
    if target is not None and unlike.vectors is not None and len(unlike.codes):
        target += _UNLIKE * (target - unlike.vectors.mean(axis=0, dtype=np.float64))
    if settings.how == "raw":
        if target is None:
            raise ValueError("how='raw': expected ids or vectors as the query, not codes")
        return search(snapshot, store, target.astype(np.float32), k, settings)
    weights = snapshot.weights(_length(snapshot, store, settings.n_bits), settings.how, settings.likeness)
    votes = unpack(like.codes, snapshot.n_bits).mean(axis=0, dtype=np.float64)
    if len(unlike.codes):
        votes -= _UNLIKE * unpack(unlike.codes, snapshot.n_bits).mean(axis=0, dtype=np.float64)
    return search(snapshot, store, pack(votes[None])[0], k, settings, target, weights * np.abs(votes))


def classify(
    snapshot: Snapshot,
    store: CodeStore | None,
    queries: NDArray[Any],
    k: int,
    n_bits: int | None,
    exclude: int | Sequence[int] | None,
    vectors: ArrayLike | None,
    votes_by: str,
    unknown: tuple[float, Callable[[], NDArray[np.int64]]] | None,
) -> Votes:
    """Return the vote of the k nearest labelled images; see ``Project.classify``.

    ``unknown`` is the share of the held-out images that may count as unknown, and a function that returns their ids.
    """
    check_choice("weights", votes_by, ("uniform", "distance"))
    if unknown is not None:
        check_real("unknown", unknown[0], 0, 1)
    stored = snapshot.stored()
    if not stored.classes:
        raise ValueError(f"{NO_LABELS}, so they cannot vote for a class")
    check_integer("k", k, 1, max(len(snapshot.index), _LARGEST_K))
    weights = snapshot.weights(_length(snapshot, store, n_bits), "weighted")
    labels = None if stored.complete else list(stored.sets)
    codes, asked = _codes_and_vectors(snapshot, queries, vectors)
    classes = np.array(list(stored.sets))
    votes, searched = np.zeros((len(codes), len(classes))), _searched(snapshot, store)
    for near in neighbours_with_ties(searched, codes, k, weights=weights, labels=labels, excluded=_as_ids(exclude)):
        ranks: NDArray[Any] = near.distances
        if asked is not None:
            near, ranks = rank_by_vectors(near, asked, snapshot.vectors(near.ids.ravel()), k)
        if votes_by == "distance":  # the k nearest are known by their ranks; their distances weigh the votes
            kept = ranks <= ranks[:, [min(k, ranks.shape[1]) - 1]]
            ranks = np.where(kept, near.distances, np.inf)
        votes[near.rows] = vote(ranks, near.labels, classes, k, codes[near.rows], weights=votes_by)
    won: list[list[str]] = [[str(classes[row.argmax()])] if row.any() else [] for row in votes]
    if stored.several:
        least = votes.sum(axis=1, keepdims=True) / 2 - EQUAL_SHARES
        votes = votes @ stored.members(classes.tolist())
        won = [np.array(stored.classes)[row].tolist() for row in (votes >= least) & (votes > 0)]
    known = np.ones(len(codes), dtype=bool)
    if unknown is not None and len(codes):
        limit = _known_distance(snapshot, k, weights, *unknown)
        known = _mean_distances(snapshot, codes, k, weights, _as_ids(exclude)) <= limit
    won = [labels if is_known else [] for labels, is_known in zip(won, known)]
    names = [", ".join(labels) if is_known else UNKNOWN for labels, is_known in zip(won, known)]
    return Votes(np.array(names, dtype=str), votes, won)


def _mean_distances(
    snapshot: Snapshot, codes: NDArray[np.uint8], k: int, weights: NDArray[np.float64], excluded: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the mean distance of each code to its k nearest images, without the excluded ones."""
    found = snapshot.index.search(codes, min(k + len(excluded), max(len(snapshot.index), k)), weights=weights)
    distances = np.sort(np.where(np.isin(found.ids, excluded), np.inf, found.distances), axis=1)[:, :k]
    return np.nanmean(np.where(np.isfinite(distances), distances, np.nan), axis=1, dtype=np.float64)


def _known_distance(
    snapshot: Snapshot,
    k: int,
    weights: NDArray[np.float64],
    share: float,
    held_out: Callable[[], NDArray[np.int64]],
) -> float:
    """Return the mean distance that this share of the held-out images exceeds; each is left out of its neighbours."""

    def measure() -> NDArray[np.float64]:
        held = sample_queries(held_out(), 0)
        found = snapshot.index.search(snapshot.index.reconstruct(held), k + 1, weights=weights)
        found_others = np.sort(np.where(found.ids == held[:, None], np.inf, found.distances), axis=1)[:, :k]
        return np.where(np.isfinite(found_others), found_others, 0).mean(axis=1, dtype=np.float64)

    means = snapshot.held_distances(k, weights, measure)
    if not len(means):
        raise ValueError(f"unknown={share}: expected a project with held-out images, on which the distance is found")
    return float(np.quantile(means, 1 - share, method="higher"))


def bit_sides(snapshot: Snapshot, s: int, count: int) -> BitSides:
    """Return the images farthest from the threshold of bit s on both sides; see ``Project.bit``."""
    check_integer("s", s, 0, snapshot.n_bits - 1)
    check_integer("count", count, 1)
    ids, values = snapshot.projected()
    order = np.argsort(values[:, s], kind="stable")
    negative, positive = order[values[order, s] < 0], order[values[order, s] >= 0][::-1]
    return BitSides(ids[negative[:count]], ids[positive[:count]])


def check_store(snapshot: Snapshot, store: CodeStore) -> None:
    """Raise a ``ProjectError`` if the store holds codes of another coder."""
    if store.made_by != snapshot.digest():
        raise ProjectError(
            f"{store.address} holds codes of another fit than {snapshot.path}; send them again with cbid index --to"
        )


def as_vectors(snapshot: Snapshot, vectors: ArrayLike) -> NDArray[np.float32]:
    """Return vectors (n, d), or one (d,), as checked float32 rows."""
    array = np.atleast_2d(as_float32(vectors, "vectors"))
    if array.ndim != 2 or array.shape[1] != snapshot.n_features:
        raise ValueError(f"vectors has shape {array.shape}; expected vectors of {snapshot.n_features} values")
    if not np.isfinite(array).all():
        raise ValueError("vectors has values that are not finite")
    return array


def as_codes(snapshot: Snapshot, queries: NDArray[Any]) -> NDArray[np.uint8]:
    """Return packed codes: uint8 queries are codes already, others are vectors."""
    if queries.dtype == np.uint8:
        return check_codes(queries, snapshot.n_bits)
    return snapshot.coder.encode(as_vectors(snapshot, queries))


def _as_ids(exclude: int | Sequence[int] | None) -> NDArray[np.int64]:
    return np.unique(as_ids([] if exclude is None else exclude, "exclude"))


def _length(snapshot: Snapshot, store: CodeStore | None, n_bits: int | None) -> int:
    if store is not None and n_bits not in (None, snapshot.n_bits):
        raise ValueError(f"n_bits={n_bits}: expected {snapshot.n_bits}, because a store compares whole codes")
    return snapshot.n_bits if n_bits is None else n_bits


def _codes_and_vectors(
    snapshot: Snapshot, queries: NDArray[Any], vectors: ArrayLike | None
) -> tuple[NDArray[np.uint8], NDArray[np.float32] | None]:
    """Return the codes of the queries, and their vectors if they are known."""
    codes = as_codes(snapshot, queries)
    if queries.dtype != np.uint8:
        return codes, as_vectors(snapshot, queries)
    if vectors is None:
        return codes, None
    known = as_vectors(snapshot, vectors)
    if len(known) != len(codes):
        raise ValueError(f"vectors has {len(known)} rows for {len(codes)} codes; expected one per code")
    return codes, known


def _searched(snapshot: Snapshot, store: CodeStore | None) -> CodeSearcher:
    """Return what is searched: the store if there is one, else the index."""
    if store is None:
        return snapshot.index
    check_store(snapshot, store)
    return store


def _nearest_vectors(
    snapshot: Snapshot, queries: NDArray[np.float32], k: int, excluded: NDArray[np.int64], wanted: list[str] | None
) -> Neighbours:
    ids, labels = snapshot.stored()[:2]
    keep = ~np.isin(ids, excluded)
    if wanted is not None:
        keep &= np.isin(labels, wanted)
    found, distances = nearest_vectors(queries, snapshot.vectors(ids[keep]), ids[keep], k)
    return Neighbours(np.arange(len(queries)), found, distances, labels[np.searchsorted(ids, found)])


def _joined(parts: Iterable[Neighbours], n_queries: int, k: int) -> Neighbours:
    """Return the k nearest of all queries in one table, with labels as people read them."""
    ids, distances = np.full((n_queries, k), -1, dtype=np.int64), np.full((n_queries, k), np.inf, np.float32)
    labels = np.full((n_queries, k), "", dtype=object)
    for near in parts:
        n = min(k, near.ids.shape[1])
        ids[near.rows, :n], distances[near.rows, :n] = near.ids[:, :n], near.distances[:, :n]
        labels[near.rows, :n] = np.where(near.ids[:, :n] < 0, "", near.labels[:, :n])
    return Neighbours(
        np.arange(n_queries), ids, distances, np.char.replace(labels.astype(str), LABEL_SEPARATOR, ", ")
    )


def _similarity_of_vectors(snapshot: Snapshot, queries: NDArray[np.float32], near: Neighbours) -> NDArray[np.float32]:
    similarity = np.zeros(near.ids.shape, dtype=np.float32)
    vectors = snapshot.vectors(near.ids.ravel())
    for i, query in enumerate(queries.astype(np.float64)):
        found = near.ids[i] >= 0
        norms = np.linalg.norm(query) + np.linalg.norm(vectors[near.ids[i, found]].astype(np.float64), axis=1)
        similarity[i, found] = np.clip(1 - near.distances[i, found] / np.maximum(norms, 1e-300), 0, 1)
    return similarity


def _count_agreeing(
    snapshot: Snapshot, codes: NDArray[np.uint8], ids: NDArray[np.int64], length: int
) -> NDArray[np.int64]:
    """Return how many of the first ``length`` bits agree, (q, k); -1 for ids that are missing, or removed by now."""
    agree = np.full(ids.shape, -1, dtype=np.int64)
    at = np.argwhere(ids >= 0)
    found = ids[ids >= 0]
    try:
        stored = snapshot.index.reconstruct(found)
    except UnknownIdError:
        left = np.isin(found, snapshot.index.ids)
        at, found = at[left], found[left]
        stored = snapshot.index.reconstruct(found)
    differ = np.bitwise_count(prefix(codes[at[:, 0]] ^ stored, length)).sum(axis=1, dtype=np.int64)
    agree[at[:, 0], at[:, 1]] = length - differ
    return agree
