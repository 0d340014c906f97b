"""The report: one self-contained HTML file, a JSON summary for programs, and the claims as Markdown."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from cbid.evaluation import METRICS
from cbid.paper.base import Claim, Experiment, Judgement, Results
from cbid.paper.page import Note, Plot, Table
from cbid.paper.raw import describe_machine
from cbid.paper.sets import CATALOGUE
from cbid.report import html
from cbid.storage.atomic import whole_file

__all__ = ["Section", "verdict_of", "write_report"]

HOLDS, FAILS, UNTESTED, UNRUN = "holds", "does not hold", "not testable here", "not run"
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
.untested { opacity: .7; } .warning { border: 2px solid #c0341d; border-radius: 6px; padding: .5rem 1rem; }
@media (prefers-color-scheme: dark) { .holds { color: #4cc38a; } .fails, .warning { color: #ff8b70; } }
"""
_CLASSES = {HOLDS: "holds", FAILS: "fails", UNTESTED: "untested", UNRUN: "untested"}


@dataclass(frozen=True)
class Section:
    """What the report shows of one experiment. ``expected``: how many cells a complete run has."""

    experiment: Experiment
    results: Results
    expected: int
    parts: Sequence[Note | Table | Plot]
    claims: Sequence[tuple[Claim, Judgement | None]]
    absent: Mapping[str, str]
    lacking: Sequence[str]
    failures: Sequence[str]


