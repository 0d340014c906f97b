"""The results of a search."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SHOWN_QUERIES, _SHOWN_MATCHES = 10, 10  # in a notebook


def html_table(rows: Iterable[tuple[str, Sequence[str]]], n_queries: int) -> str:
    """Return a table for a notebook: one row for each query, a cell of HTML for each match."""
    lines = [
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{cell}</td>' for cell in list(cells)[:_SHOWN_MATCHES])}</tr>"
        for name, cells in islice(rows, _SHOWN_QUERIES)
    ]
    more = f"<p>{n_queries - _SHOWN_QUERIES:,} more queries</p>" if n_queries > _SHOWN_QUERIES else ""
    return f"<table>{''.join(lines)}</table>{more}"


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

    def _repr_html_(self) -> str:
        def cell(match: Match) -> str:
            label = "" if match.label is None else f"<br>{escape(str(match.label))}"
            return f"{match.id}{label}<br>{match.distance:.3f}"

        return html_table(((f"query {i}", [cell(m) for m in found]) for i, found in enumerate(self)), len(self))


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
