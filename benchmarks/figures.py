"""Where the figures of the pages come from, and whether they are older than the defaults they speak of.

    python -m benchmarks figure PAGE            # recompute a generated page; list the sources of the others
    python -m benchmarks figure PAGE FIGURE     # one figure: the recomputed lines, or the raw values it comes from
    python -m benchmarks figure --sample 10 [SEED]    # some figures chosen at random, each by the command above

A *generated* page is written from raw files by a function; it is recomputed and compared. On other pages every
section with a measured figure names its script or raw file, in its text or in a comment ``<!-- source: ... -->``;
"setting" marks numbers that are no measurement. Raw files store the fingerprint of the defaults of CBID. Those of
earlier defaults are listed in ``benchmarks/results/ages.json`` with their date.
"""

import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import FOLDER
from cbid.paper.raw import current_defaults, defaults_fingerprint, today

ROOT = Path(__file__).parent.parent
EVIDENCE = ROOT / "docs" / "evidence"
AGES = FOLDER / "ages.json"

_FIGURE = re.compile(
    r"(?<![\w.])(\d+(?:\.\d+)?\s?%|[0-9]?\.\d{2,}\b|\d+(?:\.\d+)? times (?:as|faster|the|less|slower)|"
    r"[+-]\d+\.\d+ points?|\d+(?:\.\d+)? (?:s|ms|seconds|GB/s))(?!\w)"
)
_SOURCE = re.compile(
    r"benchmarks[./](?:results/)?([\w]+)|cbid\s+reproduce\s+(\w+)|<!-- source: (.*?) -->|(evidence/)|"
    r"pictures/(\w+)\.py"
)


def generated() -> dict[str, Any]:
    """Return the pages that are computed from raw files, each with the function that returns its text."""
    from benchmarks import (
        descriptors_report,
        detector_report,
        label_kinds_report,
        nbnn_report,
        report,
        rivals_mnist,
        rivals_report,
        scale_report,
    )

    return {
        "README.md": report.readme,
        "docs/benchmarks.md": report.document,
        "docs/coders.md": rivals_mnist.document,
        "docs/descriptors.md": descriptors_report.document,
        "docs/detection.md": detector_report.document,
        "docs/labels.md": label_kinds_report.document,
        "docs/nbnn.md": nbnn_report.document,
        "docs/rivals.md": rivals_report.document,
        "docs/scale.md": scale_report.document,
    }


def pages() -> list[Path]:
    """Return README.md and the pages of docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def sections(text: str) -> list[str]:
    """Return the text of a page at each heading, without code."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    text = "\n".join(line for line in text.split("\n") if not line.startswith("    "))
    return [part for part in re.split(r"(?m)^(?=#{1,4} )", text) if part.strip()]


def figures_of(section: str) -> list[str]:
    """Return the numbers in a section that look measured: shares, ratios, times, decimals."""
    return [found.strip() for found in _FIGURE.findall(re.sub(r"<!--.*?-->", "", section, flags=re.S))]


def sources_of(section: str) -> list[str]:
    """Return the names of scripts, experiments and raw files in a section."""
    return [next(filter(None, match)) for match in _SOURCE.findall(section)]


def without_source(text: str) -> list[str]:
    """Return the headings of sections whose figures have no source; a source before the second heading serves all."""
    parts = sections(text)
    if parts and sources_of(parts[0]):
        return []
    return [part.split("\n")[0] for part in parts if figures_of(part) and not sources_of(part)]


def raw_files() -> list[Path]:
    """Return all files of raw results."""
    found = [p for pattern in ("*.json", "*.jsonl", "rivals/*.jsonl") for p in FOLDER.glob(pattern) if p != AGES]
    return sorted([*found, *(EVIDENCE / "raw").glob("*.jsonl.gz")])


def raw_named(name: str) -> list[Path]:
    """Return the raw files that belong to the name of a script or an experiment."""
    stem = name.split(".")[0].split("/")[-1]
    return [p for p in raw_files() if stem in (p.name.split(".")[0], p.parent.name)]


