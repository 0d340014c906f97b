"""matplotlib without a screen, in one style."""

from contextlib import AbstractContextManager
from typing import Any

__all__ = ["COLOURS", "in_style", "new_figure"]

# Told apart by people who see few colours as well (Okabe and Ito), C-BID first.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c", "#7a5195")

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


def in_style() -> AbstractContextManager[Any]:
    """Figures that are made and saved within look alike; afterwards matplotlib is as the user has set it."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("plots need the extra 'plots': pip install 'cbid[plots]'") from error
    return matplotlib.rc_context(_STYLE)


def new_figure(n_rows: int = 1, n_columns: int = 1, *, width: float = 3.6, height: float = 3.0) -> tuple[Any, Any]:
    """A figure and its axes as a flat array; width and height in inches are those of one panel."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    FigureCanvasAgg(figure)  # no window
    return figure, figure.subplots(n_rows, n_columns, squeeze=False).ravel()
