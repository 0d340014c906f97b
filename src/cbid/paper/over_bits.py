"""Accuracy over the length of codes: cells, run and plots that ``windows`` and ``classifiers`` share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbid.evaluation import METRICS
from cbid.paper.base import Cell, Context, Results, Settings
from cbid.paper.coding import CODERS, META, Classify, code_lengths, load_vectors
from cbid.paper.report import COLOURS, Page, error_bars, mean_and_deviation, new_figure
from cbid.paper.sets import CATALOGUE

ORIGINAL = "original features"
TOGETHER = ("set", "features", "repeat", "method")


@dataclass(frozen=True)
class Draw:
    """How an experiment uses a set: features, split (see ``coding.parts_of``) and number of repeats."""

    features: str
    protocol: Any
    repeats: int
    part: str = "test"
    axes: str | None = None
    classes: int | None = None
    most_train: int | None = None
    most_test: int | None = None

    def settings(self) -> Settings:
        """Return the settings of a cell that this draw fixes."""
        fixed = {name: value for name, value in vars(self).items() if name != "repeats"}
        return {name: value for name, value in fixed.items() if value is not None or name == "axes"}


EMBEDDINGS = "EfficientNet-Lite0 embeddings"

# How each set is used in a full and in a quick run. To add a set, add a line.
FULL = {
    "digits": [Draw("raw pixels", "held-out", 5, axes="pca")],
    "scene15": [Draw(EMBEDDINGS, "paper", 5, axes="pca"), Draw(META, "paper", 5, axes="pca")],
    "caltech101": [Draw(f, "paper", 5, axes="pca") for f in ("GIST", EMBEDDINGS, META)],
    "graz02": [Draw("GIST", "paper", 5, axes="pca")],
    "sports8": [Draw("GIST", "paper", 5, axes="pca")],
}
QUICK = {
    "digits": [Draw("raw pixels", "held-out", 2, axes="pca", most_train=40, most_test=30)],
    "scene15": [Draw(EMBEDDINGS, [30, 5, 30], 2, axes="pca"), Draw(META, [20, 5, 20], 1, axes="pca")],
    "caltech101": [Draw(f, [10, 5, 5], 1, axes="pca", classes=10) for f in ("GIST", EMBEDDINGS)],
    "graz02": [Draw("GIST", [20, 5, 10], 1, axes="pca")],
    "sports8": [Draw("GIST", [20, 5, 10], 1, axes="pca")],
}


def cells_of(
    draws: Mapping[str, Sequence[Draw]],
    present: Sequence[str],
    methods: Sequence[str],
    lengths: Sequence[int],
    own_lengths: Mapping[str, Sequence[int]] | None = None,
) -> list[Settings]:
    """Return cells for every method at every length and for the original features, for every repeat of every draw.

    Methods in ``own_lengths`` have lengths of their own.
    """
    of_method = dict.fromkeys(methods, lengths) | dict(own_lengths or {})
    coded = [(ORIGINAL, None), *((m, bits) for m, own in of_method.items() for bits in own)]
    return [
        {"set": name, **draw.settings(), "repeat": repeat, "method": m, "bits": bits}
        for name in present
        for draw in draws.get(name, ())
        for repeat in range(draw.repeats)
        for m, bits in coded
    ]


def first_repeat(
    sets: Sequence[str], methods: Sequence[str], bits: int, quick_bits: int, present: Sequence[str], quick: bool
) -> list[Settings]:
    """Return cells for every method at one length, on the first repeat of each set."""
    draws = QUICK if quick else FULL
    return [
        {"set": name, **draws[name][0].settings(), "repeat": 0, "method": m, "bits": quick_bits if quick else bits}
        for name in sets
        if name in present
        for m in methods
    ]


def run_cells(cells: list[Settings], context: Context, classify: Classify) -> Iterator[Cell]:
    """Run the cells of one set, repeat and method.

    ``classify`` returns the classes of the test vectors, from the bits of a coder or, with None, from the vectors.
    Cells that differ only in the test part have the same training vectors, and share the coder.
    """
    vectors = {settings["part"]: load_vectors(settings, context) for settings in cells}
    learned_from = vectors[cells[0]["part"]]
    if cells[0]["method"] == ORIGINAL:
        size = {"bytes": 4 * learned_from.X.shape[1]}
        for settings in cells:
            tested = vectors[settings["part"]]
            yield settings, {"truth": tested.yt, "predicted": classify(tested, None), **size}
        return
    lengths = sorted({settings["bits"] for settings in cells})
    for length, coder in code_lengths(cells[0]["method"], learned_from, lengths, cells[0]["repeat"], classify):
        for settings in (c for c in cells if c["bits"] == length):
            if isinstance(coder, str):
                yield settings, {"absent": coder}
                continue
            tested = vectors[settings["part"]]
            size = {"n_bits": coder.n_bits_, "bytes": -(-coder.n_bits_ // 8)}
            if grid := CODERS[settings["method"]].grid:
                size[grid[0]] = coder.get_params()[grid[0]]
            yield settings, {"truth": tested.yt, "predicted": classify(tested, coder), **size}


def show_over_bits(results: Results, page: Page, metric: str, *, lines: Sequence[str] = ()) -> None:
    """Add one plot with a panel for each set, features and test part, and the same figures as tables.

    ``lines`` names further methods without a code length; like the original features they are horizontal lines.
    """
    panels = _panels(results)
    columns = min(2, len(panels))
    figure, axes = new_figure(-(-len(panels) // columns), columns, width=4.4, height=3.4)
    methods = [m for m in results.distinct("method") if m != ORIGINAL and m not in lines]
    for ax, (title, part) in zip(axes, panels.items()):
        for method, colour in zip(methods, COLOURS):
            _draw_method(ax, part.where(method=method), method, colour, metric)
        for method, style in zip((ORIGINAL, *lines), ("--", ":", "-.", (0, (5, 1)), (0, (1, 1)))):
            values = part.measured(metric, method=method)
            if len(values):
                ax.axhline(100 * values.mean(), color="#444444", linestyle=style, linewidth=1, label=method)
        _fit_to_means(ax, part, metric)
        ax.set_xscale("log", base=2)
        lengths = part.lengths()
        ax.set_xticks(lengths, [str(b) for b in lengths])
        ax.set_xlabel("bits")
        ax.set_ylabel(f"{METRICS[metric].title}, %")
        ax.set_title(title, fontsize=9)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    handles = {label: h for ax in axes for h, label in zip(*ax.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns + 1)
    page.plot(figure, "", f"{METRICS[metric].title} over bits; bars are 95 % confidence intervals over repeats.")
    for title, part in panels.items():
        head, rows = table_by_length(part, metric, [m for m in part.distinct("method") if m in methods])
        for method in (ORIGINAL, *lines):
            values = part.measured(metric, method=method)
            if len(values):
                size = part.where(method=method).rows[0].result.get("bytes")
                rows.append([f"{method} ({size:,} bytes)", mean_and_deviation(values), *[""] * (len(head) - 2)])
        page.table(f"{title}: {METRICS[metric].title}, % (mean ± deviation of repeats)", head, rows)


def table_by_length(part: Results, metric: str, methods: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of a table with a row for each method and a column for each length."""
    lengths = part.lengths()
    rows = [[m, *(_cell(part, metric, m, bits) for bits in lengths)] for m in methods]
    return ["", *(f"{bits} bits" for bits in lengths)], rows


