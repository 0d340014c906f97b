"""The report: one HTML file with everything in it, a summary for programs, and the claims as Markdown."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from cbid.evaluation import METRICS
from cbid.paper.base import Claim, Experiment, Judgement, Results
from cbid.paper.machine import describe_machine
from cbid.paper.page import Note, Plot, Table
from cbid.paper.sets import CATALOGUE
from cbid.storage.atomic import whole_file

__all__ = ["Section", "verdict_of", "write_report"]

HOLDS, FAILS, UNTESTED, UNRUN = "holds", "does not hold", "not testable here", "not run"
PAPER = "Paisitkriangkrai, Shen and van den Hengel, “Large-margin learning of compact binary image encodings”"
QUICK = (
    "This is a quick run on reduced sizes: it shows that everything works, and its figures are no evidence. "
    "Run without --quick for those."
)

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin-top: 2.5rem; } h3 { font-size: 1rem; }
img { max-width: 100%; height: auto; background: white; border-radius: 4px; }
figure { margin: 1rem 0; } figcaption, .small { font-size: .85rem; opacity: .85; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #8885; text-align: left; vertical-align: top; }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.holds { color: #18794e; font-weight: 600; } .fails { color: #c0341d; font-weight: 600; }
.untested { opacity: .7; } .warning { border: 2px solid #c0341d; border-radius: 6px; padding: .5rem 1rem; }
dt { font-weight: 600; } dd { margin: 0 0 .5rem 0; }
@media (prefers-color-scheme: dark) { .holds { color: #4cc38a; } .fails, .warning { color: #ff8b70; } }
"""


@dataclass(frozen=True)
class Section:
    """What the report has of one experiment. expected: cells of this run, whether they are there or not."""

    experiment: Experiment
    results: Results
    expected: int
    parts: Sequence[Note | Table | Plot]
    claims: Sequence[tuple[Claim, Judgement | None]]
    absent: Mapping[str, str]
    lacking: Sequence[str]
    failures: Sequence[str]


def write_report(sections: Sequence[Section], folder: Path, quick: bool) -> Path:
    """report.html, claims.md and summary.json in the folder; the plots are there already."""
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
    """Without a judgement: not run, if cells are missing that could be run here."""
    if judged is None:
        return UNRUN if len(section.results) < section.expected and not section.failures else UNTESTED
    return HOLDS if judged.holds else FAILS


def _html(sections: Sequence[Section], folder: Path, quick: bool, machine: Mapping[str, Any], now: str) -> str:
    body = [
        "<h1>C-BID: the paper’s tables and figures, computed again</h1>",
        f"<p>{escape(PAPER)}. Made {now} by <code>cbid reproduce{' --quick' if quick else ''}</code>; every number "
        "but the published ones was computed in this run, from raw results that are kept in its folder.</p>",
    ]
    if quick:
        body.append(f'<p class="warning">{escape(QUICK)}</p>')
    body += [f"<p>{escape(line)}</p>" for line in _coverage(sections)]
    body += ["<h2>Claims of the paper</h2>", _claims_table(sections)]
    for section in sections:
        body += _section(section, folder)
    body += ["<h2>Machine</h2>", _machine_list(machine)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>C-BID reproduced</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _claims_table(sections: Sequence[Section]) -> str:
    css = {HOLDS: "holds", FAILS: "fails", UNTESTED: "untested", UNRUN: "untested"}
    rows = []
    for section in sections:
        for claim, judged in section.claims:
            verdict = verdict_of(judged, section)
            figures = _figures(judged, section)
            rows.append(
                f'<tr><td>{escape(claim.text)} <span class="small">({escape(claim.source)})</span></td>'
                f'<td class="{css[verdict]}">{verdict}</td>'
                f'<td>{escape(figures)} <a href="#{section.experiment.name}">{section.experiment.name}</a></td></tr>'
            )
    head = "<tr><th>claim</th><th>here</th><th>by which figures</th></tr>"
    return f'<div class="wide"><table>{head}{"".join(rows)}</table></div>'


def _figures(judged: Judgement | None, section: Section) -> str:
    """What a verdict rests on, and on how much of the experiment."""
    if judged is None:
        return _why_not(section)
    there, expected = len(section.results), section.expected
    return judged.figures + ("" if there == expected else f" By {there} of {expected} cells.")


def _why_not(section: Section) -> str:
    if section.failures:
        return "the experiment failed."
    if not section.expected:
        return f"needs {', '.join(CATALOGUE[name].title for name in section.absent)}."
    return f"{len(section.results)} of {section.expected} cells are there."


def _coverage(sections: Sequence[Section]) -> list[str]:
    """What was run in full, in part and not at all."""
    groups: dict[str, list[str]] = {
        "Run in full": [],
        "Run in part": [],
        "Not run": [],
        "Left out, for want of data": [],
    }
    for section in sections:
        title, there, expected = section.experiment.title, len(section.results), section.expected
        if not expected:
            groups["Left out, for want of data"].append(title)
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
    parts.append("<dl>" + "".join(f"<dt>{k}</dt><dd>{escape(v)}</dd>" for k, v in facts.items() if v) + "</dl>")
    if section.expected:
        parts.append(f'<p class="small">Raw results: <code>raw/{e.name}.jsonl</code> in the folder of the run.</p>')
    parts += [_part(part, folder) for part in section.parts]
    return parts


def _part(part: Note | Table | Plot, folder: Path) -> str:
    if isinstance(part, Note):
        return f"<p>{escape(part.text)}</p>"
    if isinstance(part, Plot):
        picture = base64.b64encode((folder / "plots" / f"{part.name}.png").read_bytes()).decode()
        kinds = [end for end in ("png", "svg") if (folder / "plots" / f"{part.name}.{end}").exists()]
        links = ", ".join(f'<a href="plots/{part.name}.{end}">{end.upper()}</a>' for end in kinds)
        return (
            f'<figure><img alt="{escape(part.caption, quote=True)}" src="data:image/png;base64,{picture}">'
            f"<figcaption>{escape(part.caption)} ({links})</figcaption></figure>"
        )
    head = "".join(f"<th>{escape(cell)}</th>" for cell in part.head)
    rows = "".join(
        "<tr>" + "".join(f"<td{' class=number' if i else ''}>{escape(c)}</td>" for i, c in enumerate(row)) + "</tr>"
        for row in part.rows
    )
    return f'<h3>{escape(part.title)}</h3><div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def _machine_list(machine: Mapping[str, Any]) -> str:
    facts = {k: v for k, v in machine.items() if k != "versions"}
    facts["versions"] = ", ".join(f"{k} {v}" for k, v in machine["versions"].items())
    return "<dl>" + "".join(f"<dt>{k}</dt><dd>{escape(str(v))}</dd>" for k, v in facts.items()) + "</dl>"


def _markdown(sections: Sequence[Section], quick: bool, machine: Mapping[str, Any], now: str) -> str:
    lines = [f"# Claims of the paper\n\nMade {now} by `cbid reproduce{' --quick' if quick else ''}`."]
    lines.append(f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}.")
    lines += [f"\n**{QUICK}**"] if quick else []
    lines += [f"\n{line}" for line in _coverage(sections)]
    lines.append("\n| claim | here | by which figures | experiment |\n|---|---|---|---|")
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
    """Claims and tables as JSON values."""
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
