"""Chapters of the report on what is not in the paper: unseen classes, few labels, several labels, trees.

They are made from the raw results of the scripts of that name in the project's ``benchmarks`` folder.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from cbid.paper.base import Context, Results, Row
from cbid.paper.report import COLOURS, Page, error_bars, mean_and_deviation, new_figure


def chapters(out: Path, folder: Path, context: Context) -> list[str]:
    """Return the chapters as HTML; a chapter whose raw results are missing says so."""
    parts = ["<h2>Beyond the paper</h2>"]
    for name, (title, text, show) in _CHAPTERS.items():
        source = folder / f"{name}.jsonl"
        link = os.path.relpath(source, out)
        page = Page(name, out / "plots", context, False, raw=link, command=f"python -m benchmarks.{name}")
        parts.append(f'<h3 id="{name}">{escape(title)}</h3><p>{escape(text)}</p>')
        if source.exists():
            show(Results([Row(json.loads(line), {}, 0.0) for line in source.read_text().splitlines()]), page)
            parts += page.parts
        else:
            parts.append(f"<p>Left out: {escape(str(source))} is missing.</p>")
    return parts


def _tested(results: Results) -> Results:
    """Return the lines measured on test data, not those that chose settings."""
    return Results([row for row in results if not row.settings.get("validation")])


def _table(
    page: Page, title: str, results: Results, metrics: Mapping[str, str], by: Sequence[str], name: Callable[..., str]
) -> None:
    """Add a table with a column for each metric, by its title, and a row for all values that ``by`` have together.

    ``name`` makes the name of a row from these values.
    """
    rows = []
    for *values, part in results.by(*by):
        found = ([row[metric] for row in part if row.settings.get(metric) is not None] for metric in metrics)
        rows.append([name(*values), *map(mean_and_deviation, found)])
    page.table(f"{title}, % (mean ± deviation)", ["", *metrics.values()], rows)


def _bars(page: Page, names: Sequence[str], values: dict[str, list[list[float]]], label: str, caption: str) -> None:
    """Add bars for each name: one for each series, with 95 % intervals over seeds."""
    figure, (ax,) = new_figure(width=max(6.0, 1.1 * len(names)), height=3.2)
    width = 0.8 / max(len(values), 1)
    for number, ((series, found), colour) in enumerate(zip(values.items(), COLOURS)):
        places, means, errors = error_bars(dict(enumerate(found)))
        x = [place + width * (number - (len(values) - 1) / 2) for place in places]
        ax.bar(x, means, width, yerr=errors, label=series, color=colour, capsize=2, error_kw={"linewidth": 0.8})
    ax.set_xticks(range(len(names)), names, fontsize=7)
    ax.set_ylabel(label)
    ax.set_ylim(0, 100)
    ax.grid(visible=False, axis="x")
    figure.legend(loc="outside lower center", ncols=2)
    page.plot(figure, "", f"{caption}; 95 % intervals.")


def _unseen(results: Results, page: Page) -> None:
    # Concatenated codes, and other weights of the same bits, are left out: docs/learner.md shows them.
    hidden = ("concatenation", " at ")
    tested = Results([row for row in _tested(results) if not any(text in row["method"] for text in hidden)])
    metrics = {
        "unseen_map": "unseen: mAP",
        "unseen_p10": "precision at 10",
        "seen_map": "seen: mAP",
        "seen_knn": "5-NN",
    }
    title = "Classes that were not learned, and those that were"
    _table(page, title, tested, metrics, ("set", "bits", "method"), "{0}, {2}, {1} bits".format)
    places = [(name, bits) for name, bits, _ in tested.by("set", "bits")]
    methods = [method for method in tested.distinct("method") if not method.startswith("linear")]
    values = {
        m: [[row["unseen_map"] for row in tested.where(set=s, bits=b, method=m)] for s, b in places] for m in methods
    }
    names = [f"{name}\n{bits} bits" for name, bits in places]
    _bars(page, names, values, "mAP, unseen classes, %", "Retrieval of classes that were not learned")


def _few(results: Results, page: Page) -> None:
    kinds = {
        "raw": "vectors, labelled images alone",
        "labelled": "C-BID of labelled images alone",
        "likeness": "C-BID, others for likeness",
        "spread": "C-BID, labels spread",
    }
    _table(page, "5-NN accuracy with few labels", results, kinds, ("set", "labels"), "{}, {} labels a class".format)
    groups = list(results.by("set", "labels"))
    values = {text: [[row[k] for row in of if k in row.settings] for *_, of in groups] for k, text in kinds.items()}
    _bars(page, [f"{s}\n{n} labels" for s, n, _ in groups], values, "accuracy, %", "Few labels a class")


def _kinds(results: Results, page: Page) -> None:
    skipped = {"part", "set", "seed", "validation", "method", "bits", "seconds"}
    for part, of in _tested(results).by("part"):
        metrics = dict.fromkeys(k for row in of for k in row.settings if k not in skipped)
        numbers = [k for k in metrics if all(isinstance(row.settings.get(k, 0.0), (int, float)) for row in of)]
        _table(page, _PARTS.get(part, part), of, dict(zip(numbers, numbers)), ("set", "method", "bits"), _coder_name)


def _coder_name(name: str, method: str, bits: int | None) -> str:
    return f"{name}, {method}" + (f", {bits} bits" if bits else "")


_PARTS = {"sets": "Several labels per sample", "tree": "Trees of labels", "trees": "Trees of labels"}
_CHAPTERS: dict[str, tuple[str, str, Any]] = {
    "unseen_classes": (
        "Classes that were not learned",
        "A part of the classes is kept from learning; its images are queries and database. “raw” are the vectors.",
        _unseen,
    ),
    "few_labels": ("Few labels", "Of each class a few training images have a label, the others none.", _few),
    "label_kinds": ("Several labels, and trees of labels", "The paper names both as future work.", _kinds),
}
