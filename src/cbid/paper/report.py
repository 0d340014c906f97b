"""The report: one self-contained HTML file, a JSON summary for programs, and the claims as Markdown.

Each experiment fills a ``Page`` with notes, tables and plots.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from cbid.evaluation import METRICS, confidence_interval
from cbid.extras import missing_extra
from cbid.paper.base import FAILS, HOLDS, LEVEL, NOISE, Claim, Context, Experiment, Judgement, Results, Settings
from cbid.paper.raw import defaults_fingerprint, describe_machine, is_current
from cbid.paper.sets import CATALOGUE
from cbid.report import html
from cbid.storage.atomic import whole_file

# Distinguishable with colour-vision deficiencies (Okabe and Ito); C-BID comes first.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c", "#7a5195")

_DPI = 110  # sharp on a phone, and some tens of kilobytes for a plot
_PLOT_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "cbid",  # the same results give the same file
    "svg.fonttype": "none",
}


UNTESTED, UNRUN = "not testable here", "not run"
PAPER = "Paisitkriangkrai, Shen and van den Hengel, “Large-margin learning of compact binary image encodings”"
QUICK = (
    "This is a quick run on reduced sizes. It shows that everything works; its figures are not evidence. "
    "Run without --quick for figures that count."
)

_STYLE = """
:root { color-scheme: light dark; }
img { background: white; border-radius: 4px; } p { max-width: none; }
figure { margin: 1rem 0; } figcaption, .small { font-size: .85rem; opacity: .85; }
.holds { color: #18794e; font-weight: 600; } .fails { color: #c0341d; font-weight: 600; }
.noise { color: #8a5a00; font-weight: 600; } .untested { opacity: .7; }
.trace { font-size: .8rem; opacity: .75; }
.warning { border: 2px solid #c0341d; border-radius: 6px; padding: .5rem 1rem; }
@media (prefers-color-scheme: dark) { .holds { color: #4cc38a; } .noise { color: #ffc46b; }
  .fails, .warning { color: #ff8b70; } }
"""
_CLASSES = {HOLDS: "holds", NOISE: "noise", FAILS: "fails", UNTESTED: "untested", UNRUN: "untested"}
GRADES = (
    f"“{HOLDS}” and “{FAILS}” mean that a two-sided paired test over the repeats has p of at most {LEVEL:g}, or that "
    f"there is nothing random to test; “{NOISE}” means that it has not, or that there is one repeat only. A claim "
    "about several data sets is as good as the worst of them. Repeats share images, so p is somewhat too small."
)


def plot_style() -> AbstractContextManager[Any]:
    """Return a context in which figures have the style of the report."""
    try:
        import matplotlib
    except ImportError as error:
        raise missing_extra("a plot", "plots") from error
    return matplotlib.rc_context(_PLOT_STYLE)


def new_figure(n_rows: int = 1, n_columns: int = 1, *, width: float = 3.6, height: float = 3.0) -> tuple[Any, Any]:
    """Return a figure without a window, and its axes as a flat array. Width and height of one panel are in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(n_rows, n_columns, squeeze=False).ravel()


@dataclass
class Page:
    """The part of the report that one experiment fills, in the order in which it adds notes, tables and plots."""

    experiment: str
    folder: Path  # of the plots
    context: Context
    quick: bool  # reduced sizes
    photographs: bool = True  # draw images of the data sets, which must not always be redistributed
    parts: list[str] = field(default_factory=list)  # HTML
    tables: list[dict[str, Any]] = field(default_factory=list)  # the same tables for programs
    files: set[str] = field(default_factory=set)  # names of the plots
    raw: str = ""  # link to the raw lines and the command that makes them, if not those of the experiment
    command: str = ""

    @property
    def trace(self) -> str:
        """HTML that links the raw lines behind this page and names the command that made them."""
        link = self.raw or f"raw/{self.experiment}.jsonl"
        if not self.raw and not (self.folder.parent / link).exists() and (self.folder.parent / f"{link}.gz").exists():
            link += ".gz"
        command = self.command or f"cbid reproduce {self.experiment}{' --quick' if self.quick else ''}"
        return f'<span class="trace"><a href="{escape(link)}">raw lines</a>, <code>{escape(command)}</code></span>'

    def note(self, text: str) -> None:
        """Add a paragraph."""
        self.parts.append(f"<p>{escape(text)}</p>")

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table."""
        self.parts.append(f"<h3>{escape(title)}</h3>{html.table(head, rows)}{self.trace}")
        self.tables.append({"title": title, "head": list(head), "rows": [list(row) for row in rows]})

    def plot(self, figure: Any, name: str, caption: str, *, svg: bool = True, photographs: bool = False) -> None:
        """Save a matplotlib figure as PNG and, unless ``svg`` is False, as SVG, and add it."""
        from PIL import Image  # matplotlib depends on it

        if photographs and not self.photographs:
            self.note(f"{caption} Photographs are left out of this report; your own run draws them.")
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        full = f"{self.experiment}_{name}" if name else self.experiment
        files = [f"{full}.png", f"{full}.svg"] if svg else [f"{full}.png"]
        figure.set_dpi(_DPI)
        figure.canvas.draw()
        drawn = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
        # 256 colours are enough for plots and gray photographs, and take a third of the bytes.
        drawn.quantize(256, dither=Image.Dither.NONE).save(self.folder / files[0], optimize=True)
        if svg:  # without a date: the same results give the same file
            figure.savefig(self.folder / files[1], metadata={"Date": None})
        self.files.update(files)
        image = html.embedded_image((self.folder / files[0]).read_bytes(), caption)
        links = ", ".join(f'<a href="plots/{file}">{file[-3:].upper()}</a>' for file in files)
        self.parts.append(
            f"<figure>{image}<figcaption>{escape(caption)} ({links}) {self.trace}</figcaption></figure>"
        )

    def remove_old_plots(self) -> None:
        """Remove plots of this experiment that an earlier run left and this page does not have.

        A report without photographs must not have photographs beside it.
        """
        for path in (*self.folder.glob("*.png"), *self.folder.glob("*.svg")):
            own = path.stem == self.experiment or path.stem.startswith(f"{self.experiment}_")
            if own and path.name not in self.files:
                path.unlink()


def percent(share: float) -> str:
    """Return a share in percent, or a dash for NaN."""
    return "–" if np.isnan(share) else f"{100 * share:.1f}"


def mean_and_deviation(values: Any) -> str:
    """Return mean and standard deviation of shares over the repeats, in percent."""
    v = np.asarray(values, dtype=float)
    if not len(v):
        return "–"
    return percent(v.mean()) + (f" ± {100 * v.std(ddof=1):.1f}" if len(v) > 1 else "")


def error_bars(values: Mapping[Any, Any]) -> tuple[list[Any], list[float], list[float]]:
    """Return the keys that have values, their means, and half of their 95 % intervals, in percent.

    One value has an interval of 0.
    """
    found = {key: confidence_interval(v) for key, v in values.items() if len(v)}
    halves = [100 * float(np.nan_to_num(i.high - i.mean)) for i in found.values()]
    return list(found), [100 * i.mean for i in found.values()], halves


@dataclass
class Section:
    """One experiment: the cells of a complete run, what is missing or failed, its page, results and claims."""

    experiment: Experiment
    cells: list[Settings]
    page: Page
    absent: dict[str, str]  # data sets that are not on this machine, with the reason
    run: bool = True  # whether missing cells are run; if not, the report shows what is stored
    kept: int = 0  # cells that were stored before
    lacking: list[str] = field(default_factory=list)  # missing parts of sets
    failures: list[str] = field(default_factory=list)
    results: Results = field(default_factory=lambda: Results([]))
    claims: list[tuple[Claim, Judgement | None]] = field(default_factory=list)


def write_report(sections: Sequence[Section], folder: Path, quick: bool, chapters: Sequence[str] = ()) -> Path:
    """Write report.html, claims.md and summary.json to a folder that has the plots; return the path of the first.

    ``chapters`` is HTML that follows the experiments.
    """
    machine, now = describe_machine(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    texts = {
        "report.html": _html(sections, quick, machine, now, chapters),
        "claims.md": _markdown(sections, quick, machine, now),
        "summary.json": json.dumps(_summary(sections, quick, machine, now), indent=1, ensure_ascii=False) + "\n",
    }
    for name, text in texts.items():
        with whole_file(folder / name) as temporary:
            temporary.write_text(text)
    return folder / "report.html"


def _judged(section: Section) -> Iterator[tuple[Claim, str, str, Judgement | None]]:
    """Yield each claim with its verdict, the figures behind it and how many cells they cover, and the judgement.

    Without a judgement the verdict is "not run" if cells are missing.
    """
    there, expected = len(section.results), len(section.cells)
    for claim, judged in section.claims:
        if judged is not None:
            covered = "" if there == expected else f" ({there} of {expected} cells)"
            yield claim, judged.grade, judged.figures + covered, judged
        elif section.failures:
            yield claim, UNTESTED, "the experiment failed.", None
        elif not expected:
            verdict, start = (UNTESTED, "") if section.run else (UNRUN, "no results are stored; ")
            yield claim, verdict, f"{start}needs {_titles(section.absent)}.", None
        else:
            yield claim, UNRUN if there < expected else UNTESTED, f"{there} of {expected} cells are stored.", None


def _titles(names: Iterable[str]) -> str:
    return ", ".join(CATALOGUE[name].title for name in names)


def _totals(sections: Sequence[Section]) -> str:
    """Return the number of claims with each verdict in one line."""
    judged = [found for section in sections for found in _judged(section)]
    totals = []
    for who, of_paper in (("of the paper", True), ("of our own", False)):
        verdicts = [verdict for claim, verdict, _, _ in judged if claim.of_paper == of_paper]
        counts = [f"{verdicts.count(name)} {name}" for name in _CLASSES if name in verdicts]
        if verdicts:
            totals.append(
                f"{len(verdicts)} {'claim' if len(verdicts) == 1 else 'claims'} {who}: {', '.join(counts)}."
            )
    return " ".join(totals) or "No claims."


def stale_lines(sections: Sequence[Section]) -> list[str]:
    """Name the experiments with cells that were measured with other defaults of CBID than today's."""
    found = []
    for section in sections:
        old = [row for row in section.results if not is_current(row)]
        if old:
            days = sorted({row.made or "an unknown day" for row in old})
            when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
            share = (
                f"{len(old)} of {len(section.results)} cells were measured with other defaults of CBID than today’s"
            )
            found.append(f"{section.experiment.title}: {share} ({when}).")
    return found


def _html(
    sections: Sequence[Section], quick: bool, machine: Mapping[str, Any], now: str, chapters: Sequence[str]
) -> str:
    body = [
        "<h1>C-BID: the paper’s tables and figures, computed again</h1>",
        f"<p>{escape(PAPER)}. Made {now} by <code>cbid reproduce{' --quick' if quick else ''}</code>. All figures "
        "except the published ones were computed by this run; its folder holds the raw results.</p>",
        f'<p class="warning">{escape(QUICK)}</p>' if quick else "",
        *(f"<p>{escape(line)}</p>" for line in (_totals(sections), *stale_lines(sections))),
        _overview(sections),
        "<h2>Claims of the paper</h2>",
        _claims_table(sections),
        f'<p class="small">{escape(GRADES)}</p>',
        *(f'<p class="small">{escape(line)}</p>' for line in _coverage(sections)),
    ]
    for section in sections:
        body += _section(section)
    body += chapters
    facts = {**machine, "versions": ", ".join(f"{k} {v}" for k, v in machine["versions"].items())}
    body += ["<h2>Machine</h2>", html.definitions({name: str(value) for name, value in facts.items()})]
    return html.page("C-BID reproduced", body, style=_STYLE)


def _overview(sections: Sequence[Section]) -> str:
    """Return a table that fits a screen: the verdicts of each experiment, its cells and the days they were run."""
    shown = [
        verdict
        for verdict in _CLASSES
        if any(verdict == v for section in sections for _, v, _, _ in _judged(section))
    ]
    rows = []
    for section in sections:
        verdicts = [verdict for _, verdict, _, _ in _judged(section)]
        days = sorted({row.made for row in section.results if row.made})
        rows.append(
            [
                f'<a href="#{section.experiment.name}">{escape(section.experiment.title)}</a>',
                *(f'<span class="count {_CLASSES[v]}">{verdicts.count(v) or ""}</span>' for v in shown),
                f"{len(section.results):,} of {len(section.cells):,}",
                " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "",
            ]
        )
    return html.table(["claims by experiment", *shown, "cells", "run"], rows, escaped=True)


def _claims_table(sections: Sequence[Section]) -> str:
    rows = [
        [
            f'{escape(claim.text)} <span class="small">({escape(claim.source)})</span>',
            f'<span class="{_CLASSES[verdict]}">{verdict}</span>',
            f'{escape(figures)} <a href="#{section.experiment.name}">{section.experiment.name}</a>',
            f'<span class="small">{escape(claim.terms)}</span>',
        ]
        for section in sections
        for claim, verdict, figures, _ in _judged(section)
    ]
    return html.table(["claim", "here", "evidence", "about"], rows, text=True, escaped=True)


def _coverage(sections: Sequence[Section]) -> list[str]:
    """Say which experiments were run in full, in part, and not at all."""
    groups: dict[str, list[str]] = {
        name: [] for name in ("Run in full", "Run in part", "Not run", "Left out, because data is missing")
    }
    full, part, none, left_out = groups.values()
    for section in sections:
        title, there, expected = section.experiment.title, len(section.results), len(section.cells)
        group = full if there == expected else part if there else none
        if not expected:
            group = left_out if section.run else none
        group.append(f"{title} ({there} of {expected} cells)" if group is part else title)
    return [f"{what}: {', '.join(titles)}." for what, titles in groups.items() if titles]


def _section(section: Section) -> list[str]:
    e = section.experiment
    used = [name for name in e.sets if name not in section.absent]
    repeats = section.results.distinct("repeat")
    seconds = sum(row.seconds for row in section.results)
    facts = {
        "Shows": e.shows,
        "Data": _titles(used) or "none needed",
        "Not on this machine": _titles(section.absent),
        "Protocol": e.protocol,
        "Methods": "; ".join(f"{name}: {how}" for name, how in e.methods.items()),
        "Metrics": ", ".join(METRICS[name].title for name in e.metrics),
        "Repeats": f"{', '.join(map(str, repeats))}; the number of a repeat is also the seed" if repeats else "",
        "Cells": f"{len(section.results)} of {len(section.cells)}, {seconds:.0f} seconds",
    }
    parts = [f'<h2 id="{e.name}">{escape(e.title)}</h2>']
    if not section.run and not section.results and not section.failures:
        return [*parts, f"<p>{escape(e.shows)} Not run.</p>"]
    parts += [f"<p>Left out: {escape(reason)}</p>" for reason in section.lacking]
    parts += [f'<p class="warning">Failed: {escape(error)}</p>' for error in section.failures]
    parts.append(html.definitions(facts))
    return parts + section.page.parts


def _markdown(sections: Sequence[Section], quick: bool, machine: Mapping[str, Any], now: str) -> str:
    lines = [f"# Claims of the paper\n\nMade {now} by `cbid reproduce{' --quick' if quick else ''}`."]
    lines.append(f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}.")
    lines += [f"\n**{QUICK}**"] if quick else []
    lines.append(f"\n**{_totals(sections)}**")
    lines.append("\n| claim | here | evidence | about | experiment |\n|---|---|---|---|---|")
    for section in sections:
        for claim, verdict, figures, _ in _judged(section):
            text = f"{claim.text} ({claim.source})"
            cells = (text, f"**{verdict}**", figures, claim.terms, section.experiment.name)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += [f"\n{line}" for line in (GRADES, *_coverage(sections), *stale_lines(sections))]
    return "\n".join(lines) + "\n"


def _summary(sections: Sequence[Section], quick: bool, machine: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return claims and tables as JSON values."""
    return {
        "made": now,
        "quick": quick,
        "defaults": defaults_fingerprint(),
        "totals": _totals(sections),
        "stale": stale_lines(sections),
        "machine": dict(machine),
        "experiments": {
            s.experiment.name: {
                "cells": len(s.results),
                "expected": len(s.cells),
                "seconds": round(sum(r.seconds for r in s.results), 1),
                "absent": list(s.absent),
                "lacking": list(s.lacking),
                "failures": list(s.failures),
                "claims": [
                    {
                        "claim": claim.text,
                        "source": claim.source,
                        "verdict": verdict,
                        "figures": judged.figures if judged else None,
                        "about": claim.terms,
                    }
                    for claim, verdict, _, judged in _judged(s)
                ],
                "tables": s.page.tables,
            }
            for s in sections
        },
    }
