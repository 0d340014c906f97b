"""The report of a project: accuracy, confusion matrix, example searches and settings on one page."""

import os
import platform
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import east_asian_width

import numpy as np

import cbid
from cbid.report.html import embedded_image, package_versions, page, table
from cbid.storage.atomic import whole_file
from cbid.text import count, printable

if TYPE_CHECKING:
    from cbid.project import ImageRecord, Project

_PACKAGES = ("numpy", "scipy", "scikit-learn", "faiss-cpu", "numba", "pillow", "opencv-python-headless")
_MAX_IMAGES, _MAX_QUERIES = 5_000, 500  # images to sample, and held-out images among them to search with
_N_NEAREST = 10
_MAX_NAMES, _MAX_COUNTS = 60, 30  # classes up to which names and counts are readable in a matrix
_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1a1a1a; --muted: #5c5c5c; --line: #d9d9d9; --faint: #f0f0ee;
  --accent: #1f5fa8; --on-accent: #fff; --wrong: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ground: #14161b; --ink: #e9ebef; --muted: #a8aebb; --line: #343944;
  --faint: #22262e; --accent: #8db8f0; --on-accent: #0d1420; --wrong: #ff8f85; } }
body { color: var(--ink); background: var(--ground); }
.lead { font-size: 1.3rem; line-height: 1.35; max-width: 50rem; } .muted { color: var(--muted); }
td { border-color: var(--line); } th, thead td { border-color: var(--muted); }
.text td:first-child { white-space: nowrap; }
.scroll svg { max-width: 100%; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; } svg .muted { fill: var(--muted); }
svg .grid { stroke: var(--line); } svg .raw { stroke: var(--wrong); stroke-dasharray: 2 4; }
svg .code { stroke: var(--accent); fill: none; } svg .dot { fill: var(--accent); stroke: none; }
svg .band { stroke: var(--accent); opacity: .35; }
svg .cell { fill: var(--accent); } svg .miss { fill: var(--wrong); }
svg .empty { fill: var(--faint); } svg text.on { fill: var(--on-accent); }
.row { display: flex; gap: .75rem; border-top: 1px solid var(--line); padding: .75rem 0; }
.near { flex: 1; min-width: 0; display: grid; gap: .5rem; grid-template-columns: repeat(10, minmax(0, 1fr)); }
figure { margin: 0; font-size: .75rem; line-height: 1.25; overflow-wrap: anywhere; }
figure img, figure .name { display: block; width: 100%; aspect-ratio: 1; object-fit: contain; }
figure img, figure .name { background: var(--faint); box-sizing: border-box; }
figure img, figure .name { border: 3px solid transparent; border-radius: 4px; }
figure.query { flex: 0 0 5.5rem; } figure.query img { border-color: var(--accent); }
figure.wrong img, figure.wrong .name { border-color: var(--wrong); } .mark { color: var(--wrong); }
@media (max-width: 48rem) {
  .lead { font-size: 1.15rem; } .row { flex-direction: column; } figure.query { flex: none; width: 5.5rem; }
  .near { grid-template-columns: repeat(5, minmax(0, 1fr)); }
  .text td { white-space: normal; display: block; } .text td + td { padding-bottom: .75rem; }
}
"""


def write_report(project: "Project", path: str | os.PathLike[str], *, queries: int = 12) -> None:
    """Write the report of a project to an HTML file that refers to nothing outside itself.

    Parameters
    ----------
    project : Project
        An open project.
    path : path
        The HTML file. An existing file is replaced.
    queries : int, default=12
        Number of example searches.
    """
    name = printable(project.path.name)
    sections = [
        f"<h1>{escape(name)}</h1>",
        f'<p class="lead">{escape(headline(project.evaluation, project.confusion))}</p>',
        f"<p>{escape(_summary(project))}</p>",
        _accuracy(project.evaluation),
        _confusion(project),
        _searches(project, queries),
        _settings(project),
    ]
    text = page(f"{name}: report", sections, style=_STYLE)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def _summary(project: "Project") -> str:
    images = project.last_fit["images"]
    n = len(project)
    raw, code = 4 * project.n_features, (project.n_bits + 7) // 8
    classes = f" of {len(project.classes)} classes" if project.classes else ""
    return (
        f"{n:,} images{classes}. Codes of {project.n_bits} bits were learned from {images['train']:,} of them; "
        f"{images['held-out']:,} were held out for measuring. A code takes {code:,} bytes, a raw vector {raw:,}: "
        f"{_size(n * code)} instead of {_size(n * raw)} in total."
    )


def headline(measured: dict[str, Any], confusion: dict[str, Any]) -> str:
    """Return the result in one sentence: size and accuracy with its interval, raw vectors, best and worst class."""
    code, raw, n = measured["codes"][-1], measured["raw"], measured["n_queries"]
    size = f"{count(code['bytes'], 'byte')} an image"
    vectors = f"{raw['bytes']:,}-byte vectors"
    if not n:
        return f"{size} instead of {raw['bytes']:,}. Nothing was measured, because no images were held out."
    accuracy = code["weighted"]["accuracy"]
    if accuracy is None:
        return f"{size} keep {code['weighted']['overlap']:.0%} of the ten nearest neighbours of {vectors}."
    low, high = interval(accuracy, n)
    spread = max(accuracy - low, high - accuracy)
    within = f"± {100 * spread:.0f}" if accuracy + spread <= 1 else f"({100 * low:.0f}–{100 * high:.0f})"
    text = f"{size}: {accuracy:.0%} {within} on held-out images, {raw['accuracy']:.0%} with {vectors}"
    counts = np.array(confusion["matrix"], dtype=np.float64)
    totals = counts.sum(axis=1) if len(counts) else counts
    present = np.flatnonzero(totals)
    if len(present) > 1:
        shares = counts.diagonal()[present] / totals[present]
        best, worst = int(shares.argmax()), int(shares.argmin())
        if shares[best] == shares[worst]:
            text += f"; each class {shares[best]:.0%}"
        else:
            one, other = (
                f"{printable(confusion['classes'][i])} ({counts[i, i]:.0f} of {totals[i]:.0f} images)"
                for i in present[[best, worst]].tolist()
            )
            text += f"; best class {one}, worst {other}"
    return f"{text}."


def interval(share: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval (Wilson) of a probability of which a share of n trials was seen.

    It does not allow for the error of a second sample: the share of as many other trials is in it in 83 of 100 cases.
    """
    z = 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