def load(path: Path) -> Any:
    """Return the content of a raw file: its JSON value, or the list of its lines."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(data) if path.suffix == ".json" else [json.loads(line) for line in data.splitlines()]


def fingerprints(path: Path) -> set[str | None]:
    """Return the fingerprints that a raw file was measured with; None: stored before there were any."""
    content = load(path)
    entries = content if isinstance(content, list) else [content]
    return {entry.get("defaults") if isinstance(entry, dict) else None for entry in entries}


def last_day(path: Path) -> str | None:
    """Return the last day on which a raw file was measured, if it says so."""
    content = load(path)
    entries = content if isinstance(content, list) else [content]
    return max((e["made"] for e in entries if isinstance(e, dict) and e.get("made")), default=None)


def relative(path: Path) -> str:
    """Return a path as it is written in ages.json."""
    return str(path.relative_to(ROOT))


def stale() -> dict[str, str]:
    """Return the raw files of other defaults than today's that are not listed, with the reason."""
    listed, found = json.loads(AGES.read_text()), {}
    for path in raw_files():
        old = fingerprints(path) - current_defaults()
        entry = listed.get(relative(path))
        if old and not (entry and old <= set(entry["fingerprints"]) and entry["made"]):
            names = ", ".join(sorted(str(f) for f in old))
            found[relative(path)] = f"measured with defaults {names}; today's are {defaults_fingerprint()}"
    return found


def list_older() -> None:
    """List all raw files of earlier defaults with their date: a decision that their figures may stay in the pages."""
    import subprocess

    listed = json.loads(AGES.read_text()) if AGES.exists() else {}
    listed = {name: entry for name, entry in listed.items() if (ROOT / name).exists()}
    for path in raw_files():
        old = fingerprints(path) - current_defaults()
        name = relative(path)
        if not old:
            listed.pop(name, None)
            continue
        git = ["git", "log", "-1", "--format=%as", "--", name]
        committed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        known = listed.get(name, {})
        keep = known.get("made") if set(known.get("fingerprints", [])) == old else None
        made = keep or last_day(path) or committed or today()
        listed[name] = {"made": made, "defaults": _label(old), "fingerprints": sorted(old, key=str)}
    AGES.write_text(json.dumps(dict(sorted(listed.items())), indent=1) + "\n")


def _label(old: set[str | None]) -> str:
    if old == {None}:
        return "measured with the defaults of 0.1.0 or of a day before fingerprints were stored"
    return "measured with earlier defaults"