def write_report(sections: Sequence[Section], folder: Path, quick: bool) -> Path:
    """Write report.html, claims.md and summary.json to a folder that has the plots; return the path of the first."""
    machine, now = describe_machine(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    texts = {
        "report.html": _html(sections, folder, quick, machine, now),
        "claims.md": _markdown(sections, quick, machine, now),
        "summary.json": json.dumps(_summary(sections, quick, machine, now), indent=1, ensure_ascii=False) + "\n",
    }
    for name, text in texts.items():
        with whole_file(folder / name) as temporary:
            temporary.write_text(text)
    return folder / "report.html"


def verdict_of(judged: Judgement | None, section: Section) -> str:
    """Return the verdict on a claim. Without a judgement it is "not run" if cells are missing."""
    if judged is None:
        return UNRUN if len(section.results) < section.expected and not section.failures else UNTESTED
    return HOLDS if judged.holds else FAILS


def _html(sections: Sequence[Section], folder: Path, quick: bool, machine: Mapping[str, Any], now: str) -> str:
    body = [
        "<h1>C-BID: the paper’s tables and figures, computed again</h1>",
        f"<p>{escape(PAPER)}. Made {now} by <code>cbid reproduce{' --quick' if quick else ''}</code>. All figures "
        "except the published ones were computed by this run; its folder holds the raw results.</p>",
        f'<p class="warning">{escape(QUICK)}</p>' if quick else "",
        *(f"<p>{escape(line)}</p>" for line in _coverage(sections)),
        "<h2>Claims of the paper</h2>",
        _claims_table(sections),
    ]
    for section in sections:
        body += _section(section, folder)
    facts = {**machine, "versions": ", ".join(f"{k} {v}" for k, v in machine["versions"].items())}
    body += ["<h2>Machine</h2>", html.definitions({name: str(value) for name, value in facts.items()})]
    return html.page("C-BID reproduced", body, style=_STYLE)


def _claims_table(sections: Sequence[Section]) -> str:
    rows = []
    for section in sections:
        name = section.experiment.name
        for claim, judged in section.claims:
            verdict = verdict_of(judged, section)
            rows.append(
                [
                    f'{escape(claim.text)} <span class="small">({escape(claim.source)})</span>',
                    f'<span class="{_CLASSES[verdict]}">{verdict}</span>',
                    f'{escape(_figures(judged, section))} <a href="#{name}">{name}</a>',
                ]
            )
    return html.table(["claim", "here", "evidence"], rows, text=True, escaped=True)


def _figures(judged: Judgement | None, section: Section) -> str:
    """Return the figures behind a verdict, and how many cells they cover."""
    if judged is None:
        return _why_not(section)
    there, expected = len(section.results), section.expected
    return judged.figures + ("" if there == expected else f" ({there} of {expected} cells)")


def _why_not(section: Section) -> str:
    if section.failures:
        return "the experiment failed."
    if not section.expected:
        return f"needs {', '.join(CATALOGUE[name].title for name in section.absent)}."
    return f"{len(section.results)} of {section.expected} cells are stored."


def _coverage(sections: Sequence[Section]) -> list[str]:
    """Say which experiments were run in full, in part, and not at all."""
    groups: dict[str, list[str]] = {
        "Run in full": [],
        "Run in part": [],
        "Not run": [],
        "Left out, because data is missing": [],
    }
    for section in sections:
        title, there, expected = section.experiment.title, len(section.results), section.expected
        if not expected:
            groups["Left out, because data is missing"].append(title)
        elif there == expected:
            groups["Run in full"].append(title)
        elif there:
            groups["Run in part"].append(f"{title} ({there} of {expected} cells)")
        else:
            groups["Not run"].append(title)
    return [f"{what}: {', '.join(titles)}." for what, titles in groups.items() if titles]


def _section(section: Section, folder: Path) -> list[str]:
    e = section.experiment
    used = [name for name in e.sets if name not in section.absent]
    repeats = section.results.distinct("repeat")
    seconds = sum(row.seconds for row in section.results)
    facts = {
        "Shows": e.shows,
        "Data": ", ".join(CATALOGUE[name].title for name in used) or "none needed",
        "Not on this machine": ", ".join(CATALOGUE[name].title for name in section.absent),
        "Protocol": e.protocol,
        "Methods": "; ".join(f"{name}: {how}" for name, how in e.methods.items()),
        "Metrics": ", ".join(METRICS[name].title for name in e.metrics),
        "Repeats": f"{', '.join(map(str, repeats))}; the number of a repeat is also the seed" if repeats else "",
        "Cells": f"{len(section.results)} of {section.expected}, {seconds:.0f} seconds",
    }
    parts = [f'<h2 id="{e.name}">{escape(e.title)}</h2>']
    parts += [f"<p>Left out: {escape(reason)}</p>" for reason in section.lacking]
    parts += [f'<p class="warning">Failed: {escape(error)}</p>' for error in section.failures]
    parts.append(html.definitions(facts))
    if section.expected:
        parts.append(f'<p class="small">Raw results: <code>raw/{e.name}.jsonl</code> in the folder of the run.</p>')
    return parts + [_part(part, folder / "plots") for part in section.parts]


def _part(part: Note | Table | Plot, plots: Path) -> str:
    if isinstance(part, Note):
        return f"<p>{escape(part.text)}</p>"
    if isinstance(part, Table):
        return f"<h3>{escape(part.title)}</h3>{html.table(part.head, part.rows)}"
    image = html.embedded_image((plots / f"{part.name}.png").read_bytes(), part.caption)
    kinds = [end for end in ("png", "svg") if (plots / f"{part.name}.{end}").exists()]
    links = ", ".join(f'<a href="plots/{part.name}.{end}">{end.upper()}</a>' for end in kinds)
    return f"<figure>{image}<figcaption>{escape(part.caption)} ({links})</figcaption></figure>"


def _markdown(sections: Sequence[Section], quick: bool, machine: Mapping[str, Any], now: str) -> str:
    lines = [f"# Claims of the paper\n\nMade {now} by `cbid reproduce{' --quick' if quick else ''}`."]
    lines.append(f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}.")
    lines += [f"\n**{QUICK}**"] if quick else []
    lines += [f"\n{line}" for line in _coverage(sections)]
    lines.append("\n| claim | here | evidence | experiment |\n|---|---|---|---|")
    for section in sections:
        for claim, judged in section.claims:
            figures = _figures(judged, section)
            cells = (
                f"{claim.text} ({claim.source})",
                f"**{verdict_of(judged, section)}**",
                figures,
                section.experiment.name,
            )
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _summary(sections: Sequence[Section], quick: bool, machine: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return claims and tables as JSON values."""
    return {
        "made": now,
        "quick": quick,
        "machine": dict(machine),
        "experiments": {
            s.experiment.name: {
                "cells": len(s.results),
                "expected": s.expected,
                "seconds": round(sum(r.seconds for r in s.results), 1),
                "absent": list(s.absent),
                "lacking": list(s.lacking),
                "failures": list(s.failures),
                "claims": [
                    {
                        "claim": claim.text,
                        "source": claim.source,
                        "verdict": verdict_of(judged, s),
                        "figures": judged.figures if judged else None,
                    }
                    for claim, judged in s.claims
                ],
                "tables": [
                    {"title": part.title, "head": list(part.head), "rows": [list(row) for row in part.rows]}
                    for part in s.parts
                    if isinstance(part, Table)
                ],
            }
            for s in sections
        },
    }
