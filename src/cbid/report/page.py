"""The page of a report."""

import html
import importlib.metadata
import os
import platform
from typing import Any

import cbid
from cbid.data.names import printable
from cbid.project import Project
from cbid.report.gallery import gallery, gallery_html
from cbid.report.plots import accuracy_plot, confusion_plot
from cbid.storage.files import whole_file

__all__ = ["write_report"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "faiss-cpu", "numba", "pillow", "opencv-python-headless")

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; }
h1 { font-size: 1.6rem; line-height: 1.2; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin-top: 2rem; }
p { max-width: 45rem; }
svg { max-width: 100%; height: auto; }
.scroll { overflow-x: auto; } .scroll svg { max-width: none; }
table { border-collapse: collapse; } th, td { padding: .25rem .75rem .25rem 0; text-align: right; }
th { border-bottom: 1px solid #767676; font-weight: 600; } th:first-child, td:first-child { text-align: left; }
td { border-bottom: 1px solid #e5e5e5; }
.settings td { text-align: left; vertical-align: top; overflow-wrap: anywhere; }
.settings td:first-child { white-space: nowrap; }
.row { display: flex; gap: .75rem; border-top: 1px solid #e5e5e5; padding: .75rem 0; }
.near { flex: 1; min-width: 0; display: grid; gap: .5rem; }
.near { grid-template-columns: repeat(10, minmax(0, 1fr)); }
figure { margin: 0; font-size: .75rem; line-height: 1.25; overflow-wrap: anywhere; }
figure img, figure .name { display: block; width: 100%; aspect-ratio: 1; object-fit: contain; background: #f2f2f2; }
figure img, figure .name { box-sizing: border-box; border: 3px solid transparent; border-radius: 4px; }
figure.query { flex: 0 0 5.5rem; } figure.query img { border-color: #1f5fa8; }
figure.wrong img, figure.wrong .name { border-color: #b3261e; } .mark { color: #b3261e; }
@media (max-width: 48rem) {
  .row { flex-direction: column; } figure.query { flex: none; width: 5.5rem; }
  .near { grid-template-columns: repeat(5, minmax(0, 1fr)); }
  table { font-size: .85rem; } th, td { padding-right: .4rem; } td:first-child { white-space: nowrap; }
}
"""


def write_report(project: Project, path: str | os.PathLike[str], *, queries: int = 12) -> None:
    """Write the report of a project to an HTML file that refers to nothing outside it."""
    text = _page(project, queries)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def _page(project: Project, queries: int) -> str:
    name = html.escape(printable(project.path.name))
    measured = project.evaluation
    sections = [
        f"<h1>{name}</h1>",
        f"<p>{html.escape(_summary(project))}</p>",
        _measured(measured),
        _confusion(project),
        _gallery(project, queries),
        _settings(project),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}: report</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + "\n</main>\n</body>\n</html>\n"
    )


def _summary(project: Project) -> str:
    images = project.last_fit["images"]
    n = len(project)
    raw, code = 4 * project.n_features, (project.n_bits + 7) // 8
    text = f"{n:,} images"
    if project.classes:
        text += f" of {len(project.classes)} classes"
    text += (
        f". Codes of {project.n_bits} bits were learned from {images['train']:,} of them; {images['held-out']:,} "
        f"were held out to measure on. A code takes {code:,} bytes where the raw vector takes {raw:,}: "
        f"{_size(n * code)} instead of {_size(n * raw)} for all."
    )
    return text


def _measured(measured: dict[str, Any]) -> str:
    if not measured["n_queries"]:
        return "<h2>Accuracy</h2><p>No images were held out: nothing was measured.</p>"
    labelled = measured["raw"]["accuracy"] is not None
    queries, stored = f"{measured['n_queries']:,}", f"{measured['n_stored']:,}"
    if labelled:
        told = (
            f"{queries} held-out images were classified by the vote of the {measured['k']} nearest among the "
            f"{stored} that were learned from. Weighted: each bit counts with its learned weight. Plain: bits that "
            "differ are counted. Shorter codes are prefixes of the long one. mAP: mean average precision of the "
            "whole ranking."
        )
        head = ["", "bytes", "weighted", "plain", "mAP", "ms a query"]
        raw = measured["raw"]
        rows = [
            [
                "raw vectors",
                f"{raw['bytes']:,}",
                _percent(raw["accuracy"]),
                "",
                _three(raw["map"]),
                _three(raw["milliseconds"]),
            ]
        ]
    else:
        told = (
            f"The images have no labels. For {queries} held-out images: the share of the ten nearest by raw vectors, "
            f"among {stored}, that are among the ten nearest by code."
        )
        head = ["", "bytes", "weighted", "plain", "ms a query"]
        raw = measured["raw"]
        rows = [["raw vectors", f"{raw['bytes']:,}", "100.0%", "", _three(raw["milliseconds"])]]
    for entry in measured["codes"]:
        weighted, plain = entry["weighted"], entry["plain"]
        measure = "accuracy" if labelled else "overlap"
        row = [
            f"{entry['n_bits']} bits",
            f"{entry['bytes']:,}",
            _percent(weighted[measure]),
            _percent(plain[measure]),
        ]
        rows.append([*row, *([_three(weighted["map"])] if labelled else []), _three(weighted["milliseconds"])])
    return f"<h2>Accuracy</h2><p>{told}</p>{accuracy_plot(measured)}{_table(head, rows)}"


def _confusion(project: Project) -> str:
    confusion = project.confusion
    if len(confusion["classes"]) < 2:
        return ""
    told = f"Held-out images by their class (row) and by the class that {project.n_bits} bits gave them (column)."
    plot = confusion_plot(confusion)
    return f'<h2>Which classes are taken for which</h2><p>{told}</p><div class="scroll" tabindex="0">{plot}</div>'


def _gallery(project: Project, queries: int) -> str:
    shown = gallery(project, queries)
    labelled = bool(project.classes)
    told = f"Held-out images and the ten nearest by {project.n_bits} weighted bits, with their distances."
    if labelled:
        told += (
            " Those of another class than the query are framed in red. The queries at the end are those with most "
            "wrong answers; the others were drawn at random."
        )
    return f"<h2>Searches</h2><p>{told}</p>{gallery_html(project, shown)}"


def _settings(project: Project) -> str:
    settings, last = project.settings, project.last_fit
    descriptor, coder = settings["descriptor"], settings["coder"]
    rows = [
        ["source", printable(settings["source"]) or "given in memory"],
        ["descriptor", "none: vectors" if descriptor is None else _call(descriptor["kind"], descriptor["params"])],
        ["coder", _call(coder["kind"], {k: v for k, v in coder.items() if k != "kind"})],
        ["held out", f"{settings['held_out']:.0%} of each class, seed {settings['seed']}"],
        ["fitted", f"{last['ended']} by cbid {last['cbid']}"],
        ["seconds", ", ".join(f"{name} {value:.1f}" for name, value in last["seconds"].items())],
        ["left out", f"{last['n_failures']:,}" + "".join(f"; {n}: {r}" for n, r in last["failures"][:5])],
        ["this report", f"cbid {cbid.__version__}, Python {platform.python_version()}, {_versions()}"],
    ]
    return f'<h2>Settings</h2><div class="settings">{_table(["", ""], rows)}</div>'


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


def _table(head: list[str], rows: list[list[str]]) -> str:
    cells = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    first = f"<thead><tr>{cells}</tr></thead>" if any(head) else ""
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll" tabindex="0"><table>{first}<tbody>{body}</tbody></table></div>'


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _three(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _size(n: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if n < 1000 or unit == "GB":
            return f"{n:,.0f} {unit}" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1000
    raise AssertionError
