"""The report of a run: one self-contained HTML file, a JSON summary for programs, and the claims as Markdown.

It begins with the verdicts: how many claims hold, by experiment, and each claim with the figures behind it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from cbid.evaluation import METRICS
from cbid.paper.base import FAILS, HOLDS, LEVEL, NOISE, Claim, Experiment, Judgement, Results, Settings
from cbid.paper.raw import defaults_fingerprint, describe_machine, is_current
from cbid.paper.report import Page
from cbid.paper.sets import CATALOGUE
from cbid.report import html
from cbid.storage.atomic import whole_file
from cbid.text import count

UNTESTED, UNRUN = "not testable here", "not run"
PAPER = "Paisitkriangkrai, Shen and van den Hengel, “Large-margin learning of compact binary image encodings”"
QUICK = (
    "This is a quick run on reduced sizes. It shows that everything works; its figures are not evidence. "
    "Run without --quick for figures that count."
)
GRADES = (
    f"“{HOLDS}” and “{FAILS}” mean that a two-sided paired test over the repeats has p of at most {LEVEL:g}, or that "
    f"there is nothing random to test; “{NOISE}” means that it has not, or that there is one repeat only. A claim "
    "about several data sets is as good as the worst of them. Repeats share images, so p is somewhat too small."
)

_STYLE = """
:root { color-scheme: light dark; }
img { background: white; border-radius: 4px; } p { max-width: none; }
figure { margin: 1rem 0; } figcaption, .small { font-size: .85rem; opacity: .85; }
.holds { color: #18794e; font-weight: 600; } .fails { color: #c0341d; font-weight: 600; }
.noise { color: #8a5a00; font-weight: 600; } .untested { opacity: .75; }
.trace { font-size: .8rem; opacity: .75; }
.warning { border: 2px solid #c0341d; border-radius: 6px; padding: .5rem 1rem; }
dl { display: grid; grid-template-columns: 8rem 1fr; font-size: .9rem; } dd { margin: 0 0 .3rem; }
.totals { font-size: 1.1rem; margin: .2rem 0; }
.overview table { width: 100%; } .overview td { padding-top: .1rem; padding-bottom: .1rem; }
.overview th { vertical-align: bottom; } .overview td:first-child { white-space: normal; }
.claims h3 { margin: 1.8rem 0 0; } .claims p { margin: .2rem 0; }
.claims td .small { display: block; font-size: .85em; }
.claims table { width: 100%; table-layout: fixed; }
.claims th:first-child { width: 40%; } .claims th:nth-child(2) { width: 6.5rem; }
@media (max-width: 48rem) {
  dl { display: block; } .claims thead { display: none; }
  .claims tr { display: block; border-bottom: 1px solid #8884; padding: .5rem 0; }
  .claims td { display: block; border: 0; padding: .1rem 0; } .claims td:first-child { font-weight: 600; }
  .claims td .small { font-weight: 400; }
}
@media (prefers-color-scheme: dark) { .holds { color: #4cc38a; } .noise { color: #ffc46b; }
  .fails, .warning { color: #ff8b70; } }
"""
_CLASSES = {HOLDS: "holds", NOISE: "noise", FAILS: "fails", UNTESTED: "untested", UNRUN: "untested"}


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

    def judged(self) -> Iterator[tuple[Claim, str, str]]:
        """Yield each claim with its verdict and the figures behind it.

        Without a judgement the verdict is "not run" if cells are missing.
        """
        for claim, judgement in self.claims:
            if judgement is not None:
                yield claim, judgement.grade, judgement.figures
            elif self.failures:
                yield claim, UNTESTED, "The experiment failed."
            elif not self.cells and self.run:
                yield claim, UNTESTED, f"Needs {_titles(self.absent)}."
            elif len(self.results) < len(self.cells) or not self.cells:
                yield claim, UNRUN, "The cells that decide are not stored."
            else:
                yield claim, UNTESTED, ""

    @property
    def stale(self) -> list[str]:
        """The days of the cells that were measured with other defaults of CBID than today's, one for each cell."""
        return [row.made or "an unknown day" for row in self.results if not is_current(row)]

    @property
    def extent(self) -> str:
        """How much is stored: cells and repeats; and the time that the missing cells take."""
        # Without its data nothing is known of the cells: these are of all sets, and a machine may have fewer.
        cells = self.cells or self.experiment.cells(self.experiment.sets, self.page.quick)
        left = _time((len(cells) - len(self.results)) * self.experiment.cost[self.page.quick])
        if not self.results:
            return f"Not run: {len(cells):,} cells, about {left} of one core."
        if len(self.results) == len(cells):
            return f"Run in full: {len(cells):,} cells, {count(self.repeats[1], 'repeat')}."
        done, asked = self.repeats
        stored = f"{len(self.results):,} of {len(cells):,} cells, in {done} of {count(asked, 'repeat')}"
        return f"Run in part: {stored}. The other cells take about {left} of one core."

    @property
    def repeats(self) -> tuple[int, int]:
        """In how many repeats there are results, and how many a complete run has."""
        asked = {cell.get("repeat", 0) for cell in self.cells}
        return len({row.settings.get("repeat", 0) for row in self.results}), len(asked)

    @property
    def shared_terms(self) -> dict[str, str]:
        """Form, data and information of most of the claims."""
        found = {}
        for name in ("Form", "Data", "Information"):
            ((text, count),) = Counter(claim.terms[name] for claim, _ in self.claims).most_common(1) or [("", 0)]
            if count > 1 or len(self.claims) == 1:
                found[name] = text
        return found

    def own_terms(self, claim: Claim) -> str:
        """Return form, data and information of a claim where they differ from the shared ones, as one text."""
        return as_text({name: text for name, text in claim.terms.items() if self.shared_terms.get(name) != text})


def as_text(terms: Mapping[str, str]) -> str:
    """Return form, data and information as one text."""
    return " ".join(f"{name}: {text}." for name, text in terms.items() if text)


def _time(seconds: float) -> str:
    """Return a rough time in words."""
    if seconds < 5400:
        return count(max(1, round(seconds / 60)), "minute")
    return count(round(seconds / 3600), "hour")


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


def _titles(names: Iterable[str]) -> str:
    return ", ".join(CATALOGUE[name].title for name in names)


def _totals(sections: Sequence[Section]) -> list[str]:
    """Return the number of claims with each verdict: a line on the claims of the paper, and one on our own."""
    judged = [found for section in sections for found in section.judged()]
    totals = []
    for who, of_paper in (("of the paper", True), ("of our own", False)):
        verdicts = [verdict for claim, verdict, _ in judged if claim.of_paper == of_paper]
        counts = [f"{name} {verdicts.count(name)}" for name in _CLASSES if name in verdicts]
        if verdicts:
            totals.append(f"{count(len(verdicts), 'claim')} {who}: {', '.join(counts)}")
    return totals or ["No claims"]


def stale_lines(sections: Sequence[Section]) -> list[str]:
    """Name the experiments with cells that were measured with other defaults of CBID than today's."""
    found = []
    for section in sections:
        if old := section.stale:
            days = sorted(set(old))
            when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
            share = f"{len(old)} of {len(section.results)} cells ({when})"
            found.append(
                f"{section.experiment.title}: {share} were measured with other defaults of CBID than today’s."
            )
    return found


def _html(
    sections: Sequence[Section], quick: bool, machine: Mapping[str, Any], now: str, chapters: Sequence[str]
) -> str:
    body = [
        "<h1>C-BID: the paper’s tables and figures, computed again</h1>",
        f'<p class="warning">{escape(QUICK)}</p>' if quick else "",
        *(f'<p class="totals">{_coloured(line)}</p>' for line in _totals(sections)),
        _overview(sections),
        f'<p class="small">{escape(PAPER)}. Made {now} by <code>cbid reproduce{" --quick" if quick else ""}</code>; '
        "all figures except the published ones were computed by it, and its folder holds the raw results.</p>",
        "<h2>Claims of the paper</h2>",
        f'<p class="small">{escape(GRADES)}</p>',
        *(f'<p class="small">{escape(line)}</p>' for line in stale_lines(sections)),
        f'<div class="claims">{"".join(map(_claims, sections))}</div>',
    ]
    for section in sections:
        body += _section(section)
    body += chapters
    facts = {**machine, "versions": ", ".join(f"{k} {v}" for k, v in machine["versions"].items())}
    body += ["<h2>Machine</h2>", html.definitions({name: str(value) for name, value in facts.items()})]
    return html.page("C-BID reproduced", body, style=_STYLE)


def _coloured(line: str) -> str:
    """Return a line of totals as HTML, its verdicts in their colours."""
    text = escape(line)
    for verdict, kind in _CLASSES.items():
        text = re.sub(rf"{verdict} \d+", rf'<span class="total {kind}">\g<0></span>', text)
    return text


def _overview(sections: Sequence[Section]) -> str:
    """Return a table that fits a screen: the verdicts of each experiment, and how much of it is stored."""
    verdicts_of = {s.experiment.name: [verdict for _, verdict, _ in s.judged()] for s in sections}
    shown = [verdict for verdict in _CLASSES if any(verdict in found for found in verdicts_of.values())]
    rows = []
    for section in sections:
        verdicts, (done, asked) = verdicts_of[section.experiment.name], section.repeats
        stored = f"{100 * len(section.results) / len(section.cells):.0f} %" if section.results else "–"
        rows.append(
            [
                f'<a href="#{section.experiment.name}">{escape(section.experiment.title)}</a>',
                *(f'<span class="count {_CLASSES[v]}">{verdicts.count(v) or ""}</span>' for v in shown),
                stored + ("*" if section.stale else ""),
                f"{done} of {asked}" if section.results else "",
            ]
        )
    table = html.table(["claims by experiment", *shown, "cells", "repeats"], rows, escaped=True)
    note = '<p class="small">* some with earlier defaults of CBID, see below.</p>' if stale_lines(sections) else ""
    return f'<div class="overview">{table}</div>{note}'


def _claims(section: Section) -> str:
    """Return the claims of an experiment as a table, below what is common to them."""
    e = section.experiment
    rows = [
        [
            f'{escape(claim.text)} <span class="small">{escape(claim.source)}'
            f"{'. ' if (own := section.own_terms(claim)) else ''}{escape(own)}</span>",
            f'<span class="{_CLASSES[verdict]}">{verdict}</span>',
            escape(figures),
        ]
        for claim, verdict, figures in section.judged()
    ]
    if not rows:
        return ""
    about = escape(" ".join(filter(None, (section.extent, as_text(section.shared_terms)))))
    table = html.table(["claim", "here", "evidence"], rows, text=True, escaped=True)
    return f'<h3><a href="#{e.name}">{escape(e.title)}</a></h3><p class="small">{about}</p>{table}'


def _methods(e: Experiment) -> str:
    """Return the methods with their descriptions; methods with the same description are joined."""
    named: dict[str, list[str]] = {}
    for name, how in e.methods.items():
        named.setdefault(how, []).append(name)
    return "; ".join(", ".join(names) + (f": {how}" if how else "") for how, names in named.items())


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
        "Methods": _methods(e),
        "Metrics": ", ".join(METRICS[name].title for name in e.metrics),
        "Seeds": " to ".join(dict.fromkeys(map(str, (min(repeats), max(repeats))))) if repeats else "",
        "Extent": section.extent,
        "Processor time": f"{seconds:.0f} seconds",
    }
    parts = [f'<h2 id="{e.name}">{escape(e.title)}</h2>']
    if not section.run and not section.results and not section.failures:
        return [*parts, f"<p>{escape(e.shows)} {escape(section.extent)}</p>"]
    parts += [f"<p>Left out: {escape(reason)}</p>" for reason in section.lacking]
    parts += [f'<p class="warning">Failed: {escape(error)}</p>' for error in section.failures]
    parts.append(html.definitions(facts))
    return parts + section.page.parts


def _markdown(sections: Sequence[Section], quick: bool, machine: Mapping[str, Any], now: str) -> str:
    lines = [f"# Claims of the paper\n\nMade {now} by `cbid reproduce{' --quick' if quick else ''}`."]
    lines.append(f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}.")
    lines += [f"\n**{QUICK}**"] if quick else []
    lines += [f"\n**{line}**" for line in _totals(sections)]
    lines += [f"\n{line}" for line in (GRADES, *stale_lines(sections))]
    for section in sections:
        lines.append(f"\n## {section.experiment.title}\n\n{section.extent}")
        lines += [f"\n{name}: {text}." for name, text in section.shared_terms.items() if text]
        rows = list(section.judged())
        lines += ["\n| claim | here | evidence |\n|---|---|---|"] if rows else []
        for claim, verdict, figures in rows:
            own = section.own_terms(claim)
            text = f"{claim.text} ({claim.source})" + (f". {own}" if own else "")
            lines.append("| " + " | ".join(c.replace("|", "\\|") for c in (text, f"**{verdict}**", figures)) + " |")
    return "\n".join(lines) + "\n"


def _summary(sections: Sequence[Section], quick: bool, machine: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return claims and tables as JSON values."""
    return {
        "made": now,
        "quick": quick,
        "defaults": defaults_fingerprint(),
        "totals": "; ".join(_totals(sections)),
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
                "extent": s.extent,
                "claims": [
                    {
                        "claim": claim.text,
                        "source": claim.source,
                        "verdict": verdict,
                        "figures": figures,
                        "about": as_text(claim.terms),
                    }
                    for claim, verdict, figures in s.judged()
                ],
                "tables": s.page.tables,
            }
            for s in sections
        },
    }
