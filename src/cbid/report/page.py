"""The report of a project: accuracy, confusion matrix, example searches and settings on one page."""

import importlib.metadata
import os
import platform
from html import escape
from typing import TYPE_CHECKING, Any

import cbid
from cbid.data.names import printable
from cbid.report.gallery import choose_examples, gallery_html
from cbid.report.html import page, table
from cbid.report.plots import accuracy_plot, confusion_plot
from cbid.storage.atomic import whole_file

if TYPE_CHECKING:
    from cbid.project import Project

__all__ = ["write_report"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "faiss-cpu", "numba", "pillow", "opencv-python-headless")

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
    descriptor, coder = settings["descriptor"], settings["coder"]
    rows = [
        ["source", printable(settings["source"]) or "in memory"],
        ["descriptor", "none: vectors" if descriptor is None else _call(descriptor["kind"], descriptor["params"])],
        ["coder", _call(coder["kind"], {k: v for k, v in coder.items() if k != "kind"})],
        ["held out", f"{settings['held_out']:.0%} of each class, seed {settings['seed']}"],
        ["fitted", f"{last['ended']} by cbid {last['cbid']}"],
        ["seconds", ", ".join(f"{name} {value:.1f}" for name, value in last["seconds"].items())],
        ["skipped", f"{last['n_failures']:,}" + "".join(f"; {n}: {r}" for n, r in last["failures"][:5])],
        ["this report", f"cbid {cbid.__version__}, Python {platform.python_version()}, {_versions()}"],
    ]
    return f"<h2>Settings</h2>{table(['', ''], rows, text=True)}"


def _call(kind: str, params: dict[str, Any]) -> str:
    return f"{kind}({', '.join(f'{name}={value!r}' for name, value in params.items())})"


def _versions() -> str:
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that is not installed
    return ", ".join(found)


def _size(n: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if n < 1000 or unit == "GB":
            return f"{n:,.0f} {unit}" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1000
    raise AssertionError
