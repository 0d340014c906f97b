"""Pages of the report: notes, tables and plots, which an experiment adds, and how its figures look."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from cbid.evaluation import confidence_interval
from cbid.extras import missing_extra
from cbid.paper.base import Context
from cbid.report import html

# Distinguishable with colour-vision deficiencies (Okabe and Ito); C-BID comes first.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c", "#7a5195")

_DPI = 110  # sharp on a phone, and some tens of kilobytes for a plot
_PLOT_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "cbid",  # the same results give the same file
    "svg.fonttype": "none",
}


def plot_style() -> AbstractContextManager[Any]:
    """Return a context in which figures have the style of the report."""
    try:
        import matplotlib
    except ImportError as error:
        raise missing_extra("a plot", "plots") from error
    return matplotlib.rc_context(_PLOT_STYLE)


def new_figure(n_rows: int = 1, n_columns: int = 1, *, width: float = 3.6, height: float = 3.0) -> tuple[Any, Any]:
    """Return a figure without a window, and its axes as a flat array. Width and height of one panel are in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(n_rows, n_columns, squeeze=False).ravel()


@dataclass
class Page:
    """The part of the report that one experiment fills, in the order in which it adds notes, tables and plots."""

    experiment: str
    folder: Path  # of the plots
    context: Context
    quick: bool  # reduced sizes
    photographs: bool = True  # draw images of the data sets, which must not always be redistributed
    parts: list[str] = field(default_factory=list)  # HTML
    tables: list[dict[str, Any]] = field(default_factory=list)  # the same tables for programs
    files: set[str] = field(default_factory=set)  # names of the plots
    raw: str = ""  # link to the raw lines and the command that makes them, if not those of the experiment
    command: str = ""

    @property
    def trace(self) -> str:
        """HTML that links the raw lines behind this page and names the command that made them."""
        link = self.raw or f"raw/{self.experiment}.jsonl"
        if not self.raw and not (self.folder.parent / link).exists() and (self.folder.parent / f"{link}.gz").exists():
            link += ".gz"
        command = self.command or f"cbid reproduce {self.experiment}{' --quick' if self.quick else ''}"
        return f'<span class="trace"><a href="{escape(link)}">raw lines</a>, <code>{escape(command)}</code></span>'

    def note(self, text: str) -> None:
        """Add a paragraph."""
        self.parts.append(f"<p>{escape(text)}</p>")

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table."""
        self.parts.append(f"<h3>{escape(title)}</h3>{html.table(head, rows)}{self.trace}")
        self.tables.append({"title": title, "head": list(head), "rows": [list(row) for row in rows]})

    def plot(self, figure: Any, name: str, caption: str, *, svg: bool = True, photographs: bool = False) -> None:
        """Save a matplotlib figure as PNG and, unless ``svg`` is False, as SVG, and add it."""
        from PIL import Image  # matplotlib depends on it

        if photographs and not self.photographs:
            self.note(f"{caption} Photographs are left out of this report; your own run draws them.")
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        full = f"{self.experiment}_{name}" if name else self.experiment
        files = [f"{full}.png", f"{full}.svg"] if svg else [f"{full}.png"]
        figure.set_dpi(_DPI)
        figure.canvas.draw()
        drawn = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
        # 256 colours are enough for plots and gray photographs, and take a third of the bytes.
        drawn.quantize(256, dither=Image.Dither.NONE).save(self.folder / files[0], optimize=True)
        if svg:  # without a date: the same results give the same file
            figure.savefig(self.folder / files[1], metadata={"Date": None})
        self.files.update(files)
        image = html.embedded_image((self.folder / files[0]).read_bytes(), caption)
        links = ", ".join(f'<a href="plots/{file}">{file[-3:].upper()}</a>' for file in files)
        self.parts.append(
            f"<figure>{image}<figcaption>{escape(caption)} ({links}) {self.trace}</figcaption></figure>"
        )

    def remove_old_plots(self) -> None:
        """Remove plots of this experiment that an earlier run left and this page does not have.

        The folder of a report without photographs must not hold photographs.
        """
        for path in (*self.folder.glob("*.png"), *self.folder.glob("*.svg")):
            own = path.stem == self.experiment or path.stem.startswith(f"{self.experiment}_")
            if own and path.name not in self.files:
                path.unlink()


def percent(share: float) -> str:
    """Return a share in percent, or a dash for NaN."""
    return "–" if np.isnan(share) else f"{100 * share:.1f}"


def mean_and_deviation(values: Any) -> str:
    """Return mean and standard deviation of shares over the repeats, in percent."""
    v = np.asarray(values, dtype=float)
    if not len(v):
        return "–"
    return percent(v.mean()) + (f" ± {100 * v.std(ddof=1):.1f}" if len(v) > 1 else "")


def error_bars(values: Mapping[Any, Any]) -> tuple[list[Any], list[float], list[float]]:
    """Return the keys that have values, their means, and half of their 95 % intervals, in percent.

    One value has an interval of 0.
    """
    found = {key: confidence_interval(v) for key, v in values.items() if len(v)}
    halves = [100 * float(np.nan_to_num(i.high - i.mean)) for i in found.values()]
    return list(found), [100 * i.mean for i in found.values()], halves
