"""Similarity of poses: the paper's heat map of weighted Hamming distances between views of cars.

Queries and database are ordered by class and pose.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid import CBID
from cbid.codes import weighted_hamming
from cbid.paper.base import Cell, Claim, Context, Experiment, Judgement, Results, Settings
from cbid.paper.coding import FEATURES
from cbid.paper.report import Page, new_figure
from cbid.paper.sets import CATALOGUE

N_BITS = 256
NEAR = 30  # degrees within which a pose is near
METHODS = {
    "C-BID, 5 nearest": "256 bits, 5 nearest hits and misses, as in the paper",
    "C-BID": "256 bits, compared with whole classes (the default)",
}
GROUPS = ("same class, near pose", "same class, other pose", "other class")


def cells(present: Sequence[str], quick: bool) -> list[Settings]:
    """Return cells on EPFL cars, as in the paper, or on COIL-20 if they are missing."""
    names = [name for name in ("epfl_cars", "coil20") if name in present][:1]
    size = {"bits": 64, "classes": 6} if quick else {"bits": N_BITS, "classes": None}
    return [{"set": name, "method": method, "repeat": 0, **size} for name in names for method in METHODS]


def run(cells: list[Settings], context: Context) -> Iterator[Cell]:
    """Compute the distances of all queries to the database."""
    for settings in cells:
        data = context.open(settings["set"])
        split = data.split("paper", settings["repeat"])
        assert data.labels is not None
        pose = np.asarray(data.part("pose"), dtype=float)
        most = settings["classes"] or len(np.unique(data.labels))
        train, queries = (_ordered(rows, data.labels, pose, most) for rows in (split.train, split.test))
        X, Q = (FEATURES["pHOG"](data, rows, context) for rows in (train, queries))
        hits = "nearest" if "nearest" in settings["method"] else "whole"
        coder = CBID(
            likeness=0, kernel="linear", n_bits=settings["bits"], hits=hits, random_state=settings["repeat"]
        ).fit(X, data.labels[train])
        distances = weighted_hamming(coder.encode(Q), coder.encode(X), coder.weights_)
        yield (
            settings,
            {
                "distances": np.round(distances / coder.weights_.sum(), 4),
                "query_class": data.labels[queries],
                "query_pose": pose[queries],
                "class": data.labels[train],
                "pose": pose[train],
                "n_bits": coder.n_bits_,
            },
        )


def _ordered(rows: NDArray[np.int64], labels: Any, pose: Any, most: int) -> NDArray[np.int64]:
    """Return the rows of the first ``most`` classes, sorted by class and then by pose."""
    kept = rows[labels[rows] < most]
    return kept[np.lexsort([pose[kept], labels[kept]])]


def means_of(row: Any) -> dict[str, float]:
    """Return the mean distance within each of the three groups; poses are angles."""
    distances = np.array(row["distances"])
    same = np.array(row["query_class"])[:, None] == np.array(row["class"])
    away = np.abs((np.array(row["query_pose"])[:, None] - np.array(row["pose"]) + 180) % 360 - 180)
    parts = (same & (away <= NEAR), same & (away > NEAR), ~same)
    return {group: float(distances[part].mean()) for group, part in zip(GROUPS, parts)}


def show(results: Results, page: Page) -> None:
    """Add a heat map for each method, and a table of mean distances."""
    rows = []
    for number, row in enumerate(results):
        distances = np.array(row["distances"])
        figure, (ax,) = new_figure(width=8.0, height=3.6)
        image = ax.imshow(distances, aspect="auto", cmap="viridis", interpolation="nearest")
        starts = np.flatnonzero(np.diff(row["class"], prepend=-1))
        queries = np.flatnonzero(np.diff(row["query_class"], prepend=-1))
        ax.set_xticks(starts, [str(c + 1) for c in np.array(row["class"])[starts]], fontsize=7)
        ax.set_yticks(queries, [str(c + 1) for c in np.array(row["query_class"])[queries]], fontsize=7)
        ax.grid(visible=False)
        ax.set_xlabel("database: class, and within it pose from 0 to 360 degrees")
        ax.set_ylabel("query: class, four poses each")
        figure.colorbar(image, ax=ax, label="weighted Hamming distance")
        title = f"{CATALOGUE[row['set']].title}, {row['method']}, {row['n_bits']} bits"
        ax.set_title(title, fontsize=9)
        page.plot(figure, str(number), f"Distances of queries to the database: {title}.", svg=False)
        means = means_of(row)
        rows.append([f"{row['method']}, {row['n_bits']} bits", *(f"{means[group]:.3f}" for group in GROUPS)])
    page.table(f"Mean distance (all bits differ: 1; near: within {NEAR} degrees)", ["", *GROUPS], rows)


def ordered(results: Results) -> Judgement | None:
    """Compare the mean distances of the three groups; the paper's setting, nearest neighbours, decides."""
    found = results.where(method="C-BID, 5 nearest")
    if not len(found):
        return None
    means = [means_of(found.rows[0])[group] for group in GROUPS]
    figures = ", ".join(f"{group} {mean:.3f}" for group, mean in zip(GROUPS, means))
    return Judgement(bool(means[0] < means[1] < means[2]), f"{CATALOGUE[found.rows[0]['set']].title}: {figures}.")


EXPERIMENT = Experiment(
    name="similarity",
    title="Similarity of poses",
    shows="The paper’s heat map of weighted Hamming distances between views of cars.",
    sets=("epfl_cars", "coil20"),
    protocol="EPFL cars, or COIL-20 if they are missing: of each class the images at 0, 90, 180 and 270 degrees are "
    "queries, the others are the database. Pyramid HOG, 256 bits.",
    methods=METHODS,
    metrics=(),
    cells=cells,
    run=run,
    show=show,
    together=("method",),
    claims=(
        Claim(
            "Same class and near pose is nearer than same class and other pose, which is nearer than another class",
            "figure of image similarity",
            ordered,
        ),
    ),
    cost=(60.0, 8.0),
)
