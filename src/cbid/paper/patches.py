"""Images classified by their patches: Table 1 of the paper, accuracy, storage and time of codes of 16 to 128 bits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from cbid import NBNNClassifier, PatchCBID
from cbid.bags import Bags
from cbid.coders import ITQ, LSH
from cbid.descriptors import DenseSIFT
from cbid.paper.base import Cell, Claim, Context, Experiment, Judgement, Results, Settings, on_every
from cbid.paper.over_bits import compare
from cbid.paper.report import Page, mean_and_deviation
from cbid.paper.sets import CATALOGUE, per_class
from cbid.pooling import AdditiveKernelMap, BagOfWords

SETS = ("scene15", "sports8", "caltech101-five", "graz02")  # the longest first, so that all workers end together
QUERIES, QUICK_QUERIES = 150, 60  # patches of a test image that are searched for
AT_ONCE = 25  # test images described at a time
TIMED_IMAGES = 3
_SECONDS = "seconds_per_image_and_class"
MOST_BITS = 128
LOCATION = 1.0  # weight of a patch's location; chosen by benchmarks/patch_study.py, like the defaults of PatchCBID
Make = Callable[[int, Any], Any]  # from the seed and the fitted C-BID of 128 bits to an estimator over bags


@dataclass(frozen=True)
class Published:
    """A row of Table 1: accuracy and deviation in percent by set, kilobytes an image, seconds an image and class."""

    accuracy: dict[str, tuple[float, float]]
    storage: float
    seconds: float | None


@dataclass(frozen=True)
class Method:
    """A row of the table: its title, how to make the estimator, and the paper's row if it has one."""

    title: str
    make: Make
    published: Published | None = None


def _row(title: str, make: Make, *published: Any) -> Method:
    """Return a row of the paper's table; ``published`` is in the order of its columns."""
    *accuracies, storage, seconds = published
    names = ("graz02", "caltech101-five", "sports8", "scene15")
    return Method(title, make, Published(dict(zip(names, accuracies, strict=True)), storage, seconds))


def _bag_of_words(seed: int, cbid: Any) -> Any:
    """600 words in 2 x 2 and 4 x 4 cells, 20 in all, and three features for each count: 36,000 an image."""
    words = BagOfWords(n_words=600, pyramid=(2, 4), level_weights=None, random_state=seed)
    return make_pipeline(words, AdditiveKernelMap(sample_steps=2), LinearSVC(C=10, random_state=seed))


def _nbnn(coder: Any = None, **settings: Any) -> Make:
    """NBNN on descriptors, or on codes of 128 bits if a class of coders is given."""
    return lambda seed, cbid: NBNNClassifier(
        coder=coder and coder(n_bits=MOST_BITS, random_state=seed), random_state=seed, **settings
    )


def _prefix(n_bits: int, **settings: Any) -> Make:
    """NBNN on the first bits of C-BID."""
    return lambda seed, cbid: NBNNClassifier(coder=cbid.truncate(n_bits), random_state=seed, **settings)


# Published columns: Graz-02, Caltech-101, Sports-8, Scene-15, storage, time.
METHODS = {
    "bow": _row(
        "bag of words, kernel map, SVM",
        _bag_of_words,
        *((70.67, 5.7), (86.88, 2.2), (57.40, 3.1), (55.73, 2.4), 141.0, None),
    ),
    "exact": _row("NBNN, exact", _nbnn(), (70.40, 7.9), (84.96, 4.0), (62.20, 3.4), (54.72, 2.6), 5000.0, 78.8),
    "bbf": _row(
        "NBNN, best bin first",
        _nbnn(search="kd-tree", checks=500),
        *((67.47, 6.0), (84.64, 3.9), (59.60, 4.1), (53.97, 2.1), 5000.0, 1.55),
    ),
    "lsh": _row(
        "NBNN, LSH", _nbnn(search="lsh"), (62.93, 5.3), (84.80, 3.0), (51.70, 3.6), (40.21, 4.7), 5000.0, 3.83
    ),
    "pca256": _row(
        "NBNN, PCA, 256 bits",
        _nbnn(search="pca", n_components=8),
        *((66.13, 6.6), (74.72, 3.6), (48.40, 5.2), (46.24, 2.1), 312.5, 5.50),
    ),
    "pca512": _row(
        "NBNN, PCA, 512 bits",
        _nbnn(search="pca", n_components=16),
        *((68.80, 8.3), (83.04, 4.9), (54.70, 3.9), (54.67, 1.8), 625.0, 8.62),
    ),
    "cbid16": _row(
        "C-BID, 16 bits", _prefix(16), (65.87, 11.4), (73.12, 7.0), (42.70, 3.4), (30.03, 1.9), 19.5, 0.15
    ),
    "cbid32": _row("C-BID, 32 bits", _prefix(32), (67.73, 9.4), (80.96, 4.8), (56.90, 3.4), (54.51, 1.8), 39.1, 0.24),
    "cbid128": _row(
        "C-BID, 128 bits", _prefix(128), (72.27, 7.4), (86.24, 4.2), (63.00, 4.3), (57.28, 2.8), 156.3, 1.11
    ),
    "itq128": Method("ITQ, 128 bits", _nbnn(ITQ)),
    "lsh128": Method("random hyperplanes, 128 bits", _nbnn(LSH)),
    "local128": Method("local NBNN, C-BID, 128 bits", _prefix(128, local=True)),
}
# What the location of patches adds. In the table C-BID has it and the other methods do not.
PLACE_METHODS = {
    "unplaced128": Method("C-BID, 128 bits, place left out", _nbnn(PatchCBID)),
    "placed": Method("NBNN, exact, with place", _nbnn(location=LOCATION)),
    "itq128placed": Method("ITQ, 128 bits, with place", _nbnn(ITQ, location=LOCATION)),
}
PREFIXES = ("cbid16", "cbid32", "cbid128", "local128")
SLOW = ("exact", "bbf", "lsh")  # timed on one image


