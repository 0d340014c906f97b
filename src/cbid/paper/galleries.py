"""Retrieval galleries: the ten nearest images to a query by each method, errors framed in red."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cbid.paper.base import Cell, Context, Experiment, Results, Row, Settings
from cbid.paper.coding import CODERS, code_lengths
from cbid.paper.drawing import new_figure
from cbid.paper.over_bits import Draw
from cbid.paper.page import Page, percent
from cbid.paper.sets import CATALOGUE, DataAbsent
from cbid.paper.vectors import load_vectors
from cbid.search import CodeIndex

METHODS = (
    "C-BID",
    "anchor graphs",
    "Laplacian co-hashing",
    "LSI",
    "spectral hashing",
    "spherical hashing",
    "self-taught hashing",
)
SHOWN, N_BITS, QUERIES = 10, 64, 2
FULL = {
    "graz02": Draw("GIST", "paper", 1, axes="pca"),
    "sports8": Draw("GIST", "paper", 1, axes="pca"),
    "scene15": Draw("EfficientNet-Lite0 embeddings", "paper", 1, axes="pca"),
    "digits": Draw("raw pixels", "held-out", 1, axes="pca"),
}
QUICK = {
    "graz02": Draw("GIST", [20, 10], 1, axes="pca"),
    "sports8": Draw("GIST", [20, 10], 1, axes="pca"),
    "scene15": Draw("EfficientNet-Lite0 embeddings", [30, 10], 1, axes="pca"),
    "digits": Draw("raw pixels", "held-out", 1, axes="pca", most_train=40, most_test=10),
}


def cells(present: Sequence[str], quick: bool) -> list[Settings]:
    return [
        {"set": name, **draw.settings(), "repeat": 0, "method": method, "bits": 32 if quick else N_BITS}
        for name, draw in (QUICK if quick else FULL).items()
        if name in present
        for method in METHODS
    ]


def run(cells: list[Settings], context: Context) -> Iterator[Cell]:
    """The nearest of every test image are kept, so that others than those drawn can be looked at."""
    for settings in cells:
        vectors = load_vectors(settings, context)
        ((_, coder),) = code_lengths(settings["method"], vectors, [settings["bits"]], settings["repeat"])
        if isinstance(coder, str):
            yield settings, {"absent": coder}
            continue
        index = CodeIndex(coder.n_bits_, getattr(coder, "weights_", None), n_threads=1)
        index.add(coder.encode(vectors.X), ids=vectors.train_rows)
        found = index.search(coder.encode(vectors.Xt), k=SHOWN)
        yield settings, {"queries": vectors.test_rows, "ids": found.ids}


def show(results: Results, page: Page) -> None:
    for name in results.distinct("set"):
        part = Results([row for row in results.where(set=name) if "absent" not in row.result])
        try:
            data = page.context.open(name)
        except DataAbsent:
            page.note(f"{CATALOGUE[name].title} is not here any more, so its galleries are not drawn.")
            continue
        assert data.labels is not None
        for number, place in enumerate(_chosen(part.rows[0], data.labels)):
            _gallery(part, data, place, page, f"{name}_{number}")
        rows = [
            [row["method"], percent(float(np.mean(_right(row, data.labels))))] for row in part
        ]  # over all queries, so that two drawn ones do not mislead
        title = f"{CATALOGUE[name].title}: share of the ten nearest that show the query’s class, all queries, %"
        page.table(title, ["", f"{part.rows[0]['bits']} bits"], rows)


def _right(row: Row, labels: Any) -> Any:
    return labels[np.array(row["ids"])] == labels[np.array(row["queries"])][:, None]


def _chosen(row: Row, labels: Any) -> list[int]:
    """Places of the queries that are drawn: the first of two classes, not those that come out best."""
    classes = labels[np.array(row["queries"])]
    kinds = np.unique(classes)
    return [
        int(np.flatnonzero(classes == kinds[(2 * i + 1) * len(kinds) // (2 * QUERIES)])[0]) for i in range(QUERIES)
    ]


def _gallery(part: Results, data: Any, place: int, page: Page, name: str) -> None:
    figure, axes = new_figure(len(part), SHOWN + 1, width=0.75, height=0.8)
    grid = axes.reshape(len(part), SHOWN + 1)
    query = int(part.rows[0]["queries"][place])
    for ax in axes:
        ax.set_xticks([])
        ax.set_yticks([])
        ax.grid(visible=False)
        for side in ax.spines.values():
            side.set_visible(False)
    for line, row in zip(grid, part):
        line[0].set_ylabel(row["method"].replace(" ", "\n", 1), fontsize=6, rotation=0, ha="right", va="center")
        for ax, image in zip(line[1:], row["ids"][place]):
            ax.imshow(_thumbnail(data.images[image]), cmap="gray", aspect="auto")
            if data.labels[image] != data.labels[query]:
                for side in ax.spines.values():
                    side.set(visible=True, color="red", linewidth=2.5)
    grid[0][0].imshow(_thumbnail(data.images[query]), cmap="gray", aspect="auto")
    grid[0][0].set_title("query", fontsize=6)
    kind = data.label_name(data.labels[query])
    caption = f"{CATALOGUE[part.rows[0]['set']].title}: the ten nearest to a query of class {kind}; errors in red."
    page.plot(figure, name, caption, svg=False, photographs=part.rows[0]["set"] != "digits")


def _thumbnail(image: Any) -> Any:
    """At most 64 pixels along a side."""
    step = max(1, max(image.shape[:2]) // 64)
    return image[::step, ::step]


EXPERIMENT = Experiment(
    name="galleries",
    title="Retrieval galleries",
    shows="The paper’s tables of the ten nearest images by each method.",
    sets=tuple(FULL),
    protocol="The training images of the first repeat are searched, test images ask. 64 bits, Hamming distance "
    "(weighted for C-BID). Two queries are drawn, the first test images of two classes; the tables count all.",
    methods={name: CODERS[name].text for name in METHODS},
    metrics=(),
    cells=cells,
    run=run,
    show=show,
    together=("set", "method"),
    cost=(4.0, 1.0),
)
