"""What an experiment declares, and how its raw results are read."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cbid.evaluation import measure, paired_test
from cbid.paper.sets import NamedSet, open_set

if TYPE_CHECKING:
    from cbid.paper.report import Page

Settings = dict[str, Any]  # JSON values that identify a cell: data set, method, code length, repeat, sizes
Result = dict[str, Any]  # JSON values computed for a cell
Cell = tuple[Settings, Result]


def grid(**axes: Iterable[Any]) -> list[Settings]:
    """Return the settings of all combinations of these values; the last axis varies fastest."""
    return [dict(zip(axes, values)) for values in product(*axes.values())]


def key_of(settings: Settings) -> str:
    """Return a text that is equal for equal settings, in any order."""
    return json.dumps(settings, sort_keys=True)


@dataclass(frozen=True)
class Context:
    """Where a run finds its data."""

    root: str | None  # the folder of the data sets; None: the environment variable CBID_DATA
    cache: Path  # the folder of computed descriptors

    def open(self, name: str) -> NamedSet:
        """Return a data set by name."""
        return open_set(name, self.root)


INDEPENDENT = "independent"  # in place of the fingerprint, if no defaults of CBID take part
# On which defaults of CBID results depend: all; those of class bits whose form is given (likeness=0, kernel="linear"
# or "rbf"); the settings of CBID.paper; those of PatchCBID and of class factors.
ALL_DEFAULTS, CLASS_BITS, PAPER_SETTINGS, PATCH_BITS = "all", "class", "paper", "patches"


@dataclass(frozen=True)
class Row:
    """The raw result of one cell."""

    settings: Settings
    result: Result
    seconds: float
    defaults: str | None = None  # fingerprint of the defaults of CBID that it was measured with, or INDEPENDENT
    made: str | None = None  # the day

    def __getitem__(self, name: str) -> Any:
        """Return a setting, or else a field of the result."""
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
        """Return the rows with these settings."""
        return Results([r for r in self.rows if all(r.settings.get(k) == v for k, v in wanted.items())])

    def distinct(self, name: str) -> list[Any]:
        """Return the values of a setting, in order of appearance."""
        return list(dict.fromkeys(row.settings[name] for row in self.rows if name in row.settings))

    def by(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yield, for all values that these settings have together, the values and the rows with them."""
        for values in dict.fromkeys(tuple(row.settings.get(name) for name in names) for row in self.rows):
            yield *values, self.where(**dict(zip(names, values)))

    def lengths(self) -> list[int]:
        """Return the code lengths, in order of appearance."""
        return [bits for bits in self.distinct("bits") if bits is not None]

    def measured(self, metric: str, **wanted: Any) -> NDArray[np.float64]:
        """Return a metric of the rows with these settings: one value for each repeat, in the order of the repeats.

        Rows that hold the reason why they have no result ("absent") are skipped.
        """
        rows = [row for row in self.where(**wanted) if "absent" not in row.result]
        rows.sort(key=lambda row: row.settings.get("repeat", 0))
        return np.array([measure(metric, row.result) for row in rows])


HOLDS, NOISE, FAILS = "holds", "within noise", "fails"
LEVEL = 0.05  # a difference with a larger p is within the noise of the repeats


@dataclass(frozen=True)
class Judgement:
    """Which way a claim goes, the figures that show it, and the p-value of the paired test behind it.

    holds : whether the means speak for the claim
    p : NaN if there are too few repeats for a test; None if there is nothing random to test, such as bytes
    parts : judgements that must all hold, for example one for each data set
    """

    holds: bool
    figures: str
    p: float | None = None
    parts: tuple["Judgement", ...] = ()

    @property
    def grade(self) -> str:
        """Return "holds", "within noise" or "fails"; a claim with parts is as good as the worst of them."""
        if self.parts:
            found = [part.grade for part in self.parts]
            return FAILS if FAILS in found else NOISE if NOISE in found else HOLDS
        if self.p is not None and not self.p <= LEVEL:
            return NOISE
        return HOLDS if self.holds else FAILS


def all_of(parts: Sequence[Judgement]) -> Judgement | None:
    """Return one judgement of several that must all hold, or None without any."""
    if not parts:
        return None
    return Judgement(all(j.holds for j in parts), " ".join(j.figures for j in parts), parts=tuple(parts))


