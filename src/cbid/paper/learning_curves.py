"""Learning curves: objective, duality gap, distinct bits and training time over the number of bits.

The paper has no such figure; it shows how its column generation converges.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cbid import CBID
from cbid.paper.base import CLASS_BITS, Cell, Context, Experiment, Results, Settings
from cbid.paper.coding import CODERS, LINEAR, Method, load_vectors
from cbid.paper.over_bits import first_repeat
from cbid.paper.report import COLOURS, Page, new_figure
from cbid.paper.sets import CATALOGUE

L1 = LINEAR | {"penalty": "l1", "nu": 1e-5}
METHODS = {
    "C-BID": replace(CODERS["C-BID"], text="the defaults: logistic loss, l-infinity penalty"),
    "C-BID, RBF": CODERS["C-BID, RBF"],
    "C-BID, l1": Method("l1 penalty, nu = 1e-5; learning may end before all bits are used", CBID, L1),
}
SETS = ("digits", "scene15")
N_BITS, QUICK_BITS = 256, 32


def run(cells: list[Settings], context: Context) -> Iterator[Cell]:
    """Fit each method once, with a clock."""
    for settings in cells:
        vectors = load_vectors(settings, context)
        seconds: list[float] = []
        started = time.process_time()

        def note(coder: Any, seconds: list[float] = seconds, started: float = started) -> None:
            seconds.append(time.process_time() - started)

        method, bits, seed = METHODS[settings["method"]], settings["bits"], settings["repeat"]
        coder = method.fit(vectors.X, vectors.y, bits, seed, callback=note)
        result = {"objective": coder.objective_, "gap": coder.gap_, "seconds": np.round(seconds, 4)}
        result["distinct"] = distinct_bits(coder.transform(vectors.X))
        yield settings, result | {"samples": len(vectors.X), "axes": vectors.X.shape[1]}


def distinct_bits(bits: Any) -> list[int]:
    """Count the distinct columns of -1/+1 among the first 1, 2, ...; opposite columns count as one."""
    signed = bits * bits[:1]  # a column and its opposite become equal
    seen: set[bytes] = set()
    counts = []
    for column in np.packbits(signed.T > 0, axis=1):
        seen.add(column.tobytes())
        counts.append(len(seen))
    return counts


def show(results: Results, page: Page) -> None:
    """Add the curves, and a table of their last values."""
    figure, axes = new_figure(len(results.distinct("set")), 4, width=2.7, height=2.5)
    rows = []
    for place, (name, part) in enumerate(results.by("set")):
        panels = axes[4 * place : 4 * place + 4]
        for row, colour in zip(part, COLOURS):
            bits = np.arange(1, len(row["objective"]) + 1)
            drawn = (row["objective"], np.maximum(row["gap"], 1e-12), row["distinct"], row["seconds"])
            for ax, values in zip(panels, drawn):
                ax.plot(bits, values[: len(bits)], color=colour, label=row["method"], linewidth=1.2)
            objective, gap, distinct, seconds = (row[key][-1] for key in ("objective", "gap", "distinct", "seconds"))
            end = [f"{objective:.4f}", f"{gap:.1e}", str(distinct), f"{seconds:.1f}"]
            rows.append([f"{CATALOGUE[name].title}, {row['method']}", str(len(bits)), *end])
        for ax, title in zip(panels, ("objective", "duality gap", "distinct bits", "training time, s")):
            ax.set_title(f"{CATALOGUE[name].title}: {title}", fontsize=8)
            ax.set_xlabel("bits")
        for ax in panels[:2]:
            ax.set_yscale("log")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    page.plot(figure, "", "Objective, duality gap, distinct bits and processor time over the number of bits.")
    head = ["", "bits learned", "objective", "duality gap", "distinct bits", "seconds"]
    page.table("At the end of learning", head, rows)


EXPERIMENT = Experiment(
    name="learning",
    title="Learning curves",
    shows="How the column generation of the paper converges; the paper has no such figure.",
    sets=SETS,
    protocol="One fit on the training images of the first repeat. The objective is the mean loss plus the penalty, "
    "so forms with different penalties differ in scale. Two bits count as one if they divide the training samples "
    "in the same way. Processor time in one thread.",
    methods={name: method.text for name, method in METHODS.items()},
    cells=partial(first_repeat, SETS, tuple(METHODS), N_BITS, QUICK_BITS),
    run=run,
    scope=CLASS_BITS,
    show=show,
    together=("set", "method"),
    cost=(30.0, 2.0),
)