def _accuracy(measured: dict[str, Any]) -> str:
    if not measured["n_queries"]:
        return "<h2>Accuracy</h2><p>Nothing was measured, because no images were held out.</p>"
    raw, n = measured["raw"], measured["n_queries"]
    labelled = raw["accuracy"] is not None
    queries, stored = f"{n:,}", f"{measured['n_stored']:,}"
    measure = "accuracy" if labelled else "overlap"
    twofold = any(entry["weighted"][measure] != entry["plain"][measure] for entry in measured["codes"])
    kinds = (
        " Weighted: each differing bit adds its learned weight. Plain: each differing bit adds 1." if twofold else ""
    )
    if labelled:
        text = (
            f"{queries} held-out images were classified by the vote of the {measured['k']} nearest among the "
            f"{stored} training images; in brackets the 95% interval.{kinds} Shorter codes are prefixes of the long "
            "one. mAP: mean average precision over the ranking."
        )
    else:
        text = (
            f"The images have no labels. For {queries} held-out images, the table shows the share of the ten nearest "
            f"by raw vectors, among {stored}, that are also among the ten nearest by code.{kinds}"
        )

    def share(value: float | None) -> str:
        if value is None:
            return ""
        low, high = interval(value, n)
        return f"{value:.1%} ({100 * low:.0f}–{100 * high:.0f})" if labelled else f"{value:.1%}"

    header = ["", "bytes", *(["weighted", "plain"] if twofold else [measure]), *(["mAP"] if labelled else [])]
    rows = []
    for entry in measured["codes"]:
        values = [entry[how][measure] for how in (("weighted", "plain") if twofold else ("weighted",))]
        ranking = [] if not labelled else [_figure(entry["weighted"]["map"])]
        rows.append([f"{entry['n_bits']} bits", f"{entry['bytes']:,}", *map(share, values), *ranking])
    whole = [share(raw["accuracy"] if labelled else 1.0), *([""] if twofold else [])]
    rows.append(["raw vectors", f"{raw['bytes']:,}", *whole, *([_figure(raw["map"])] if labelled else [])])
    return f"<h2>Accuracy</h2><p>{text}</p>{accuracy_plot(measured)}{table(header, rows)}"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _confusion(project: "Project") -> str:
    confusion = project.confusion
    if len(confusion["classes"]) < 2:
        return ""
    text = f"Held-out images by their class (row) and by the class predicted from {project.n_bits} bits (column)."
    plot = confusion_plot(confusion)
    return f'<h2>Confusion matrix</h2><p>{text}</p><div class="scroll" tabindex="0">{plot}</div>'


