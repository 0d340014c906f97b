"""Retrieval: the paper's galleries of the ten nearest images, and the protocol of the literature on hashing."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from cbid.evaluation import mean_average_precision
from cbid.paper.base import CLASS_BITS, Cell, Context, Experiment, Results, Row, Settings, grid
from cbid.paper.coding import CODERS, FEATURES, Vectors, code_lengths, load_vectors
from cbid.paper.over_bits import first_repeat, table_by_length
from cbid.paper.report import Page, new_figure, percent
from cbid.paper.sets import CATALOGUE, DataAbsent
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
SETS = ("graz02", "sports8", "scene15", "digits")
SHOWN, N_BITS, QUICK_BITS, QUERIES = 10, 64, 32, 2


def run(cells: list[Settings], context: Context) -> Iterator[Cell]:
    """Store the nearest images of every test image, not only of the queries that are drawn."""
    for settings in cells:
        vectors = load_vectors(settings, context)
        ((_, coder),) = code_lengths(settings["method"], vectors, [settings["bits"]], settings["repeat"])
        if isinstance(coder, str):
            yield settings, {"absent": coder}
            continue
        index = CodeIndex(coder.n_bits_, getattr(coder, "weights_", None), n_threads=1)
        # Of two codes at one distance the smaller id comes first: ids are places in the random order of the training
        # vectors. Rows of the set are in the order of the classes.
        index.add(coder.encode(vectors.X))
        found = index.search(coder.encode(vectors.Xt), k=SHOWN)
        same = (vectors.y[found.ids] == vectors.yt[:, None]).sum(axis=1)
        yield settings, {"queries": vectors.test_rows, "ids": vectors.train_rows[found.ids], "same_class": same}


def show(results: Results, page: Page) -> None:
    """Add galleries of two queries of each set, errors framed in red, and a table over all queries."""
    for name, of_set in results.by("set"):
        part = Results([row for row in of_set if "absent" not in row.result])
        try:
            data = page.context.open(name)
        except DataAbsent:
            page.note(f"{CATALOGUE[name].title} is not on this machine; its galleries are not drawn.")
        else:
            for number, place in enumerate(_drawn_queries(part.rows[0], data.labels)):
                _gallery(part, data, place, page, f"{name}_{number}")
        # Over all queries: the two that are drawn may mislead.
        rows = [[row["method"], percent(float(np.mean(row["same_class"])) / SHOWN)] for row in part]
        title = f"{CATALOGUE[name].title}: share of the ten nearest that show the query’s class, all queries, %"
        page.table(title, ["", f"{part.rows[0]['bits']} bits"], rows)


def _drawn_queries(row: Row, labels: Any) -> list[int]:
    """Return the positions of the queries to draw: the first of two classes, not the most successful ones."""
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
    """Return an image of at most about 64 pixels along a side."""
    step = max(1, max(image.shape[:2]) // 64)
    return image[::step, ::step]


EXPERIMENT = Experiment(
    name="galleries",
    title="Retrieval galleries",
    shows="The paper’s tables of the ten nearest images by each method.",
    sets=SETS,
    protocol="Test images are searched for among the training images of the first repeat. 64 bits, Hamming distance "
    "(weighted for C-BID). Two queries are drawn, the first test images of two classes; the tables count all.",
    methods={name: CODERS[name].text for name in METHODS},
    cells=partial(first_repeat, SETS, METHODS, N_BITS, QUICK_BITS),
    run=run,
    scope=CLASS_BITS,
    show=show,
    together=("set", "method"),
    cost=(4.0, 1.0),
    revision=3,  # how many of the nearest have the class of the query
    independent=tuple(name for name in METHODS if not name.startswith("C-BID")),
)

# The protocol of the literature on shallow hashing

FEATURES_OF = {"mnist": "raw pixels", "cifar10": "GIST"}
LITERATURE = ("C-BID", "C-BID, RBF", "ITQ", "SDH", "spectral hashing", "anchor graphs")
LITERATURE_LENGTHS, QUICK_LITERATURE_LENGTHS = (16, 32, 64, 128), (16,)


def literature_cells(present: Sequence[str], quick: bool) -> list[Settings]:
    """Return every method at every length, for each set, with the numbers of images."""
    sizes = {"train": 300, "queries": 50, "most": 1500} if quick else {"train": 5000, "queries": 1000, "most": None}
    lengths = QUICK_LITERATURE_LENGTHS if quick else LITERATURE_LENGTHS
    cells = grid(set=present, repeat=range(1 if quick else 3), method=LITERATURE, bits=lengths)
    return [cell | sizes for cell in cells]


def run_literature(cells: list[Settings], context: Context) -> Iterator[Cell]:
    """Rank all images except the queries by plain Hamming distance, for each length of one method."""
    first = cells[0]
    vectors, database = _literature_vectors(first, context)
    lengths = [c["bits"] for c in cells]
    coded = code_lengths(first["method"], vectors, lengths, first["repeat"])
    for settings, (_, coder) in zip(cells, coded):
        if isinstance(coder, str):
            yield settings, {"absent": coder}
            continue
        stored, y = database
        found = mean_average_precision(coder.transform(vectors.Xt), vectors.yt, coder.transform(stored), y)
        yield settings, {"map": found, "n_bits": coder.n_bits_, "database": len(y)}


def _literature_vectors(settings: Settings, context: Context) -> tuple[Vectors, tuple[Any, Any]]:
    """Return training and query vectors, and the database with its labels; the training images are part of it."""
    data = context.open(settings["set"])
    classes = len(np.unique(data.labels))
    rng = np.random.default_rng(settings["repeat"])
    of_class = [rng.permutation(np.flatnonzero(data.labels == c)) for c in range(classes)]
    asked, learned = settings["queries"] // classes, settings["train"] // classes
    queries = np.concatenate([rows[:asked] for rows in of_class])
    train = rng.permutation(np.concatenate([rows[asked : asked + learned] for rows in of_class]))
    others = np.concatenate([rows[asked + learned :] for rows in of_class])
    stored = np.concatenate([train, rng.permutation(others)])[: settings["most"]]
    needed = np.unique(np.concatenate([queries, stored]))
    values = FEATURES[FEATURES_OF[settings["set"]]](data, needed, context)
    X, Xt, Xs = (values[np.searchsorted(needed, rows)] for rows in (train, queries, stored))
    labels = data.labels
    return Vectors(X, labels[train], Xt, labels[queries], queries, train), (Xs, labels[stored])


def show_literature(results: Results, page: Page) -> None:
    """Add a table for each set."""
    for name, part in results.by("set"):
        title = f"{CATALOGUE[name].title}, {FEATURES_OF[name]}: mean average precision over all, %"
        page.table(title, *table_by_length(part, "map", part.distinct("method")))


RETRIEVAL = Experiment(
    name="retrieval",
    title="CIFAR-10 and MNIST as in the literature on hashing",
    shows="Not in the paper: mean average precision in the protocol of the literature on shallow hashing.",
    sets=tuple(FEATURES_OF),
    protocol="5,000 training images and 1,000 queries, the same number of each class; all images but the queries are "
    "ranked, by plain Hamming distance; three draws. GIST of CIFAR-10 by our own descriptor (four scales, eight "
    "orientations), pixels of MNIST. Published figures are not repeated here: papers differ in the training images "
    "(1,000 to 59,000), in GIST (384 or 512 values, of gray or colour) and in how ties count; here ties count with "
    "their expectation.",
    methods={name: CODERS[name].text for name in LITERATURE},
    metrics=("map",),
    cells=literature_cells,
    run=run_literature,
    scope=CLASS_BITS,
    show=show_literature,
    together=("set", "repeat", "method"),
    cost=(60.0, 3.0),
    independent=tuple(name for name in LITERATURE if not name.startswith("C-BID")),
)