def paths_to(value: Any, figure: str, place: str = "") -> Iterator[tuple[str, float]]:
    """Yield the places of a JSON value whose number is the figure when rounded to its digits.

    Means and deviations of a list of numbers count as its own, and so do those over the lines of several seeds.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths_to(inner, figure, f"{place}.{key}")
    elif isinstance(value, list):
        for what, summary in (("mean", np.mean), ("deviation", np.std)):
            if len(value) > 1 and (found := _summary(value, summary)) is not None:
                yield from paths_to(found, figure, f"{what} over {place}")
            for name, cells in _repeats(value).items():
                yield from paths_to(_summary(cells, summary), figure, f"{what} over {place}[{name}]")
        for number, inner in enumerate(value):
            yield from paths_to(inner, figure, f"{place}[{number}]")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        digits = re.search(r"\d*\.?\d+", figure)
        text = digits.group() if digits else figure
        decimals = len(text.partition(".")[2])
        for times, factor in (("", 1), ("100 * ", 100), ("1000 * ", 1000), ("1 / ", 0)):
            shown = factor * value if factor else (1 / value if value else 0)
            if f"{abs(shown):.{decimals}f}" in (text, f"0{text}"):
                yield f"{times}{place}", value


def _repeats(values: list[Any]) -> dict[str, list[Any]]:
    """Return the lines that differ in their seed only, by what they have in common."""
    groups: dict[str, list[Any]] = {}
    for value in values:
        if isinstance(value, dict):
            same = {k: v for k, v in value.items() if isinstance(v, (str, int)) and k not in ("seed", "repeat")}
            groups.setdefault(", ".join(f"{k}={v}" for k, v in same.items()), []).append(value)
    return {name: cells for name, cells in groups.items() if 1 < len(cells) < len(values)}


def _summary(values: list[Any], of: Any) -> Any:
    """Return ``of`` (mean or deviation) of numbers, or of the numbers of dicts with the same keys, or None."""
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        return float(of(values))
    if all(isinstance(v, dict) for v in values):
        shared = [k for k in values[0] if all(k in v for v in values)]
        found = {k: _summary([v[k] for v in values], of) for k in shared}
        return {k: value for k, value in found.items() if value is not None} or None
    if all(isinstance(v, list) for v in values) and len({len(v) for v in values}) == 1:
        return [_summary([v[i] for v in values], of) for i in range(len(values[0]))]
    return None


def show(page: str, figure: str | None) -> int:
    """Print where the figures of a page come from; return 1 if a figure is not found or the page is outdated."""
    path = ROOT / page
    known = generated()
    if page in known:
        fresh, old = known[page](), path.read_text()
        lines = [line for line in fresh.splitlines() if figure is None or figure in line]
        if figure is not None:
            print("\n".join(lines) or f"{figure} is not in {page}")
            return 0 if lines and fresh == old else 1
        print(f"{page}: recomputed from the raw files, {'equal' if fresh == old else 'NOT EQUAL to the page'}")
        return int(fresh != old)
    found = 0
    for part in sections(path.read_text()):
        figures = [f for f in figures_of(part) if figure is None or figure in f]
        if figure is not None and not figures and figure in part:
            figures = [figure]
        if not figures:
            continue
        sources = sources_of(part) or sources_of(sections(path.read_text())[0])
        print(
            f"{part.splitlines()[0]}: {', '.join(figures[:12])}; source: {', '.join(dict.fromkeys(sources)) or '-'}"
        )
        for raw in dict.fromkeys(p for source in sources for p in raw_named(source)):
            print(f"  {relative(raw)}")
            for place, value in list(paths_to(load(raw), figure))[:5] if figure else ():
                print(f"    {place} = {value:.6g}")
                found += 1
    return 0 if figure is None or found else 1


def measured() -> list[tuple[str, str]]:
    """Return the page and the text of every figure that is measured: not in code, and no setting."""
    found = []
    for page in pages():
        parts = sections(page.read_text())
        for part in parts:
            sources = sources_of(part) or sources_of(parts[0])
            if not any(source.startswith("setting") for source in sources):
                found += [(relative(page), figure) for figure in dict.fromkeys(figures_of(part))]
    return list(dict.fromkeys(found))


def sample(count: int, seed: int) -> int:
    """Recompute some figures chosen at random; return 1 if one of them is not found."""
    known = measured()
    chosen = np.random.default_rng(seed).choice(len(known), min(count, len(known)), replace=False)
    missing = 0
    for page, figure in (known[i] for i in chosen):
        print(f"== python -m benchmarks figure {page} {figure!r}", flush=True)
        missing += show(page, figure)
    print(f"{len(chosen) - missing} of {len(chosen)} found")
    return int(missing > 0)


def main(arguments: list[str]) -> int:
    """Run the command."""
    if arguments == ["--list-older"]:
        list_older()
        return 0
    if arguments[:1] == ["--sample"] and all(a.isdigit() for a in arguments[1:]):
        numbers = [int(a) for a in arguments[1:3]]
        return sample(*numbers, *(10, 0)[len(numbers) :])
    if not 1 <= len(arguments) <= 2 or not (ROOT / arguments[0]).is_file():
        print(f"usage: python -m benchmarks figure PAGE [FIGURE]; generated pages: {', '.join(generated())}")
        return 2
    return show(arguments[0], arguments[1] if len(arguments) > 1 else None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