def _searches(project: "Project", queries: int) -> str:
    examples = choose_examples(project, queries)
    text = (
        f"Held-out images and the ten nearest by {project.n_bits} weighted bits, with the number of bits that agree. "
        "They are in the order of their weighted distance; raw vectors order those at the same distance."
    )
    if project.classes:
        text += (
            " A match of another class than the query has a red frame. The last queries are those with the most "
            "wrong matches; the others are a random sample."
        )
    return f"<h2>Searches</h2><p>{text}</p>{gallery_html(project, examples)}"


def _settings(project: "Project") -> str:
    settings, last = project.settings, project.last_fit
    versions = ", ".join(f"{name} {version}" for name, version in package_versions(_PACKAGES).items())
    descriptor, coder = settings["descriptor"], settings["coder"]
    rows = [
        ["source", printable(settings["source"]) or "in memory"],
        ["descriptor", "none: vectors" if descriptor is None else _call(descriptor["kind"], descriptor["params"])],
        ["coder", _call(coder["kind"], {k: v for k, v in coder.items() if k != "kind"})],
        ["held out", f"{settings['held_out']:.0%} of each class, seed {settings['seed']}"],
        ["fitted", f"{last['ended']} by cbid {last['cbid']}"],
        ["seconds", ", ".join(f"{name} {value:.1f}" for name, value in last["seconds"].items())],
        ["skipped", f"{last['n_failures']:,}" + "".join(f"; {n}: {r}" for n, r in last["failures"][:5])],
        ["this report", f"cbid {cbid.__version__}, Python {platform.python_version()}, {versions}"],
    ]
    return f"<h2>Settings</h2>{table(['', ''], rows, text=True)}"


def _call(kind: str, params: dict[str, Any]) -> str:
    return f"{kind}({', '.join(f'{name}={value!r}' for name, value in params.items())})"


