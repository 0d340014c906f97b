"""What an experiment declares, and how its raw results are read."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cbid.evaluation import measure
from cbid.paper.sets import NamedSet, open_set

if TYPE_CHECKING:
    from cbid.paper.page import Page

__all__ = ["Cell", "Claim", "Context", "Experiment", "Judgement", "Results", "Row", "Settings", "key_of"]

Settings = dict[str, Any]  # JSON values that name a cell: data set, method, length, repeat, sizes
Result = dict[str, Any]  # JSON values that were computed for it
Cell = tuple[Settings, Result]


def key_of(settings: Settings) -> str:
    """The same text for the same settings, whatever their order."""
    return json.dumps(settings, sort_keys=True)


@dataclass(frozen=True)
class Context:
    """Where a run finds what it needs. root: the folder of data sets, or None for CBID_DATA. cache: descriptors."""

    root: str | None
    cache: Path

    def open(self, name: str) -> NamedSet:
        return open_set(name, self.root)


@dataclass(frozen=True)
class Row:
    """One cell of raw results."""

    settings: Settings
    result: Result
    seconds: float

    def __getitem__(self, name: str) -> Any:
        """A setting, or else a field of the result."""
        return self.settings[name] if name in self.settings else self.result[name]


@dataclass(frozen=True)
class Results:
    """The raw results of one experiment, in the order of its cells."""

    rows: Sequence[Row]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def where(self, **wanted: Any) -> "Results":
        """The rows with these settings."""
        return Results([r for r in self.rows if all(r.settings.get(k) == v for k, v in wanted.items())])

    def distinct(self, name: str) -> list[Any]:
        """The values of a setting, in order of appearance."""
        return list(dict.fromkeys(row.settings[name] for row in self.rows if name in row.settings))

    def measured(self, metric: str, **wanted: Any) -> NDArray[np.float64]:
        """A metric of the rows with these settings, one value of each repeat, in the order of the repeats.

        Rows that hold no result, but the reason why there is none ("absent"), do not count.
        """
        rows = [row for row in self.where(**wanted) if "absent" not in row.result]
        rows.sort(key=lambda row: row.settings.get("repeat", 0))
        return np.array([measure(metric, row.result) for row in rows])


@dataclass(frozen=True)
class Judgement:
    """Whether a claim holds, and the figures that say so."""

    holds: bool
    figures: str


@dataclass(frozen=True)
class Claim:
    """A claim of the paper. source: where it is made. judge: None from it means that it cannot be tested here."""

    text: str
    source: str
    judge: Callable[[Results], Judgement | None]


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    shows: what of the paper it regenerates. sets: the data sets it runs on, each where it is present. protocol,
    methods, metrics: for the report; metrics are names of ``cbid.evaluation.METRICS``.
    cells: from the sets that are present and whether the run is a quick one to the settings of all cells.
    together: settings; cells that agree in them are one task of one worker.
    apart: methods that take so long that they are a task of their own.
    run: the cells of one task, each with its result as soon as it is there.
    show: puts tables and plots on a page of the report.
    cost: about how many seconds a cell takes, in a full and in a quick run; only the time left is told by it.
    revision: to be raised when cells of the same settings would come out different, so that they are run again.
    """

    name: str
    title: str
    shows: str
    sets: tuple[str, ...]
    protocol: str
    methods: Mapping[str, str]
    metrics: tuple[str, ...]
    cells: Callable[[Sequence[str], bool], list[Settings]]
    run: Callable[[list[Settings], Context], Iterator[Cell]]
    show: Callable[[Results, "Page"], None]
    together: tuple[str, ...]
    claims: Sequence[Claim] = ()
    cost: tuple[float, float] = (10.0, 1.0)
    revision: int = 1
    apart: tuple[str, ...] = ()

    def tasks(self, cells: Sequence[Settings]) -> list[list[Settings]]:
        """The cells in groups that one worker runs one after the other."""
        groups: dict[str, list[Settings]] = {}
        for settings in cells:
            shared = {k: settings.get(k) for k in self.together}
            apart = settings.get("method") in self.apart
            groups.setdefault(key_of({**shared, "apart": apart}), []).append(settings)
        return list(groups.values())