def learn_cbid(bags: Bags, labels: NDArray[Any], seed: int) -> PatchCBID:
    """Return the coder of 128 bits whose prefixes are the codes of all lengths."""
    return PatchCBID(n_bits=MOST_BITS, location=LOCATION, random_state=seed).fit(bags, labels)


def cells(present: Sequence[str], quick: bool) -> list[Settings]:
    """Return all methods on five draws; in a quick run on one draw of three classes, with fewer patches."""
    sizes: Settings = {"train": 10, "test": 25, "classes": None, "step": 2, "queries": QUERIES}
    if quick:
        sizes = {"train": 4, "test": 6, "classes": 3, "step": 6, "queries": QUICK_QUERIES}
    names = [name for name in SETS if name in present and (not quick or name in ("caltech101-five", "graz02"))]
    return [
        {"set": name, "repeat": repeat, "method": method, **sizes}
        for name in names
        for repeat in range(1 if quick else 5)
        for method in METHODS
    ]


def sampled(images: Any, most: int, seed: int, also: Callable[[Bags], Any] | None = None, **settings: Any) -> Bags:
    """Return bags of ``most`` patches of each image; ``also`` is called with whole bags, some images at a time."""
    rng = np.random.default_rng(seed)
    parts = []
    for start in range(0, len(images), AT_ONCE):
        bags = DenseSIFT(**settings).transform(images[start : start + AT_ONCE])
        parts.append(bags.sample(most, rng))
        if also is not None:
            also(bags)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([part.sizes for part in parts]))]).astype(np.int64)
    values, frames, shapes = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "frames", "shapes")
    )
    return Bags(values, offsets, frames, shapes)