def _size(n: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if n < 1000 or unit == "GB":
            return f"{n:,.0f} {unit}" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1000
    raise AssertionError


# Plots as SVG elements, in the colours of the page


def accuracy_plot(evaluation: dict[str, Any]) -> str:
    """Plot accuracy (without labels: shared neighbours) over the number of bits, with the raw vectors."""
    labelled = evaluation["raw"]["accuracy"] is not None
    measure = "accuracy" if labelled else "overlap"
    n, codes = evaluation["n_queries"], evaluation["codes"]
    values = [entry["weighted"][measure] for entry in codes]
    bands = [interval(value, n) if labelled else (value, value) for value in values]
    raw = evaluation["raw"]["accuracy"] if labelled else None
    lowest = min([*(low for low, _ in bands), *([] if raw is None else [raw])])
    bottom = max(0.0, np.floor(10 * lowest) / 10)
    left, top, width, height = 48, 26, 420, 190
    x = [left + width * (i + 0.5) / len(codes) for i in range(len(codes))]

    def y(share: float) -> float:
        return float(round(top + height * (1 - share) / max(1 - bottom, 1e-9), 1))

    parts = [f'<text x="4" y="14">{"accuracy" if labelled else "shared nearest neighbours"}</text>']
    for tenth in range(round(10 * bottom), 11, 1 if bottom >= 0.5 else 2):
        at = y(tenth / 10)
        parts.append(f'<line class="grid" x1="{left}" x2="{left + width}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text class="muted" x="{left - 6}" y="{at + 4}" text-anchor="end">{10 * tenth}%</text>')
    if raw is not None:
        parts.append(
            f'<line class="raw" stroke-width="2" x1="{left}" x2="{left + width}" y1="{y(raw)}" y2="{y(raw)}"/>'
        )
        parts.append(f'<text x="{left + width + 6}" y="{y(raw) + 4}">raw</text>')
    for at, (low, high) in zip(x, bands):
        parts.append(
            f'<line class="band" stroke-width="9" x1="{at:.1f}" x2="{at:.1f}" y1="{y(low)}" y2="{y(high)}"/>'
        )
    points = " ".join(f"{at:.1f},{y(value)}" for at, value in zip(x, values))
    parts.append(f'<polyline class="code" stroke-width="2" points="{points}"/>')
    for at, value, entry in zip(x, values, codes):
        parts.append(f'<circle class="dot" cx="{at:.1f}" cy="{y(value)}" r="4"><title>{value:.1%}</title></circle>')
        label = f"{entry['n_bits']} bits" if len(codes) < 7 else str(entry["n_bits"])
        parts.append(f'<text x="{at:.1f}" y="{top + height + 20}" text-anchor="middle">{label}</text>')
    return _svg("Accuracy over the number of bits", left + width + 40, top + height + 30, parts)


def confusion_plot(confusion: dict[str, Any]) -> str:
    """Plot how often images of a class (row) were predicted as each class (column), as shares of the row."""
    names, counts = confusion["classes"], np.array(confusion["matrix"], dtype=np.float64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = 26 if len(names) <= _MAX_COUNTS else 14 if len(names) <= _MAX_NAMES else max(2, 560 // len(names))
    shown = [printable(name) for name in names] if len(names) <= _MAX_NAMES else []
    margin = 16 + min(220, 8 * max((_width(name) for name in shown), default=1))
    side = size * len(names)
    parts = [f'<rect class="empty" x="{margin}" y="{margin}" width="{side}" height="{side}"/>']
    for i, j in np.argwhere(counts > 0).tolist():
        at = f'x="{margin + size * j}" y="{margin + size * i}" width="{size - 1}" height="{size - 1}"'
        title = escape(f"{counts[i, j]:.0f} {printable(names[i])} predicted as {printable(names[j])}")
        kind = "cell" if i == j else "miss"
        strength = 0.15 + 0.85 * shares[i, j]
        parts.append(f'<rect class="{kind}" {at} opacity="{strength:.2f}"><title>{title}</title></rect>')
        if len(names) <= _MAX_COUNTS:
            on = ' class="on"' if strength > 0.6 else ""
            middle = margin + size * j + size / 2, margin + size * i + size / 2 + 4
            parts.append(f'<text{on} x="{middle[0]}" y="{middle[1]}" text-anchor="middle">{counts[i, j]:.0f}</text>')
    for i, name in enumerate(shown):
        line = margin + size * i + size / 2 + 4
        parts.append(f'<text x="{margin - 6}" y="{line}" text-anchor="end">{escape(name)}</text>')
        turned = f'transform="translate({line},{margin - 6}) rotate(-90)"'
        parts.append(f"<text {turned}>{escape(name)}</text>")
    return _svg("Confusion matrix", margin + side + 4, margin + side + 4, parts, least=0.7)


def _width(text: str) -> int:
    """Return the width in letters; ideographs count two."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _svg(title: str, width: float, height: float, parts: list[str], least: float = 0.0) -> str:
    """Return an <svg> element with a label for screen readers; it may shrink to ``least`` of its width."""
    box = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    if least:
        box += f' style="min-width: {least * width:.0f}px"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" {box}>{"".join(parts)}</svg>'


# Example searches: queries and their nearest images


class Example(NamedTuple):
    """One query, its nearest images, and the number of bits in which each agrees with the query."""

    query: "ImageRecord"
    matches: list["ImageRecord"]
    agree: list[int]

    @property
    def n_wrong(self) -> int:
        """Number of matches that are of another class than the query."""
        return sum(_is_wrong(match, self.query) for match in self.matches)


def _is_wrong(match: "ImageRecord", query: "ImageRecord") -> bool:
    """Return whether two images have labels, but none in common."""
    return bool(match.labels and query.labels) and set(match.labels).isdisjoint(query.labels)


def choose_examples(project: "Project", count: int = 12) -> list[Example]:
    """Return searches with held-out images (or any images, if none was held out), without the query itself.

    Up to half of them are those with the most wrong matches and come last. The others are a random sample.
    """
    rng = np.random.default_rng(0)
    ids = project.ids
    if len(ids) > _MAX_IMAGES:
        ids = np.sort(rng.choice(ids, _MAX_IMAGES, replace=False))
    records = project.records_of(ids)
    queries = [record for record in records if record.part == "held-out"] or records
    queries = [queries[i] for i in np.sort(rng.permutation(len(queries))[:_MAX_QUERIES])]
    examples = _search(project, queries)
    wrong = sorted((e for e in examples if e.n_wrong), key=lambda e: (-e.n_wrong, e.query.id))[: count // 2]
    rest = [example for example in examples if example not in wrong]
    sample = [rest[i] for i in np.sort(rng.permutation(len(rest))[: count - len(wrong)])]
    return [*sample, *wrong]


def _search(project: "Project", queries: list["ImageRecord"]) -> list[Example]:
    query_ids = np.array([query.id for query in queries], dtype=np.int64)
    vectors = np.array([project.vector(query.id) for query in queries]).reshape(len(queries), project.n_features)
    found = project.search(project.index.reconstruct(query_ids), _N_NEAREST + 1, vectors=vectors)
    records = {record.id: record for record in project.records_of(np.unique(found.ids[found.ids >= 0]))}
    examples = []
    for query, ids, agree in zip(queries, found.ids.tolist(), found.agree.tolist()):
        near = [(id, bits) for id, bits in zip(ids, agree) if id >= 0 and id != query.id][:_N_NEAREST]
        examples.append(Example(query, [records[id] for id, _ in near], [bits for _, bits in near]))
    return examples


def gallery_html(project: "Project", examples: list[Example]) -> str:
    """Return one row per query with its nearest images; those of another class have a red frame."""
    rows = []
    for query, matches, agree in examples:
        near = "".join(
            _image(project, match, f"{n} of {project.n_bits} bits agree", "wrong" if _is_wrong(match, query) else "")
            for match, n in zip(matches, agree)
        )
        rows.append(
            f'<div class="row">{_image(project, query, "query", "query")}<div class="near">{near}</div></div>'
        )
    return "\n".join(rows)


def _image(project: "Project", record: "ImageRecord", caption: str, kind: str) -> str:
    if project.has_thumbnails:
        picture = embedded_image(project.thumbnail(record.id), record.name, format="jpeg")
    else:
        picture = f'<span class="name">{escape(record.name)}</span>'
    mark = '<span class="mark" title="another class">✗</span> ' if kind == "wrong" else ""
    label = escape(record.label or "no label")
    return f'<figure class="{kind}">{picture}<figcaption>{mark}{label}<br>{escape(caption)}</figcaption></figure>'
