"""Classes that were not learned: named protocols for any coder, and an experiment with all of them.

- "unseen-class retrieval": some classes are kept from learning. Queries and database are halves of their images. The
  learned classes are measured too: test images against the training images.
- "transfer": a coder learns one set and searches another.
- "neighbour recall", in both: the share of the ten nearest by cosine that are among the ten nearest by code.

The paper and most of the literature on supervised hashing measure the learned classes only.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid import coders
from cbid.evaluation import average_precision, neighbour_recall, precision_at
from cbid.paper.base import Cell, Context, Experiment, Results, Settings
from cbid.paper.coding import FEATURES, MOST_AXES, Method
from cbid.paper.report import Page
from cbid.paper.sets import CATALOGUE, NamedSet

Array = NDArray[Any]
Rows = NDArray[np.int64]
Between = Callable[[Rows, Rows], Array]  # distances between rows of a set, (q, n)

UNSEEN, TRANSFER = "unseen-class retrieval", "transfer"
RAW = "original vectors"
FIGURES = {
    "unseen_map": "unseen: mAP",
    "unseen_p10": "precision at 10",
    "neighbours": "neighbour recall",
    "seen_map": "learned: mAP",
    "seen_p10": "precision at 10",
    "seen_knn": "5-NN",
}


class UnseenSplit(NamedTuple):
    """Rows of a set: training and test images of the learned classes, queries and database of the others."""

    train: Rows
    test: Rows
    queries: Rows
    database: Rows


def unseen_split(
    y: Array, n_unseen: int, n_train: int, seed: int, *, most: int = 200, validation: bool = False
) -> UnseenSplit:
    """Return a split of labels y (n,) in which ``n_unseen`` classes are not learned.

    Each learned class has ``n_train`` training images, at most half of it, and up to 150 test images; each unseen one
    has up to ``most`` images, half of them queries. With ``validation`` a third of the learned classes takes the
    part of the unseen ones, which are not touched: settings are chosen there.
    """
    rng = np.random.default_rng(seed)
    classes = rng.permutation(int(y.max()) + 1)
    unseen, seen = classes[:n_unseen], classes[n_unseen:]
    if validation:
        unseen, seen = seen[: len(seen) // 3], seen[len(seen) // 3 :]
    none = np.empty(0, dtype=np.int64)
    train, test = [none], [none]
    for c in seen:
        rows = rng.permutation(np.flatnonzero(y == c))
        count = min(n_train, len(rows) // 2)
        train.append(rows[:count])
        test.append(rows[count : count + 150])
    others = [rng.permutation(np.flatnonzero(y == c))[:most] for c in unseen]
    kept = rng.permutation(np.concatenate([none, *others]))
    shuffled = rng.permutation(np.concatenate(train))  # ties of distances must not meet the order of the classes
    return UnseenSplit(shuffled, np.concatenate(test), kept[: len(kept) // 2], kept[len(kept) // 2 :])


def code_distances(queries: Array, stored: Array, weights: Array) -> NDArray[np.float64]:
    """Return weighted Hamming distances (q, n) of bits in -1/+1; sums that differ in their last digits are ties."""
    share = weights / weights.sum()
    return np.round((1 - (queries * share) @ stored.T.astype(np.float64)) / 2, 9)


def nearest_class(distances: Array, y: Array, k: int = 5) -> Array:
    """Return the class with most of the k nearest, for each row of distances."""
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    votes = np.zeros((len(distances), int(y.max()) + 1), dtype=int)
    np.add.at(votes, (np.arange(len(distances))[:, None], y[nearest]), 1)
    return votes.argmax(axis=1)


def retrieval_figures(X: Array, y: Array, queries: Rows, database: Rows, between: Between) -> dict[str, float]:
    """Return mAP, precision at 10 and neighbour recall of queries in a database; X (n, d) has unit length."""
    D = between(queries, database)
    relevant = y[queries][:, None] == y[database]
    return {
        "unseen_map": float(np.nanmean(average_precision(D, relevant))),
        "unseen_p10": float(precision_at(D, relevant, 10).mean()),
        "neighbours": float(neighbour_recall(D, 1 - X[queries] @ X[database].T, 10).mean()),
    }


def unseen_figures(X: Array, y: Array, split: UnseenSplit, between: Between) -> dict[str, float]:
    """Return the figures of unseen and of learned classes."""
    D = between(split.test, split.train)
    seen = y[split.test][:, None] == y[split.train]
    return retrieval_figures(X, y, split.queries, split.database, between) | {
        "seen_map": float(average_precision(D, seen).mean()),
        "seen_p10": float(precision_at(D, seen, 10).mean()),
        "seen_knn": float(np.mean(nearest_class(D, y[split.train]) == y[split.test])),
    }


# Every coder at its defaults, in its linear form if it has one.
METHODS: dict[str, Method] = {
    "C-BID": Method("the default: class and likeness", coders.CBID, {"kernel": "linear"}),
    "C-BID, classes only": Method("likeness 0", coders.CBID, {"kernel": "linear", "likeness": 0}),
    "C-BID, no labels": Method("likeness 1", coders.CBID, {"kernel": "linear", "likeness": 1}),
    "CCA-ITQ": Method("supervised", coders.CCAITQ),
    "KSH": Method("supervised, its kernel", coders.KSH),
    "SDH": Method("supervised", coders.SDH, {"kernel": None}),
    "COSDISH": Method("supervised", coders.COSDISH),
    "FastHash": Method("supervised, trees", coders.FastHash),
    "PiCoDes": Method("supervised, 3 turns", coders.PiCoDes, {"n_iter": 3}),
    "LDA-sign": Method("supervised", coders.LDASign),
    "MC-bit": Method("supervised, a bit for each node of a tree of the classes", coders.MCBit, whole=True),
    "argmax of a linear SVM": Method("supervised", coders.ArgmaxCode),
    "LSH of its scores": Method("supervised", coders.ScoreLSH),
    "LSI": Method("unsupervised", coders.LSI),
    "PCA-sign": Method("unsupervised", coders.PCASign),
    "ITQ": Method("unsupervised", coders.ITQ),
    "spectral hashing": Method("unsupervised", coders.SpectralHashing),
    "multidimensional spectral hashing": Method("unsupervised", coders.MultidimensionalSpectralHashing),
    "anchor graphs": Method("unsupervised, 2 layers", coders.AnchorGraphHashing),
    "spherical hashing": Method("unsupervised", coders.SphericalHashing),
    "self-taught hashing": Method("unsupervised", coders.SelfTaughtHashing),
    "Laplacian co-hashing": Method("unsupervised", coders.LaplacianCoHashing),
    "spline regression": Method("unsupervised", coders.SplineRegressionHashing),
    "K-means hashing": Method("unsupervised", coders.KMeansHashing),
    "LSH": Method("data-independent", coders.LSH),
    "p-stable LSH": Method("data-independent", coders.PStableLSH),
    "shift-invariant kernel LSH": Method("data-independent", coders.ShiftInvariantLSH),
    "signs": Method("today's practice: the signs of the first coordinates", coders.SignEmbedding),
}
QUICK_METHODS = ("C-BID", "C-BID, classes only", "ITQ")

# For each set: its features, classes that are not learned, training images of each class.
SETS = {
    "digits": ("raw pixels", 3, 80),
    "scene15": ("EfficientNet-Lite0 embeddings", 5, 100),
    "caltech101": ("EfficientNet-Lite0 embeddings", 30, 20),
}
TRANSFERS = (("scene15", "caltech101"), ("caltech101", "scene15"))  # learned, searched
N_BITS, REPEATS = 64, 5


def cells(present: Sequence[str], quick: bool) -> list[Settings]:
    """Return a cell for each protocol, set, method and repeat."""
    names = [name for name in SETS if name in present]
    asked: list[Settings] = [{"protocol": UNSEEN, "set": name} for name in names]
    asked += [{"protocol": TRANSFER, "set": a, "searched": b} for a, b in TRANSFERS if {a, b} <= set(names)]
    size = {"bits": 16, "train": 20} if quick else {"bits": N_BITS, "train": None}
    methods = QUICK_METHODS if quick else tuple(METHODS)
    repeats = range(1 if quick else REPEATS)
    return [{**a, "method": m, "repeat": r, **size} for a in asked for r in repeats for m in (RAW, *methods)]


def run(cells: list[Settings], context: Context) -> Iterator[Cell]:
    """Fit each method on the training images of a task and measure it."""
    for settings in cells:
        features, n_unseen, n_train = SETS[settings["set"]]
        X, y = _vectors(context.open(settings["set"]), features, context)
        seed, n_train = settings["repeat"], settings["train"] or n_train
        split = unseen_split(y, n_unseen if settings["protocol"] == UNSEEN else 0, n_train, seed)
        axes = _principal_axes(X[split.train])
        coder = None
        if settings["method"] != RAW:
            method = METHODS[settings["method"]]
            coder = method.fit_or_reason(axes(X[split.train]), y[split.train], settings["bits"], seed)
        if isinstance(coder, str):
            yield settings, {"absent": coder}
            continue
        if settings["protocol"] == UNSEEN:
            figures = unseen_figures(X, y, split, _between(coder, X, axes))
        else:
            other = settings["searched"]
            Z, z = _vectors(context.open(other), SETS[other][0], context)
            found = unseen_split(z, int(z.max()) + 1, 1, seed, most=20)
            figures = retrieval_figures(Z, z, found.queries, found.database, _between(coder, Z, axes))
        yield settings, figures if coder is None else figures | {"n_bits": coder.n_bits_}


def _vectors(data: NamedSet, features: str, context: Context) -> tuple[Array, Array]:
    """Return all vectors of a set, of unit length, and their classes."""
    X = FEATURES[features](data, np.arange(len(data)), context)
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12), data.labels


def _principal_axes(X: Array) -> Callable[[Array], Array]:
    """Return a map to the principal axes of X, at most 256; rivals that choose no axes themselves need it."""
    from sklearn.decomposition import PCA

    pca = PCA(min(MOST_AXES, *X.shape), random_state=0).fit(X)
    return lambda rows: pca.transform(rows).astype(np.float32)


def _between(coder: Any, X: Array, axes: Callable[[Array], Array]) -> Between:
    """Return distances by code, weighted if the coder has weights; without a coder 1 - cosine."""
    if coder is None:
        return lambda a, b: 1 - (X[a] @ X[b].T).astype(np.float64)
    bits = coder.transform(axes(X)).astype(np.float32)
    weights = getattr(coder, "weights_", None)
    if weights is None or np.ndim(weights) != 1:
        weights = np.ones(bits.shape[1])
    return lambda a, b: code_distances(bits[a], bits[b], weights)


def show(results: Results, page: Page) -> None:
    """Add a table of means over the repeats for each protocol and set."""
    for protocol, name, part in results.by("protocol", "set"):
        title = f"{protocol}: {CATALOGUE[name].title}"
        if protocol == TRANSFER:
            title += f" learned, {CATALOGUE[part.rows[0]['searched']].title} searched"
        page.table(title, *figure_table(part))


def figure_table(part: Results) -> tuple[list[str], list[list[str]]]:
    """Return head and rows: one row for each method, the means over its repeats."""
    names = [n for n in FIGURES if any(n in row.result for row in part)]
    table = []
    for method, of in part.by("method"):
        found = [row for row in of if "absent" not in row.result]
        if found:
            bits = found[0].result.get("n_bits", "")
            means = [float(np.mean([row[n] for row in found])) for n in names]
            table.append([method, str(bits), *(f"{m:.3f}" for m in means), str(len(found))])
    return ["", "bits", *(FIGURES[n] for n in names), "repeats"], table


EXPERIMENT = Experiment(
    name="unseen",
    title="Classes that were not learned",
    shows="Nothing in the paper, which measures learned classes only: how every coder does on others.",
    sets=tuple(SETS),
    protocol="Unseen-class retrieval: a third of the classes is kept from learning (Scene-15: 5 of 15, Caltech-101: "
    "30 of 102, digits: 3 of 10), and queries and database are halves of their images. Transfer: a coder learns "
    "Scene-15 and searches Caltech-101, and the other way round. Neighbour recall: the share of the ten nearest by "
    "cosine among the ten nearest by code. Coders see PCA-256 of the vectors. 64 bits, ranked by the weights "
    "of the coder if it has any; ties count by their expectation.",
    methods={RAW: "1 - cosine", **{name: method.text for name, method in METHODS.items()}},
    cells=cells,
    run=run,
    show=show,
    together=("protocol", "set", "repeat"),
    cost=(8.0, 2.0),
    independent=(RAW, *(name for name in METHODS if not name.startswith("C-BID"))),
)
