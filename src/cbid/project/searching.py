"""Answers of a project: nearest images, votes for a class, and the images at both ends of a bit."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_choice, check_integer
from cbid.classify.knn import count_votes
from cbid.codes import check_codes, n_bytes
from cbid.project.evaluating import nearest_vectors
from cbid.project.files import ProjectError
from cbid.project.snapshot import Snapshot
from cbid.search import Matches

__all__ = [
    "HOW",
    "NO_LABELS",
    "BitSides",
    "CodeStore",
    "Explanation",
    "ProjectMatches",
    "Votes",
    "as_codes",
    "as_vectors",
    "bit_sides",
    "check_store",
    "classify",
    "search",
]

HOW = ("weighted", "plain", "raw")
NO_LABELS = "the images have no labels"


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

    If there are fewer than k, the rest has id -1, distance inf and label "".

    Attributes
    ----------
    ids, distances, labels : arrays (q, k)
        An image without a label has the label "".
    seconds : float
        Duration of the search, for all queries together.
    n_bytes : int
        Bytes of one stored image in this kind of search.
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

    labels : (q,) the class with most votes; "" if there are none
    votes : (q, n_classes) in the order of ``project.classes``
    """

    labels: NDArray[np.str_]
    votes: NDArray[np.float64]


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


def search(
    snapshot: Snapshot,
    store: CodeStore | None,
    queries: NDArray[Any],
    k: int,
    *,
    n_bits: int | None,
    how: str,
    exclude: int | Sequence[int] | None,
    label: str | None,
) -> ProjectMatches:
    """Search by codes in the index or the store, or by raw vectors; see ``Project.search``."""
    check_choice("how", how, HOW)
    check_integer("k", k, 1)
    excluded = _as_ids(exclude)
    begun = time.perf_counter()
    if how == "raw":
        if queries.dtype == np.uint8:
            raise ValueError("how='raw' compares vectors; expected vectors, not codes")
        if n_bits is not None:
            raise ValueError(f"how='raw' compares vectors; n_bits={n_bits} is not accepted")
        found = _nearest_vectors(snapshot, as_vectors(snapshot, queries), k, excluded, label)
        return ProjectMatches(*found, time.perf_counter() - begun, 4 * snapshot.n_features)
    length = _length(snapshot, store, n_bits)
    labels = None if label is None else [label]
    codes, weights = as_codes(snapshot, queries), snapshot.weights(length, how)
    found = _nearest_codes(snapshot, store, codes, k, weights, excluded, labels)
    return ProjectMatches(*found, time.perf_counter() - begun, n_bytes(length))


def classify(
    snapshot: Snapshot,
    store: CodeStore | None,
    queries: NDArray[Any],
    k: int,
    n_bits: int | None,
    exclude: int | Sequence[int] | None,
) -> Votes:
    """Return the vote of the k nearest labelled images; see ``Project.classify``."""
    stored = snapshot.stored()
    if not stored.classes:
        raise ValueError(f"{NO_LABELS}, so they cannot vote for a class")
    check_integer("k", k, 1)
    weights = snapshot.weights(_length(snapshot, store, n_bits), "weighted")
    labels = None if stored.complete else stored.classes
    ids, distances, names = _nearest_codes(
        snapshot, store, as_codes(snapshot, queries), k, weights, _as_ids(exclude), labels
    )
    classes = np.array(stored.classes)
    numbers = np.where(ids < 0, len(classes), np.searchsorted(classes, names) % len(classes))
    votes = count_votes(distances.astype(np.float64), numbers, len(classes) + 1, "uniform")[:, :-1]
    return Votes(np.where(votes.any(axis=1), classes[votes.argmax(axis=1)], ""), votes)


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
    array = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
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
    return np.unique(np.atleast_1d(np.asarray([] if exclude is None else exclude, dtype=np.int64)))


def _length(snapshot: Snapshot, store: CodeStore | None, n_bits: int | None) -> int:
    if store is not None and n_bits not in (None, snapshot.n_bits):
        raise ValueError(f"n_bits={n_bits}: expected {snapshot.n_bits}, because a store compares whole codes")
    return snapshot.n_bits if n_bits is None else n_bits


_Found = tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.str_]]  # ids, distances, labels; each (q, k)


def _nearest_codes(
    snapshot: Snapshot,
    store: CodeStore | None,
    codes: NDArray[np.uint8],
    k: int,
    weights: NDArray[np.float64],
    excluded: NDArray[np.int64],
    labels: list[str] | None,
) -> _Found:
    if store is not None:
        check_store(snapshot, store)
    searched = snapshot.index if store is None else store
    found = searched.search(codes, k + len(excluded), weights=weights, labels=labels)
    assert found.labels is not None
    if not len(excluded):
        return found.ids, found.distances, found.labels
    # A stable sort moves excluded ids to the end; some remain if few images were found.
    order = np.argsort(np.isin(found.ids, excluded), axis=1, kind="stable")[:, :k]
    ids, distances, names = (np.take_along_axis(a, order, axis=1) for a in (found.ids, found.distances, found.labels))
    gone = np.isin(ids, excluded)
    return np.where(gone, -1, ids), np.where(gone, np.float32(np.inf), distances), np.where(gone, "", names)


def _nearest_vectors(
    snapshot: Snapshot, queries: NDArray[np.float32], k: int, excluded: NDArray[np.int64], label: str | None
) -> _Found:
    ids, labels = snapshot.stored()[:2]
    keep = ~np.isin(ids, excluded)
    if label is not None:
        keep &= labels == label
    nearest, near = nearest_vectors(queries, snapshot.vectors(ids[keep]), ids[keep], k)
    shape, n_found = (len(queries), k), nearest.shape[1]
    found, distances = np.full(shape, -1, dtype=np.int64), np.full(shape, np.inf, np.float32)
    names = np.full(shape, "", dtype=labels.dtype)
    found[:, :n_found], distances[:, :n_found] = nearest, near
    names[:, :n_found] = labels[np.searchsorted(ids, nearest)]
    return found, distances, names