def run(cells: list[Settings], context: Context) -> Iterator[Cell]:
    """Run all methods on one draw, with the same descriptors and queries; the bag of words sees whole images."""
    first = cells[0]
    data = context.open(first["set"])
    assert data.labels is not None
    split = (
        data.split("patches", first["repeat"])
        if first["classes"] is None
        else data.split_by(per_class(first["train"], 0, first["test"]), first["repeat"])
    )
    most = first["classes"] or len(np.unique(data.labels))
    train_rows, test_rows = (rows[data.labels[rows] < most] for rows in (split.train, split.test))
    y, truth = data.labels[train_rows], data.labels[test_rows].tolist()
    train = DenseSIFT(step=first["step"]).transform(data.images[train_rows])
    wanted = {settings["method"]: settings for settings in cells}
    seed = first["repeat"]
    words = METHODS["bow"].make(seed, None).fit(train, y) if "bow" in wanted else None
    by_words: list[int] = []

    def classify_by_words(bags: Bags) -> None:
        if words is not None:
            by_words.extend(words.predict(bags).tolist())

    queries = sampled(data.images[test_rows], first["queries"], seed, classify_by_words, step=first["step"])
    cbid = learn_cbid(train, y, seed) if any(m in wanted for m in PREFIXES) else None
    for method, settings in wanted.items():
        if words is not None and method == "bow":
            yield settings, {"truth": truth, "predicted": by_words, "bytes": 4.0 * words[-1].coef_.shape[1]}
            continue
        model = (METHODS | PLACE_METHODS)[method].make(seed, cbid).fit(train, y)
        found = {"truth": truth, "predicted": model.predict(queries), "bytes": float(model.storage_per_image_)}
        found["patches"] = float(train.sizes.mean())
        if seed == 0:  # one draw is enough
            # Time is for whole images; the queries above have compiled the kernels.
            whole = DenseSIFT(step=first["step"]).transform(data.images[test_rows[:: len(test_rows) // TIMED_IMAGES]])
            timed = model.evaluation_time(whole.take(np.arange(1 if method in SLOW else TIMED_IMAGES)))
            found[_SECONDS] = timed.total
        yield settings, found


def show(results: Results, page: Page) -> None:
    """Add the table of accuracies, and the table of storage and time."""
    names = results.distinct("set")
    head = ["", *(text for name in names for text in (f"{CATALOGUE[name].title}: here", "published"))]
    rows, costs = [], []
    for key in results.distinct("method"):
        method = METHODS[key]
        row = [method.title]
        for name in names:
            row.append(mean_and_deviation(results.measured("accuracy", set=name, method=key)))
            row.append("{:.1f} ± {:.1f}".format(*method.published.accuracy[name]) if method.published else "–")
        rows.append(row)
        costs.append(_costs(results.where(method=key), method))
    page.table("Accuracy, % (published: Table 1 of the paper)", head, rows)
    page.table(
        "Storage and time (published: Table 1, a Core i7 930)",
        ["", "kB an image: here", "published", "seconds for an image and a class: here", "published"],
        costs,
    )


def _costs(part: Results, method: Method) -> list[str]:
    """Return storage and time: means over the sets of means over their draws."""

    def mean(field: str) -> float | None:
        by_set = [
            [row[field] for row in part.where(set=name) if field in row.result] for name in part.distinct("set")
        ]
        means = [np.mean(values) for values in by_set if values]
        return float(np.mean(means)) if means else None

    size, seconds, published = mean("bytes"), mean(_SECONDS), method.published
    return [
        method.title,
        f"{size / 1000:,.1f}" if size is not None else "–",
        f"{published.storage:,.1f}" if published else "–",
        f"{seconds:.2g}" if seconds is not None else "–",
        f"{published.seconds:g}" if published and published.seconds else "–",
    ]


@on_every
def against(results: Results, ours: str, theirs: str) -> Iterator[Judgement]:
    """Compare the accuracy of two methods on every set."""
    for name in results.distinct("set"):
        a, b = (results.measured("accuracy", set=name, method=m) for m in (ours, theirs))
        if len(a) and len(a) == len(b):
            yield Judgement(bool(a.mean() > b.mean()), f"{CATALOGUE[name].title}: {compare(a, b)}.")


def best_on_average(results: Results) -> Judgement | None:
    """Compare C-BID at 128 bits with the methods of the paper's table, by the mean accuracy over the sets."""
    names = results.distinct("set")
    means = {}
    for m in results.distinct("method"):
        by_set = [results.measured("accuracy", set=name, method=m) for name in names]
        if METHODS[m].published is not None and all(len(values) for values in by_set):
            means[m] = float(np.mean([values.mean() for values in by_set]))
    if "cbid128" not in means:
        return None
    best = max(means, key=lambda m: means[m])
    figures = f"C-BID at 128 bits {100 * means['cbid128']:.1f} %, the best ({METHODS[best].title}) "
    return Judgement(best == "cbid128", f"Mean of the sets: {figures}{100 * means[best]:.1f} %.")


def smaller_and_faster(results: Results) -> Judgement | None:
    """Compare storage and time of C-BID at 32 bits with those of exact NBNN."""

    def mean(method: str, field: str) -> float:
        values = [row[field] for row in results.where(method=method) if field in row.result]
        return float(np.mean(values)) if values else np.nan

    smaller, faster = (mean("exact", field) / mean("cbid32", field) for field in ("bytes", _SECONDS))
    if np.isnan(faster):
        return None
    figures = f"32 bits take {smaller:.0f} times less storage than exact NBNN and {faster:.0f} times less time."
    return Judgement(bool(smaller >= 100 and faster > 10), figures)


EXPERIMENT = Experiment(
    name="patches",
    title="Patches: accuracy, storage, time",
    shows="Table 1 of the paper.",
    sets=SETS,
    protocol="Images of at most 150 pixels, dense SIFT at four scales, 10 training and 25 test images a class, five "
    "draws. All training patches are stored; 150 random patches of a test image are searched for, the same for all "
    "methods (the bag of words uses all patches). Time is for whole images of the first draw in one thread, coding "
    "included, describing and building excluded.",
    methods={method.title: "" if method.published else "not in the paper’s table" for method in METHODS.values()},
    metrics=("accuracy",),
    cells=cells,
    run=run,
    show=show,
    together=("set", "repeat"),
    apart=SLOW,
    claims=(
        Claim("128-bit patches beat exact NBNN", "Table 1", partial(against, ours="cbid128", theirs="exact")),
        Claim("128 bits beat SIFT (PCA) of 512 bits", "Table 1", partial(against, ours="cbid128", theirs="pca512")),
        Claim("C-BID at 128 bits is the most accurate on average", "Table 1", best_on_average),
        Claim("32 bits take 128 times less room than NBNN, and much less time", "Table 1", smaller_and_faster),
    ),
    cost=(50.0, 3.0),
)
