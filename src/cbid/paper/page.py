"""One experiment's part of the report: notes, tables and plots in the order in which they are put."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cbid.paper.base import Context

__all__ = ["Note", "Page", "Plot", "Table", "percent", "spread"]

_DOTS = 110  # an inch: sharp on a phone, and some tens of kilobytes a plot


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Table:
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Plot:
    """name: of its files, NAME.png and NAME.svg."""

    name: str
    caption: str


@dataclass
class Page:
    """Collects what an experiment shows.

    folder: where plots go. quick: whether sizes were reduced. photographs: whether to draw images of the data
    sets, which may be shown but not always be passed on.
    """

    experiment: str
    folder: Path
    context: Context
    quick: bool
    photographs: bool = True
    parts: list[Note | Table | Plot] = field(default_factory=list)
    _files: set[str] = field(default_factory=set)

    def note(self, text: str) -> None:
        self.parts.append(Note(text))

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.parts.append(Table(title, head, rows))

    def plot(self, figure: Any, name: str, caption: str, *, svg: bool = True, photographs: bool = False) -> None:
        """Save a matplotlib figure as PNG and SVG (or PNG alone), and put it on the page."""
        from PIL import Image  # matplotlib needs it itself

        if photographs and not self.photographs:
            self.note(f"{caption} Photographs are left out here; a run of your own draws them.")
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        full = f"{self.experiment}_{name}" if name else self.experiment
        figure.set_dpi(_DOTS)
        figure.canvas.draw()
        drawn = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
        # 256 colours are enough for plots and gray photographs, in a third of the bytes.
        drawn.quantize(256, dither=Image.Dither.NONE).save(self.folder / f"{full}.png", optimize=True)
        self._files.add(f"{full}.png")
        if svg:  # without a date: the same results give the same file
            figure.savefig(self.folder / f"{full}.svg", metadata={"Date": None})
            self._files.add(f"{full}.svg")
        self.parts.append(Plot(full, caption))

    def tidy(self) -> None:
        """Remove plots of this experiment that an earlier run left and this page does not have: a report to be passed
        on has no photographs beside it."""
        for path in (*self.folder.glob("*.png"), *self.folder.glob("*.svg")):
            own = path.stem == self.experiment or path.stem.startswith(f"{self.experiment}_")
            if own and path.name not in self._files:
                path.unlink()


def percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{100 * share:.1f}"


def spread(values: Any) -> str:
    """Mean and deviation of shares over repeats, in percent."""
    v = np.asarray(values, dtype=float)
    if not len(v):
        return "–"
    return percent(v.mean()) + (f" ± {100 * v.std(ddof=1):.1f}" if len(v) > 1 else "")
