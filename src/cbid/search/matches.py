"""The results of a search."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Match", "Matches", "QueryMatches", "RangeMatches"]


class Match(NamedTuple):
    """One stored code near a query."""

    id: int
    distance: float
    label: Any = None


@dataclass(frozen=True, eq=False)
class QueryMatches:
    """The matches of one query, nearest first; ``len`` is the number found."""

    ids: NDArray[np.int64]  # (found,)
    distances: NDArray[np.float32]  # (found,)
    labels: NDArray[Any] | None = None  # (found,)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: int) -> Match:
        label = None if self.labels is None else self.labels[place]
        if isinstance(label, np.generic):
            label = label.item()
        return Match(int(self.ids[place]), float(self.distances[place]), label)

    def __iter__(self) -> Iterator[Match]:
        return (self[place] for place in range(len(self)))


@dataclass(frozen=True, eq=False)
class Matches:
    """The k nearest stored codes of each query, nearest first; ties go to the smaller id.

    If fewer than k are found, the last places have id -1 and distance inf (and label -1, "" or False, by the kind
    of the labels, or an empty set). With several labels per code, ``labels`` holds sets.
    ``matches[i]`` holds the matches of query i, without missing places.
    """

    ids: NDArray[np.int64]  # (q, k)
    distances: NDArray[np.float32]  # (q, k)
    labels: NDArray[Any] | None = None  # (q, k), if the index has labels

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, query: int) -> QueryMatches:
        found = int(np.count_nonzero(self.ids[query] >= 0))  # missing places are last
        labels = None if self.labels is None else self.labels[query, :found]
        return QueryMatches(self.ids[query, :found], self.distances[query, :found], labels)

    def __iter__(self) -> Iterator[QueryMatches]:
        return (self[query] for query in range(len(self)))


@dataclass(frozen=True, eq=False)
class RangeMatches:
    """All stored codes within a radius of each query; those of query i are ``offsets[i]:offsets[i + 1]``."""

    offsets: NDArray[np.int64]  # (q + 1,)
    ids: NDArray[np.int64]  # (offsets[-1],), per query by (distance, id)
    distances: NDArray[np.float32]
    labels: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> QueryMatches:
        if not -len(self) <= query < len(self):
            raise IndexError(f"query={query}: expected an integer below {len(self)}")
        query %= len(self)
        span = slice(int(self.offsets[query]), int(self.offsets[query + 1]))
        labels = None if self.labels is None else self.labels[span]
        return QueryMatches(self.ids[span], self.distances[span], labels)

    def __iter__(self) -> Iterator[QueryMatches]:
        return (self[query] for query in range(len(self)))
