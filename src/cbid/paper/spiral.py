"""Fermat's spiral: the paper's figure of the decision regions of 8 bits in the plane.

The two classes are the two arms of the spiral.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from cbid import CBID, CodeKNeighborsClassifier
from cbid.coders import SpectralHashing
from cbid.paper.base import Cell, Claim, Context, Experiment, Judgement, Results, Settings
from cbid.paper.report import COLOURS, Page, mean_and_deviation, new_figure, percent

N_BITS, NEIGHBOURS = 8, 3
TURNS, NOISE = 1.0, 0.12  # noise relative to the largest radius, 1
EDGE, GRID = 1.25, 80  # half the side of the coloured square, and its cells along a side

METHODS = {
    "3-NN": "on the points themselves",
    "spectral hashing, 3-NN": f"{N_BITS} bits",
    "C-BID, 3-NN": f"{N_BITS} bits, hits and misses are the 5 nearest",
    "C-BID, linear SVM": "on the same bits",
    "C-BID with RBF kernel, 3-NN": f"{N_BITS} bits",
    "C-BID with RBF kernel, linear SVM": "on the same bits",
}


def spiral(n: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw n points of each class around r = sqrt(angle) and r = -sqrt(angle)."""
    angle = 2 * np.pi * TURNS * rng.random(2 * n)
    label = np.repeat([0, 1], n)
    r = np.sqrt(angle / (2 * np.pi * TURNS)) * np.where(label, -1, 1)
    points = np.column_stack([r * np.cos(angle), r * np.sin(angle)])
    return points + NOISE * rng.normal(size=points.shape) / 2, label


def model_of(method: str, seed: int) -> Any:
    """Return an estimator for points."""
    ours: dict[str, Any] = {"n_bits": N_BITS, "hits": "nearest", "kernel": "linear", "random_state": seed}
    if "RBF" in method:
        # Narrow enough that a bit bends with the arms: the squared width is a tenth of the variance of the points.
        ours |= {"kernel": "rbf", "gamma": 5.0}
    if method == "3-NN":
        return KNeighborsClassifier(NEIGHBOURS)
    if method.startswith("spectral"):
        return CodeKNeighborsClassifier(NEIGHBOURS, coder=SpectralHashing(n_bits=N_BITS))
    if method.endswith("3-NN"):
        return CodeKNeighborsClassifier(NEIGHBOURS, coder=CBID(likeness=0, **ours))
    return make_pipeline(CBID(likeness=0, **ours), LinearSVC(random_state=seed))


def grid() -> NDArray[np.float64]:
    """Return the centres of the cells of the coloured square, rows from the bottom up."""
    along = (np.arange(GRID) + 0.5) / GRID * 2 * EDGE - EDGE
    return np.column_stack([a.ravel() for a in np.meshgrid(along, along)])


def cells(present: Sequence[str], quick: bool) -> list[Settings]:
    """Return all methods for each repeat; no data set is needed."""
    repeats = 2 if quick else 20
    return [
        {"method": method, "repeat": repeat, "train": 200, "test": 1000}
        for repeat in range(repeats)
        for method in METHODS
    ]


def run(cells: list[Settings], context: Context) -> Iterator[Cell]:
    """Classify test points and the cells of the square."""
    for settings in cells:
        rng = np.random.default_rng(settings["repeat"])
        X, y = spiral(settings["train"], rng)
        Xt, yt = spiral(settings["test"], rng)
        model = model_of(settings["method"], settings["repeat"]).fit(X, y)
        region = model.predict(grid()).reshape(GRID, GRID)
        yield (
            settings,
            {
                "truth": yt,
                "predicted": model.predict(Xt),
                "region": ["".join(map(str, row)) for row in region.tolist()],
            },
        )


def region_of(row: Any) -> NDArray[np.int64]:
    """Return the class of each cell of the square, (GRID, GRID)."""
    return np.array([[int(c) for c in line] for line in row["region"]])


def boundary(region: NDArray[np.int64]) -> float:
    """Return the length of the boundary between the classes, in sides of the square."""
    edges = np.sum(region[1:] != region[:-1]) + np.sum(region[:, 1:] != region[:, :-1])
    return float(edges / GRID)


def boundaries(results: Results, method: str) -> NDArray[np.float64]:
    """Return the length of the boundary for each repeat."""
    return np.array([boundary(region_of(row)) for row in results.where(method=method)])


