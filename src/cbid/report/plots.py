"""Plots of a report as SVG elements."""

import io
from typing import Any

import numpy as np

__all__ = ["accuracy_plot", "confusion_plot"]

_MAX_NAMES, _MAX_COUNTS = 40, 30  # classes up to which names and counts are readable in a matrix
_INK, _RED, _BLUE, _GREY = "#1a1a1a", "#b3261e", "#1f5fa8", "#767676"


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
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
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
        raise ImportError("the report needs the extra 'plots': pip install 'cbid[plots]'") from error
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