def on_every(judge: Callable[..., Iterator[Judgement]]) -> Callable[..., Judgement | None]:
    """Decorate a generator of judgements: return one that holds if all of them hold, or None without any."""

    @wraps(judge)
    def judge_all(*args: Any, **kwargs: Any) -> Judgement | None:
        return all_of(list(judge(*args, **kwargs)))

    return judge_all


def p_text(p: float, of: str = "") -> str:
    """Return a p-value in words; below 0.0001 the digits say nothing."""
    return f"p{of} < 0.0001" if p < 1e-4 else f"p{of} = {p:.2g}"


def by_test(a: NDArray[np.float64], b: NDArray[np.float64], text: str = "", *, slack: float = 0.0) -> Judgement:
    """Judge "a is better than b" by a paired test over the same repeats. Values are shares.

    With ``slack``, the claim is "a is not worse than b by more than that"; a negative one asks for a lead. If a run
    is incomplete and one of them lacks repeats, nothing is tested.
    """
    means = f"{100 * a.mean():.1f} against {100 * b.mean():.1f} %"
    holds = bool(a.mean() > b.mean() - slack)
    if len(a) != len(b):
        return Judgement(holds, f"{text}{means} (means of {len(a)} and of {len(b)} repeats).", np.nan)
    tested = paired_test(a, b - slack)
    if np.isnan(tested.p):
        return Judgement(holds, f"{text}{means} (one repeat, no test).", np.nan)
    low, high = 100 * (tested.difference.low - slack), 100 * (tested.difference.high - slack)
    allowed = (
        f" of being worse by {100 * slack:g}" if slack > 0 else f" of a lead of {-100 * slack:g}" if slack else ""
    )
    shown = f"{text}{means} (difference {low:+.1f} to {high:+.1f}, {p_text(tested.p, allowed)})."
    return Judgement(holds, shown, tested.p)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, the place where it is made, and a function that judges it.

    ``judge`` returns None if these results cannot test the claim. The last three tell a reader what the verdict is
    about: the form of C-BID that decides, the data in place of the paper's, and what the methods were given.
    """

    text: str
    source: str
    judge: Callable[[Results], Judgement | None]
    form: str = ""
    data: str = ""
    information: str = ""

    @property
    def of_paper(self) -> bool:
        """Whether the paper makes the claim."""
        return "not in the paper" not in f"{self.text} {self.source}"

    @property
    def terms(self) -> dict[str, str]:
        """Form, data and information by name."""
        return {"Form": self.form, "Data": self.data, "Information": self.information}


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    title: str
    shows: str  # what of the paper it reproduces
    sets: tuple[str, ...]  # data sets; those that are not on this machine are skipped
    protocol: str  # this and the next two are texts for the report
    methods: Mapping[str, str]
    cells: Callable[[Sequence[str], bool], list[Settings]]  # from the available sets and ``quick``
    run: Callable[[list[Settings], Context], Iterator[Cell]]  # cells of one task; yields each result when computed
    show: Callable[[Results, "Page"], None]  # adds tables and plots to a page of the report
    together: tuple[str, ...]  # cells that agree in these settings form one task of one worker
    metrics: tuple[str, ...] = ()  # names of ``cbid.evaluation.METRICS``
    claims: Sequence[Claim] = ()
    cost: tuple[float, float] = (10.0, 1.0)  # about how many seconds a cell takes in a full and in a quick run
    revision: int = 1  # raise it when the same settings give other results: stored ones are then recomputed
    apart: tuple[str, ...] = ()  # slow methods, which form a task of their own
    scope: str = ALL_DEFAULTS  # on which defaults of CBID the methods depend, except those of the next two
    independent: Collection[str] = ()  # methods without C-BID: its defaults do not change their results
    paper_forms: Collection[str] = ()  # methods of CBID.paper, which has its own settings

    def tasks(self, cells: Sequence[Settings]) -> list[list[Settings]]:
        """Return the cells in groups; one worker runs the cells of a group one after the other."""
        groups: dict[str, list[Settings]] = {}
        for settings in cells:
            shared = {k: settings.get(k) for k in self.together}
            apart = settings.get("method") in self.apart
            groups.setdefault(key_of({**shared, "apart": apart}), []).append(settings)
        return list(groups.values())
