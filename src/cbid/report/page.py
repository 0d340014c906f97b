"""The report of a project: accuracy, confusion matrix, example searches and settings on one page."""

import io
import os
import platform
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import cbid
from cbid.data.names import printable
from cbid.extras import missing_extra
from cbid.report.html import embedded_image, package_versions, page, table
from cbid.storage.atomic import whole_file

if TYPE_CHECKING:
    from cbid.project import ImageRecord, Project

_PACKAGES = ("numpy", "scipy", "scikit-learn", "faiss-cpu", "numba", "pillow", "opencv-python-headless")
_MAX_IMAGES, _MAX_QUERIES = 5_000, 500  # images to sample, and held-out images among them to search with
_N_NEAREST = 10
_MAX_NAMES, _MAX_COUNTS = 40, 30  # classes up to which names and counts are readable in a matrix
_INK, _RED, _BLUE, _GREY = "#1a1a1a", "#b3261e", "#1f5fa8", "#767676"

_STYLE = """
:root { color-scheme: light; } body { color: #1a1a1a; background: #fff; }
.text td:first-child { white-space: nowrap; }
.row { display: flex; gap: .75rem; border-top: 1px solid #e5e5e5; padding: .75rem 0; }
.near { flex: 1; min-width: 0; display: grid; gap: .5rem; grid-template-columns: repeat(10, minmax(0, 1fr)); }
figure { margin: 0; font-size: .75rem; line-height: 1.25; overflow-wrap: anywhere; }
figure img, figure .name { display: block; width: 100%; aspect-ratio: 1; object-fit: contain; background: #f2f2f2; }
figure img, figure .name { box-sizing: border-box; border: 3px solid transparent; border-radius: 4px; }
figure.query { flex: 0 0 5.5rem; } figure.query img { border-color: #1f5fa8; }
figure.wrong img, figure.wrong .name { border-color: #b3261e; } .mark { color: #b3261e; }
@media (max-width: 48rem) {
  .row { flex-direction: column; } figure.query { flex: none; width: 5.5rem; }
  .near { grid-template-columns: repeat(5, minmax(0, 1fr)); } td:first-child { white-space: nowrap; }
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


def _accuracy(measured: dict[str, Any]) -> str:
    if not measured["n_queries"]:
        return "<h2>Accuracy</h2><p>Nothing was measured, because no images were held out.</p>"
    raw = measured["raw"]
    labelled = raw["accuracy"] is not None
    queries, stored = f"{measured['n_queries']:,}", f"{measured['n_stored']:,}"
    if labelled:
        text = (
            f"{queries} held-out images were classified by the vote of the {measured['k']} nearest among the "
            f"{stored} training images. Weighted: each differing bit adds its learned weight. Plain: each differing "
            "bit adds 1. Shorter codes are prefixes of the long one. mAP: mean average precision over the ranking."
        )
    else:
        text = (
            f"The images have no labels. For {queries} held-out images, the table shows the share of the ten nearest "
            f"by raw vectors, among {stored}, that are also among the ten nearest by code."
        )
    measure = "accuracy" if labelled else "overlap"
    rows = [
        ["raw vectors", raw["bytes"], raw["accuracy"] if labelled else 1.0, None, raw["map"], raw["milliseconds"]]
    ]
    for entry in measured["codes"]:
        weighted, plain = entry["weighted"], entry["plain"]
        row = [f"{entry['n_bits']} bits", entry["bytes"], weighted[measure], plain[measure]]
        rows.append([*row, weighted["map"], weighted["milliseconds"]])
    columns = [0, 1, 2, 3, 4, 5] if labelled else [0, 1, 2, 3, 5]  # mAP needs labels
    header = ["", "bytes", "weighted", "plain", "mAP", "ms per query"]
    formats = ["", ",", ".1%", ".1%", ".3f", ".3f"]
    cells = [["" if row[i] is None else format(row[i], formats[i]) for i in columns] for row in rows]
    return f"<h2>Accuracy</h2><p>{text}</p>{accuracy_plot(measured)}{table([header[i] for i in columns], cells)}"


def _confusion(project: "Project") -> str:
    confusion = project.confusion
    if len(confusion["classes"]) < 2:
        return ""
    text = f"Held-out images by their class (row) and by the class predicted from {project.n_bits} bits (column)."
    plot = confusion_plot(confusion)
    return f'<h2>Confusion matrix</h2><p>{text}</p><div class="scroll" tabindex="0">{plot}</div>'


def _searches(project: "Project", queries: int) -> str:
    examples = choose_examples(project, queries)
    text = f"Held-out images and the ten nearest by {project.n_bits} weighted bits, with their distances."
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


# Plots as SVG elements


def accuracy_plot(evaluation: dict[str, Any]) -> str:
    """Plot accuracy (without labels: shared neighbours) over the number of bits, beside the raw vectors."""
    labelled = evaluation["raw"]["accuracy"] is not None
    measure = "accuracy" if labelled else "overlap"
    bits = [entry["n_bits"] for entry in evaluation["codes"]]
    figure, axes = _figure(4.8, 3.2)
    for how, colour, line in (("weighted", _BLUE, "o-"), ("plain", _GREY, "s--")):
        axes.plot(
            bits, [entry[how][measure] for entry in evaluation["codes"]], line, color=colour, label=f"{how} codes"
        )
    if labelled:
        raw = evaluation["raw"]
        axes.axhline(raw["accuracy"], color=_RED, linestyle=":", label=f"raw vectors ({raw['bytes']:,} bytes)")
    axes.set_xscale("log", base=2)
    axes.set_xticks(bits, [str(b) for b in bits])
    axes.minorticks_off()
    axes.set_xlabel("bits per code")
    axes.set_ylabel("accuracy" if labelled else "shared nearest neighbours")
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    axes.grid(axis="y", color="#dddddd")
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return _svg(figure, "Accuracy over the number of bits")


def confusion_plot(confusion: dict[str, Any]) -> str:
    """Plot how often images of a class (row) were predicted as each class (column), as shares of the row."""
    names, counts = confusion["classes"], np.array(confusion["matrix"], dtype=np.float64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = min(9.0, 2.2 + 0.34 * len(names))
    figure, axes = _figure(side, side)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if len(names) <= _MAX_NAMES:
        shown = [printable(name) for name in names]
        axes.set_xticks(range(len(names)), shown, rotation=90, parse_math=False)  # "$" is a part of the name
        axes.set_yticks(range(len(names)), shown, parse_math=False)
    if len(names) <= _MAX_COUNTS:
        for i, j in np.argwhere(counts > 0).tolist():
            colour = "white" if shares[i, j] > 0.5 else _INK
            axes.text(j, i, f"{counts[i, j]:.0f}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("class")
    return _svg(figure, "Confusion matrix")


def _figure(width: float, height: float) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("the report", "plots") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _svg(figure: Any, title: str) -> str:
    """Return the figure as an <svg> element with a label for screen readers. Equal figures give equal text."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": title, "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = buffer.getvalue()
    element = text[text.index("<svg") :]
    return element.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)


# Example searches: queries and their nearest images


class Example(NamedTuple):
    """One query, its nearest images and their distances."""

    query: "ImageRecord"
    matches: list["ImageRecord"]
    distances: list[float]

    @property
    def n_wrong(self) -> int:
        """Number of matches with another label than the query."""
        return sum(match.label != self.query.label for match in self.matches)


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
    for query, ids, distances in zip(queries, found.ids, found.distances):
        near = [(int(id), float(d)) for id, d in zip(ids, distances) if id >= 0 and id != query.id][:_N_NEAREST]
        examples.append(Example(query, [records[id] for id, _ in near], [d for _, d in near]))
    return examples


def gallery_html(project: "Project", examples: list[Example]) -> str:
    """Return one row per query with its nearest images; those of another class have a red frame."""
    rows = []
    for query, matches, distances in examples:
        near = "".join(
            _image(project, match, f"{distance:.2f}", "wrong" if match.label != query.label else "")
            for match, distance in zip(matches, distances)
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
