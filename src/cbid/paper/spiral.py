"""Fermat's spiral: the paper's figure of the decision regions of 8 bits in the plane.

The two classes are the two arms of the spiral.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from cbid import CBID, CodeKNeighborsClassifier
from cbid.coders import SpectralHashing
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
    by_test,
    p_text,
)
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
    """Draw n points of each class around r = sqrt(angle) and r = -sqrt(angle), in random order.

    Many points share a code of 8 bits. In the order of the classes, ties would favour one of them.
    """
    angle = 2 * np.pi * TURNS * rng.random(2 * n)
    label = rng.permutation(np.repeat([0, 1], n))
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
    sizes = {"train": 200, "test": 1000}
    return [{"method": m, "repeat": repeat, **sizes} for repeat in range(2 if quick else 20) for m in METHODS]


def run(cells: list[Settings], context: Context) -> Iterator[Cell]:
    """Classify test points and the cells of the square."""
    for settings in cells:
        rng = np.random.default_rng(settings["repeat"])
        X, y = spiral(settings["train"], rng)
        Xt, yt = spiral(settings["test"], rng)
        model = model_of(settings["method"], settings["repeat"]).fit(X, y)
        region = ["".join(map(str, row)) for row in model.predict(grid()).reshape(GRID, GRID).tolist()]
        yield settings, {"truth": yt, "predicted": model.predict(Xt), "region": region}


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


def agreement(results: Results, a: str, b: str, classes: Callable[[Any], Any] = region_of) -> NDArray[np.float64]:
    """Return the share of the square, or of other ``classes`` of a row, on which two methods agree, by repeat."""
    pairs = zip(results.where(method=a), results.where(method=b))
    return np.array([np.mean(classes(x) == classes(y)) for x, y in pairs])


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
    rows = []
    for method in results.distinct("method"):
        accuracy = mean_and_deviation(results.measured("accuracy", method=method))
        rows.append([method, accuracy, f"{boundaries(results, method).mean():.1f}"])
    page.table("Accuracy on fresh points, %, and length of the boundary", ["", "accuracy", "boundary, sides"], rows)


SIMILAR = 0.95  # two boundaries are nearly the same if the classes agree on this share of the square


def similar_boundaries(results: Results) -> Judgement | None:
    """Compare 3-NN and SVM: equal on 95 % of the square, also where there are no points; the linear form decides."""
    figures, shares = [], []
    for kind in ("C-BID", "C-BID with RBF kernel"):
        pair = f"{kind}, 3-NN", f"{kind}, linear SVM"
        shares.append(agreement(results, *pair))
        if not len(shares[-1]):
            return None
        points = agreement(results, *pair, lambda row: np.array(row["predicted"])).mean()
        figures.append(
            f"{percent(shares[-1].mean())} % of the square and {percent(points)} % of test points ({kind})"
        )
    judged = by_test(shares[0], np.full(len(shares[0]), SIMILAR), "The linear form against 95 %: ")
    return replace(judged, figures=f"3-NN and linear SVM agree on {'; '.join(figures)}. {judged.figures}")


def _shorter(results: Results, method: str, other: str, shown: str) -> Judgement | None:
    """Judge whether the boundary of a method is shorter than that of another, by a paired test over the draws."""
    ours, theirs = boundaries(results, method), boundaries(results, other)
    if not len(ours) or len(ours) != len(theirs):
        return None
    p = paired_test(ours, theirs).p
    return Judgement(
        bool(ours.mean() < theirs.mean()), f"{shown.format(ours.mean(), theirs.mean())}, {p_text(p)}.", p
    )


def smoother(results: Results) -> Judgement | None:
    """Compare the boundary of C-BID with that of 3-NN on the points."""
    kernel = boundaries(results, "C-BID with RBF kernel, 3-NN")
    if not len(kernel):
        return None
    shown = "Mean boundary: {:.1f} sides by 3-NN on C-BID, {:.1f} on points"
    return _shorter(results, "C-BID, 3-NN", "3-NN", f"{shown} ({kernel.mean():.1f} with RBF kernel)")


def rougher_spectral(results: Results) -> Judgement | None:
    """Compare the boundary of spectral hashing with that of 3-NN on the points."""
    shown = "Mean boundary: {:.1f} sides by 3-NN on points, {:.1f} on spectral hashing"
    return _shorter(results, "3-NN", "spectral hashing, 3-NN", shown)


_claim = partial(
    Claim,
    source="figure of decision regions",
    form="linear class bits with the 5 nearest hits and misses",
    data="drawn by this program; the paper does not state its spiral",
    information="labels of all 400 training points, as 3-NN and the SVM have them",
)

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
    scope=CLASS_BITS,
    show=show,
    together=("repeat",),
    claims=(
        _claim("3-NN and a linear SVM on 8 bits of C-BID draw nearly the same boundary", judge=similar_boundaries),
        _claim("C-BID’s boundary is smoother than that of 3-NN on the points", judge=smoother),
        _claim(
            "Spectral hashing’s boundary is less smooth than that of 3-NN on the points",
            judge=rougher_spectral,
            form="spectral hashing",
            information="no labels for the bits; both 3-NN have them",
        ),
    ),
    cost=(0.3, 0.3),
    independent=("3-NN", "spectral hashing, 3-NN"),
    revision=2,
)
