"""Similarity of poses: the paper's heat map of weighted Hamming distances between views of cars.

Queries and database are ordered by class and pose.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid import CBID
from cbid.codes import weighted_hamming
from cbid.evaluation import paired_test
from cbid.paper.base import (
    CLASS_BITS,
    Cell,
    Claim,
    Context,
    Experiment,
    Judgement,
    Results,
    Settings,
    all_of,
    grid,
    p_text,
)
from cbid.paper.coding import FEATURES, PAPER
from cbid.paper.report import Page, new_figure
from cbid.paper.sets import CATALOGUE

N_BITS = 256
NEAR = 30  # degrees within which a pose is near
PAPER_BITS = 64
METHODS = {
    "C-BID, 5 nearest": "256 bits, 5 nearest hits and misses, as in the paper; shared weights",
    "C-BID": "256 bits, compared with whole classes (the default)",
    PAPER: f"{PAPER_BITS} bits of CBID.paper (Eq. 3), nu = 1e-5; the class of the stored image gives the weights",
}
GROUPS = ("same class, near pose", "same class, other pose", "other class")


def cells(present: Sequence[str], quick: bool) -> list[Settings]:
    """Return cells on EPFL cars, as in the paper, or on COIL-20 if they are missing."""
    names = [name for name in ("epfl_cars", "coil20") if name in present][:1]
    size = {"bits": 64, "classes": 6} if quick else {"bits": N_BITS, "classes": None}
    own = {PAPER: {"bits": 8 if quick else PAPER_BITS}}
    return [cell | size | own.get(cell["method"], {}) for cell in grid(set=names, method=METHODS, repeat=[0])]


def run(cells: list[Settings], context: Context) -> Iterator[Cell]:
    """Compute the distances of all queries to the database."""
    for settings in cells:
        data = context.open(settings["set"])
        split = data.split("paper", settings["repeat"])
        pose = np.asarray(data.part("pose"), dtype=float)
        most = settings["classes"] or len(np.unique(data.labels))
        train, queries = (_ordered(rows, data.labels, pose, most) for rows in (split.train, split.test))
        X, Q = (FEATURES["pHOG"](data, rows, context) for rows in (train, queries))
        coder = _coder(settings).fit(X, data.labels[train])
        distances = _distances(coder, Q, X, data.labels[train])
        result = {"distances": np.round(distances, 4), "n_bits": coder.n_bits_}
        result |= {"query_class": data.labels[queries], "query_pose": pose[queries]}
        yield settings, result | {"class": data.labels[train], "pose": pose[train]}


def _coder(settings: Settings) -> CBID:
    fixed: dict[str, Any] = {"n_bits": settings["bits"], "random_state": settings["repeat"]}
    if settings["method"] == PAPER:
        return CBID.paper(**fixed)
    hits = "nearest" if "nearest" in settings["method"] else "whole"
    return CBID(likeness=0, kernel="linear", hits=hits, **fixed)


def _distances(coder: CBID, Q: Any, X: Any, labels: Any) -> NDArray[np.float64]:
    """Return weighted Hamming distances (queries, n), 1 if all bits differ; an image has the weights of its class."""
    queries, stored = coder.encode(Q), coder.encode(X)
    if coder.weights_.ndim == 1:
        return weighted_hamming(queries, stored, coder.weights_) / coder.weights_.sum()
    found = np.empty((len(queries), len(stored)))
    for column, name in enumerate(coder.classes_):
        of = labels == name
        found[:, of] = weighted_hamming(queries, stored[of], np.ascontiguousarray(coder.weights_[:, column]))
    return found / max(float(coder.weights_.sum(axis=0).max()), np.finfo(float).tiny)


def _ordered(rows: NDArray[np.int64], labels: Any, pose: Any, most: int) -> NDArray[np.int64]:
    """Return the rows of the first ``most`` classes, sorted by class and then by pose."""
    kept = rows[labels[rows] < most]
    return kept[np.lexsort([pose[kept], labels[kept]])]


def means_of(row: Any) -> dict[str, float]:
    """Return the mean distance within each of the three groups; poses are angles."""
    distances = np.array(row["distances"])
    return {group: float(distances[part].mean()) for group, part in zip(GROUPS, _groups(row))}


def _groups(row: Any) -> list[NDArray[np.bool_]]:
    """Return which pairs (queries, database) belong to each of the three groups."""
    same = np.array(row["query_class"])[:, None] == np.array(row["class"])
    away = np.abs((np.array(row["query_pose"])[:, None] - np.array(row["pose"]) + 180) % 360 - 180)
    return [same & (away <= NEAR), same & (away > NEAR), ~same]


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


def by_query(row: Any) -> NDArray[np.float64]:
    """Return the mean distance within each of the three groups, for each query (queries, 3); NaN without members."""
    distances, parts = np.array(row["distances"]), np.stack(_groups(row))  # (queries, database), (3, ...)
    counts, sums = parts.sum(axis=2).T, np.where(parts, distances, 0).sum(axis=2).T
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)


def ordered(results: Results, method: str) -> Judgement | None:
    """Compare the mean distances of the three groups, by paired tests over the queries."""
    found = results.where(method=method)
    if not len(found):
        return None
    row = found.rows[0]
    means = [means_of(row)[group] for group in GROUPS]
    shown = ", ".join(f"{group} {mean:.3f}" for group, mean in zip(GROUPS, means))
    parts = []
    of_query = by_query(row)
    for near, far in ((0, 1), (1, 2)):
        both = ~np.isnan(of_query[:, [near, far]]).any(axis=1)
        p = paired_test(of_query[both, far], of_query[both, near]).p if both.any() else np.nan
        text = f"“{GROUPS[near]}” nearer than “{GROUPS[far]}”: {p_text(p)}."
        parts.append(Judgement(means[near] < means[far], text, p))
    judged = all_of(parts)
    assert judged is not None
    return replace(judged, figures=f"{CATALOGUE[row['set']].title}: {shown}. {judged.figures}")


EXPERIMENT = Experiment(
    name="similarity",
    title="Similarity of poses",
    shows="The paper’s heat map of weighted Hamming distances between views of cars.",
    sets=("epfl_cars", "coil20"),
    protocol="EPFL cars, or COIL-20 if they are missing: of each class the images at 0, 90, 180 and 270 degrees are "
    "queries, the others are the database. Pyramid HOG, 256 bits; the paper’s form has 64, because it is slow.",
    methods=METHODS,
    cells=cells,
    run=run,
    scope=CLASS_BITS,
    paper_forms=(PAPER,),
    show=show,
    together=("method",),
    claims=tuple(
        Claim(
            "Same class and near pose is nearer than same class and other pose, which is nearer than another class",
            "figure of image similarity",
            partial(ordered, method=method),
            f"{method}: {METHODS[method]}",
            "COIL-20, objects on a turntable, in place of the EPFL cars if these are missing",
            "labels of the classes; poses are never given",
        )
        for method in ("C-BID, 5 nearest", PAPER)
    ),
    cost=(60.0, 8.0),
)