def _panels(results: Results) -> dict[str, Results]:
    """Return the results of each panel by its title."""
    found: dict[str, Results] = {}
    for name, features, part, rows in results.by("set", "features", "part"):
        title = f"{CATALOGUE[name].title}, {features}{', held out' if part == 'validation' else ''}"
        found.setdefault(title, rows)
    return found


def _fit_to_means(ax: Any, part: Results, metric: str) -> None:
    """Set limits that show all means; intervals over two or three repeats may be far wider."""
    found = [part.measured(metric, method=m, bits=b) for m in part.distinct("method") for b in part.distinct("bits")]
    means = [100 * values.mean() for values in found if len(values)]
    margin = 0.08 * (max(means) - min(means)) + 0.5
    ax.set_ylim(min(means) - margin, max(means) + margin)


def _draw_method(ax: Any, part: Results, method: str, colour: str, metric: str) -> None:
    by_length: dict[float, Any] = {}
    for bits in part.distinct("bits"):
        n_bits = [row["n_bits"] for row in part.where(bits=bits) if "n_bits" in row.result]
        if n_bits:
            by_length[float(np.mean(n_bits))] = part.measured(metric, bits=bits)  # a method with one length: once
    x, y, error = error_bars(by_length)
    if x:
        width = 2.0 if method.startswith("C-BID") else 1.2
        ax.errorbar(
            x, y, yerr=error, label=method, color=colour, marker="o", markersize=3, linewidth=width, capsize=2
        )


def _cell(part: Results, metric: str, method: str, bits: int) -> str:
    rows = part.where(method=method, bits=bits)
    values = rows.measured(metric)
    if not len(values):
        return "–"
    n_bits = next(row["n_bits"] for row in rows if "n_bits" in row.result)
    return mean_and_deviation(values) + ("" if n_bits == bits else f" ({n_bits} bits)")
