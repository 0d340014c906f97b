"""The part of the report that one experiment fills: notes, tables and plots, in the order in which it adds them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cbid.paper.base import Context

__all__ = ["COLOURS", "Note", "Page", "Plot", "Table", "mean_and_deviation", "new_figure", "percent", "plot_style"]

# Distinguishable with colour-vision deficiencies (Okabe and Ito); C-BID comes first.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c", "#7a5195")

_DPI = 110  # sharp on a phone, and some tens of kilobytes for a plot
_STYLE: dict[Any, Any] = {
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
        raise ImportError("plots need the extra 'plots': pip install 'cbid[plots]'") from error
    return matplotlib.rc_context(_STYLE)


def new_figure(n_rows: int = 1, n_columns: int = 1, *, width: float = 3.6, height: float = 3.0) -> tuple[Any, Any]:
    """Return a figure without a window, and its axes as a flat array. Width and height of one panel are in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(n_rows, n_columns, squeeze=False).ravel()


@dataclass(frozen=True)
class Note:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table of texts."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Plot:
    """A plot that is stored as NAME.png and, in most cases, as NAME.svg."""

    name: str
    caption: str


@dataclass
class Page:
    """Collects what an experiment shows.

    Parameters
    ----------
    folder : Path
        The folder of the plots.
    quick : bool
        Whether the sizes are reduced.
    photographs : bool
        Whether to draw images of the data sets, which must not always be redistributed.
    """

    experiment: str
    folder: Path
    context: Context
    quick: bool
    photographs: bool = True
    parts: list[Note | Table | Plot] = field(default_factory=list)
    _files: set[str] = field(default_factory=set)

    def note(self, text: str) -> None:
        """Add a paragraph."""
        self.parts.append(Note(text))

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table."""
        self.parts.append(Table(title, head, rows))

    def plot(self, figure: Any, name: str, caption: str, *, svg: bool = True, photographs: bool = False) -> None:
        """Save a matplotlib figure as PNG and, unless ``svg`` is False, as SVG, and add it."""
        from PIL import Image  # matplotlib depends on it

        if photographs and not self.photographs:
            self.note(f"{caption} Photographs are left out of this report; your own run draws them.")
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        full = f"{self.experiment}_{name}" if name else self.experiment
        figure.set_dpi(_DPI)
        figure.canvas.draw()
        drawn = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
        # 256 colours are enough for plots and gray photographs, and take a third of the bytes.
        drawn.quantize(256, dither=Image.Dither.NONE).save(self.folder / f"{full}.png", optimize=True)
        self._files.add(f"{full}.png")
        if svg:  # without a date: the same results give the same file
            figure.savefig(self.folder / f"{full}.svg", metadata={"Date": None})
            self._files.add(f"{full}.svg")
        self.parts.append(Plot(full, caption))

    def remove_old_plots(self) -> None:
        """Remove plots of this experiment that an earlier run left and this page does not have.

        A report without photographs must not have photographs beside it.
        """
        for path in (*self.folder.glob("*.png"), *self.folder.glob("*.svg")):
            own = path.stem == self.experiment or path.stem.startswith(f"{self.experiment}_")
            if own and path.name not in self._files:
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