def agreement(results: Results, a: str, b: str) -> NDArray[np.float64]:
    """Return the share of the square on which two methods agree, for each repeat."""
    pairs = zip(results.where(method=a), results.where(method=b))
    return np.array([np.mean(region_of(x) == region_of(y)) for x, y in pairs])


def agreement_on_points(results: Results, a: str, b: str) -> float:
    """Return the share of test points on which two methods agree, over all repeats."""
    pairs = zip(results.where(method=a), results.where(method=b))
    return float(np.mean([np.mean(np.array(x["predicted"]) == np.array(y["predicted"])) for x, y in pairs]))


def show(results: Results, page: Page) -> None:
    """Add the decision regions, and a table of accuracies and boundaries."""
    from matplotlib.colors import ListedColormap

    figure, axes = new_figure(2, 3, width=2.6, height=2.6)
    X, y = spiral(results.rows[0]["train"], np.random.default_rng(0))
    colours = ListedColormap([COLOURS[0], COLOURS[1]])
    for ax, method in zip(axes, METHODS):
        row = results.where(method=method, repeat=0)
        ax.set_axis_off()
        ax.set_title(method, fontsize=9)
        if len(row):
            ax.imshow(region_of(row.rows[0]), origin="lower", extent=[-EDGE, EDGE] * 2, cmap=colours, alpha=0.3)
        ax.scatter(*X.T, c=y, cmap=colours, s=3, rasterized=True)
    page.plot(figure, "", "Decision regions on the first draw; points are the training samples.")
    rows = [
        [
            method,
            mean_and_deviation(results.measured("accuracy", method=method)),
            f"{boundaries(results, method).mean():.1f}",
        ]
        for method in results.distinct("method")
    ]
    page.table("Accuracy on fresh points, %, and length of the boundary", ["", "accuracy", "boundary, sides"], rows)


def similar_boundaries(results: Results) -> Judgement | None:
    """Compare 3-NN and SVM: equal on 95 % of the square, also where there are no points; the linear form decides."""
    figures, holds = [], []
    for kind in ("C-BID", "C-BID with RBF kernel"):
        pair = f"{kind}, 3-NN", f"{kind}, linear SVM"
        shares = agreement(results, *pair)
        if not len(shares):
            return None
        points = agreement_on_points(results, *pair)
        figures.append(f"{percent(shares.mean())} % of the square and {percent(points)} % of test points with {kind}")
        holds.append(bool(shares.mean() >= 0.95))
    return Judgement(holds[0], f"3-NN and linear SVM agree on {'; '.join(figures)}.")


def smoother(results: Results) -> Judgement | None:
    """Compare the boundary of C-BID with that of 3-NN on the points."""
    raw, *ours = (boundaries(results, m) for m in ("3-NN", "C-BID, 3-NN", "C-BID with RBF kernel, 3-NN"))
    if not len(raw) or not all(len(v) for v in ours):
        return None
    figures = f"{raw.mean():.1f} sides by 3-NN on points, {ours[0].mean():.1f} by 3-NN on C-BID, {ours[1].mean():.1f}"
    return Judgement(bool(ours[0].mean() < raw.mean()), f"Mean boundary: {figures} with the RBF kernel.")


def rougher_spectral(results: Results) -> Judgement | None:
    """Compare the boundary of spectral hashing with that of 3-NN on the points."""
    raw, theirs = (boundaries(results, m) for m in ("3-NN", "spectral hashing, 3-NN"))
    if not len(raw) or not len(theirs):
        return None
    figures = f"Mean boundary: {theirs.mean():.1f} sides against {raw.mean():.1f} by 3-NN on points."
    return Judgement(bool(theirs.mean() > raw.mean()), figures)


_FIGURE = "figure of decision regions"

EXPERIMENT = Experiment(
    name="spiral",
    title="Fermat’s spiral",
    shows="The paper’s figure of decision regions in the plane.",
    sets=(),
    protocol=f"{TURNS:g} turn of r = ±sqrt(angle) with noise; 200 points of each class train, 1,000 test.",
    methods=METHODS,
    metrics=("accuracy",),
    cells=cells,
    run=run,
    show=show,
    together=("repeat",),
    claims=(
        Claim("3-NN and a linear SVM on 8 bits of C-BID draw nearly the same boundary", _FIGURE, similar_boundaries),
        Claim("C-BID’s boundary is smoother than that of 3-NN on the points", _FIGURE, smoother),
        Claim(
            "Spectral hashing’s boundary is less smooth than that of 3-NN on the points", _FIGURE, rougher_spectral
        ),
    ),
    cost=(0.3, 0.3),
)
