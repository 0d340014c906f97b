"""Images classified by their patches: Table 1 of the paper, accuracy, storage and time of codes of 16 to 128 bits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
from cbid.paper.base import (
    PATCH_BITS,
    Cell,
    Claim,
    Context,
    Experiment,
    Judgement,
    Results,
    Settings,
    by_test,
    grid,
    on_every,
)
from cbid.paper.report import Page, mean_and_deviation
from cbid.paper.sets import CATALOGUE, per_class
from cbid.pooling import AdditiveKernelMap, BagOfWords

SETS = ("scene15", "sports8", "caltech101-five", "graz02")  # the longest first, so that all workers end together
FULL_QUERIES, QUERIES = 1000, 150  # patches of a test image that are searched for
SIZES: Settings = {"train": 10, "test": 25, "classes": None, "step": 2}
QUICK_SIZES: Settings = {"train": 4, "test": 6, "classes": 3, "step": 6, "queries": 60}
DRAWS, CODER_SEEDS = 5, 2
AT_ONCE = 25  # test images described at a time
TIMED_IMAGES = 3
_SECONDS = "seconds_per_image_and_class"
MOST_BITS = 128
LOCATION = 1.0  # weight of a patch's location; chosen by benchmarks/patch_study.py, like the defaults of PatchCBID
PLACED = "_placed"  # ending of the names of methods with place
# From the seed and the fitted C-BID of 128 bits, for methods that use its prefixes, to an estimator over bags.
Make = Callable[[int, Any], Any]


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
    placed: bool = False

    @property
    def coded(self) -> bool:
        """Whether it has codes, which depend on a seed."""
        return "bits" in self.title and "PCA" not in self.title


def _bag_of_words(seed: int, cbid: Any) -> Any:
    """600 words in 2 x 2 and 4 x 4 cells, 20 in all, and three features for each count: 36,000 an image."""
    words = BagOfWords(n_words=600, pyramid=(2, 4), level_weights=None, random_state=seed)
    return make_pipeline(words, AdditiveKernelMap(sample_steps=2), LinearSVC(C=10, random_state=seed))


def _nbnn(coder: Any = None, n_bits: int | None = None, *, decision: str = "nearest", **settings: Any) -> Make:
    """NBNN on descriptors, or on codes if a class of coders is given; without factors of classes by default."""
    return lambda seed, cbid: NBNNClassifier(
        coder=coder and coder(n_bits=n_bits or MOST_BITS, random_state=seed),
        decision=decision,
        random_state=seed,
        **settings,
    )


def _prefix(n_bits: int, **settings: Any) -> Make:
    """NBNN on the first bits of C-BID, which has the place itself; with factors of classes, its default."""
    return lambda seed, cbid: NBNNClassifier(coder=cbid.truncate(n_bits), random_state=seed, **settings)


# Table 1: accuracies and deviations on Graz-02, Caltech-101, Sports-8 and Scene-15, storage, time.
_TABLE: dict[str, tuple[Any, ...]] = {
    "bow": ((70.67, 5.7), (86.88, 2.2), (57.40, 3.1), (55.73, 2.4), 141.0, None),
    "exact": ((70.40, 7.9), (84.96, 4.0), (62.20, 3.4), (54.72, 2.6), 5000.0, 78.8),
    "bbf": ((67.47, 6.0), (84.64, 3.9), (59.60, 4.1), (53.97, 2.1), 5000.0, 1.55),
    "lsh": ((62.93, 5.3), (84.80, 3.0), (51.70, 3.6), (40.21, 4.7), 5000.0, 3.83),
    "pca256": ((66.13, 6.6), (74.72, 3.6), (48.40, 5.2), (46.24, 2.1), 312.5, 5.50),
    "pca512": ((68.80, 8.3), (83.04, 4.9), (54.70, 3.9), (54.67, 1.8), 625.0, 8.62),
    "cbid16": ((65.87, 11.4), (73.12, 7.0), (42.70, 3.4), (30.03, 1.9), 19.5, 0.15),
    "cbid32": ((67.73, 9.4), (80.96, 4.8), (56.90, 3.4), (54.51, 1.8), 39.1, 0.24),
    "cbid128": ((72.27, 7.4), (86.24, 4.2), (63.00, 4.3), (57.28, 2.8), 156.3, 1.11),
}
PUBLISHED = {
    key: Published(dict(zip(("graz02", "caltech101-five", "sports8", "scene15"), accuracies)), storage, seconds)
    for key, (*accuracies, storage, seconds) in _TABLE.items()
}
_RIVALS = (("itq", "ITQ", ITQ), ("lsh", "random hyperplanes", LSH))
_LENGTHS = (32, MOST_BITS)
UNPLACED = {
    "bow": Method("bag of words, kernel map, SVM", _bag_of_words, PUBLISHED["bow"]),
    "exact": Method("NBNN, exact", _nbnn(), PUBLISHED["exact"]),
    "bbf": Method("NBNN, best bin first", _nbnn(search="kd-tree", checks=500), PUBLISHED["bbf"]),
    "lsh": Method("NBNN, LSH", _nbnn(search="lsh"), PUBLISHED["lsh"]),
    "pca256": Method("NBNN, PCA, 256 bits", _nbnn(search="pca", n_components=8), PUBLISHED["pca256"]),
    "pca512": Method("NBNN, PCA, 512 bits", _nbnn(search="pca", n_components=16), PUBLISHED["pca512"]),
    "cbid16": Method("C-BID, 16 bits", _prefix(16), PUBLISHED["cbid16"]),
    "cbid32": Method("C-BID, 32 bits", _prefix(32), PUBLISHED["cbid32"]),
    "cbid128": Method("C-BID, 128 bits", _prefix(128), PUBLISHED["cbid128"]),
    "paper128": Method("C-BID, Eq. 2 as printed, 128 bits", _nbnn(PatchCBID.paper)),
    **{f"{key}{n}": Method(f"{title}, {n} bits", _nbnn(coder, n)) for key, title, coder in _RIVALS for n in _LENGTHS},
    **{f"nearest{n}": Method(f"C-BID, {n} bits, no factors", _prefix(n, decision="nearest")) for n in _LENGTHS},
    **{
        f"{key}balanced{n}": Method(f"{title}, {n} bits, class factors", _nbnn(coder, n, decision="balanced"))
        for key, title, coder in _RIVALS
        for n in _LENGTHS
    },
    "corrected128": Method("C-BID, 128 bits, Behmo’s correction", _prefix(128, decision="corrected")),
    "itqcorrected128": Method("ITQ, 128 bits, Behmo’s correction", _nbnn(ITQ, decision="corrected")),
    "kernel128": Method("C-BID, 128 bits, NBNN kernel", _prefix(128, decision="kernel")),
    "itqkernel128": Method("ITQ, 128 bits, NBNN kernel", _nbnn(ITQ, decision="kernel")),
    "local128": Method("local NBNN, C-BID, 128 bits", _prefix(128, local=True)),
}
PREFIXES = ("cbid16", "cbid32", "cbid128", "nearest32", "nearest128", "corrected128", "kernel128", "local128")

RIVALS = tuple(k + e for k in UNPLACED if k not in PREFIXES and k != "paper128" for e in ("", PLACED))  # no C-BID


def _with_place(key: str, method: Method) -> Method:
    """The same method with the place of patches, appended to the descriptor before coding."""

    def make(seed: int, cbid: Any) -> Any:
        model = method.make(seed, cbid)
        return model if key in PREFIXES else model.set_params(location=LOCATION)

    return Method(f"{method.title}, with place", make, placed=True)


# The bag of words has cells, and with them places, of its own.
METHODS = UNPLACED | {key + PLACED: _with_place(key, method) for key, method in UNPLACED.items() if key != "bow"}
SLOW = tuple(key + ending for key in ("exact", "bbf", "lsh") for ending in ("", PLACED))  # timed on one image
# In how many draws the reduced form has the methods that would take it beyond 90 minutes; the others in all five.
_BESIDE = ("corrected128", "itqcorrected128", "paper128")
FEWER_DRAWS = {
    **dict.fromkeys((key + PLACED for key in ("bbf", "lsh", "pca256", "pca512", "cbid16", "local128", *_BESIDE)), 0),
    **dict.fromkeys((key + ending for key in ("kernel128", "itqkernel128") for ending in ("", PLACED)), 0),
    **dict.fromkeys(("bow", "bbf", "lsh", "pca256", "pca512", "local128", "exact", "exact" + PLACED, *_BESIDE), 1),
    **dict.fromkeys((key + PLACED for key in ("nearest32", "nearest128", "lshbalanced32", "lshbalanced128")), 2),
    "cbid16": 2,
}


def learn_cbid(bags: Bags, labels: NDArray[Any], seed: int, *, placed: bool) -> PatchCBID:
    """Return the coder of 128 bits whose prefixes are the codes of all lengths."""
    location = LOCATION if placed else None
    return PatchCBID(n_bits=MOST_BITS, location=location, random_state=seed).fit(bags, labels)


def cells(present: Sequence[str], quick: bool) -> list[Settings]:
    """Return the cells of the reduced form; in a quick run one draw of three classes, with fewer patches."""
    sizes = QUICK_SIZES if quick else SIZES | {"queries": QUERIES}
    names = [name for name in SETS if name in present and (not quick or name in ("caltech101-five", "graz02"))]
    found = grid(set=names, repeat=range(1 if quick else DRAWS), method=METHODS)
    return [c | sizes for c in found if quick or c["repeat"] < FEWER_DRAWS.get(c["method"], DRAWS)]


def full_cells(present: Sequence[str], quick: bool) -> list[Settings]:
    """Return all methods on five draws with 1,000 queries, and two coder seeds for each draw."""
    if quick:
        return [{**cell, "coder_seed": 0} for cell in cells(present, True)]
    names = [name for name in SETS if name in present]
    found = grid(set=names, repeat=range(DRAWS), coder_seed=range(CODER_SEEDS), method=METHODS)
    sizes = SIZES | {"queries": FULL_QUERIES}
    return [c | sizes for c in found if c["coder_seed"] == 0 or METHODS[c["method"]].coded]


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
    seed = first["repeat"] + DRAWS * first.get("coder_seed", 0)
    words = METHODS["bow"].make(seed, None).fit(train, y) if "bow" in wanted else None
    by_words: list[int] = []

    def classify_by_words(bags: Bags) -> None:
        if words is not None:
            by_words.extend(words.predict(bags).tolist())

    queries = sampled(
        data.images[test_rows], first["queries"], first["repeat"], classify_by_words, step=first["step"]
    )
    cbid: dict[bool, PatchCBID] = {}
    for method, settings in wanted.items():
        if words is not None and method == "bow":
            yield settings, {"truth": truth, "predicted": by_words, "bytes": 4.0 * words[-1].coef_.shape[1]}
            continue
        about = METHODS[method]
        if method.removesuffix(PLACED) in PREFIXES and about.placed not in cbid:
            cbid[about.placed] = learn_cbid(train, y, seed, placed=about.placed)
        model = about.make(seed, cbid.get(about.placed)).fit(train, y)
        found = {"truth": truth, "predicted": model.predict(queries), "bytes": float(model.storage_per_image_)}
        found["patches"] = float(train.sizes.mean())
        if seed == 0:  # one draw and one seed are enough
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
    sizes, seconds = (
        [mean for _, of in part.by("set") if not np.isnan(mean := _mean(of, field))] for field in ("bytes", _SECONDS)
    )
    published = method.published
    return [
        method.title,
        f"{np.mean(sizes) / 1000:,.1f}" if sizes else "–",
        f"{published.storage:,.1f}" if published else "–",
        f"{np.mean(seconds):.2g}" if seconds else "–",
        f"{published.seconds:g}" if published and published.seconds else "–",
    ]


def _mean(results: Results, field: str) -> float:
    """Return the mean of a field of the results that have it, or NaN."""
    values = [row[field] for row in results if field in row.result]
    return float(np.mean(values)) if values else np.nan


def by_draw(results: Results, name: str, method: str) -> dict[int, float]:
    """Return the accuracy of a method on each draw of a set, the mean over the coder seeds."""
    draws = dict.fromkeys(sorted({row["repeat"] for row in results.where(set=name, method=method)}))
    return {r: float(results.measured("accuracy", set=name, method=method, repeat=r).mean()) for r in draws}


@on_every
def against(results: Results, ours: str, theirs: str, points: float = 0.0) -> Iterator[Judgement]:
    """Compare the accuracy of two methods on the draws that both have, on every set.

    A claim of ``points`` is that the difference is at least as large; a negative number allows to be behind.
    """
    for name in results.distinct("set"):
        one, two = (by_draw(results, name, method) for method in (ours, theirs))
        both = [draw for draw in one if draw in two]
        if both:
            a, b = (np.array([of[draw] for draw in both]) for of in (one, two))
            yield by_test(a, b, f"{CATALOGUE[name].title}: ", slack=-points / 100)


def best_on_average(results: Results) -> Judgement | None:
    """Compare C-BID at 128 bits with the methods of the paper's table, by the mean accuracy over the sets."""
    means: dict[str, dict[int, float]] = {}  # by method and draw, over the sets
    for m in results.distinct("method"):
        if METHODS[m].published is not None:
            by_set = [by_draw(results, name, m) for name in results.distinct("set")]
            shared = set.intersection(*(set(of) for of in by_set))
            if shared:
                means[m] = {draw: float(np.mean([of[draw] for of in by_set])) for draw in sorted(shared)}
    ours = means.pop("cbid128", None)
    if ours is None or not means:
        return None
    best = max(means, key=lambda m: float(np.mean(list(means[m].values()))))
    both = [draw for draw in ours if draw in means[best]]
    a, b = (np.array([of[draw] for draw in both]) for of in (ours, means[best]))
    return by_test(a, b, f"Mean of the sets, C-BID at 128 bits and the best other ({METHODS[best].title}): ")


def smaller_and_faster(results: Results) -> Judgement | None:
    """Compare storage and time of C-BID at 32 bits with those of exact NBNN."""
    exact, coded = results.where(method="exact"), results.where(method="cbid32")
    smaller, faster = (_mean(exact, field) / _mean(coded, field) for field in ("bytes", _SECONDS))
    if np.isnan(faster):
        return None
    figures = f"32 bits take {smaller:.0f} times less storage than exact NBNN and {faster:.0f} times less time."
    return Judgement(bool(smaller >= 100 and faster > 10), figures)


@on_every
def ann_trades(results: Results) -> Iterator[Judgement]:
    """Judge that best bin first is faster than exact NBNN and less accurate."""
    exact, bbf = (_mean(results.where(method=m), _SECONDS) for m in ("exact", "bbf"))
    accuracy = against(results, ours="exact", theirs="bbf")
    if accuracy is not None and not np.isnan(exact / bbf):
        figures = f"Best bin first takes {bbf:.2g} s for an image and class, exact {exact:.2g}."
        yield Judgement(bool(bbf < exact), figures)
        yield from accuracy.parts


def lsh_slower(results: Results) -> Judgement | None:
    """Judge that NBNN by LSH tables takes longer than codes of 128 bits."""
    lsh, codes = (_mean(results.where(method=m), _SECONDS) for m in ("lsh", "cbid128"))
    if np.isnan(lsh / codes):
        return None
    figures = f"LSH takes {lsh:.2g} s for an image and class, 128 bits of C-BID {codes:.2g}."
    return Judgement(bool(lsh > codes), figures)


_claim = partial(
    Claim,
    form="PatchCBID with its defaults; Eq. 2 as printed is a row of its own",
    data="Caltech-101 (five classes) and Scene-15; Graz-02 and Sports-8 only if present",
    information="labels of the training images for bits, NBNN and SVM alike; place, and class factors of "
    "rivals, only where the title says so",
)
_CLAIMS = (
    _claim("128-bit patches beat exact NBNN", "Table 1", partial(against, ours="cbid128", theirs="exact")),
    _claim("128 bits beat SIFT (PCA) of 512 bits", "Table 1", partial(against, ours="cbid128", theirs="pca512")),
    _claim("C-BID at 128 bits is the most accurate on average", "Table 1", best_on_average),
    _claim("32 bits take 128 times less room than NBNN, and much less time", "Table 1", smaller_and_faster),
    _claim("Approximate search (best bin first) trades accuracy for speed", "Table 1", ann_trades),
    _claim("NBNN by LSH takes longer than codes", "section on evaluation time", lsh_slower),
    *(
        _claim(
            f"{bits} bits: C-BID is {points} points above {rival}, {place} place",
            "not in the paper",
            partial(against, ours=f"cbid{bits}{ending}", theirs=f"{key}{bits}{ending}", points=points),
        )
        for bits, points in ((128, 2), (32, 4))
        for key, rival in (
            ("itq", "ITQ"),
            ("itqbalanced", "ITQ with class factors"),
            ("lsh", "random hyperplanes"),
            ("lshbalanced", "random hyperplanes with class factors"),
        )
        for place, ending in (("without", ""), ("with", PLACED))
    ),
)

EXPERIMENT = Experiment(
    name="patches",
    title="Patches: accuracy, storage, time",
    shows="Table 1 of the paper.",
    sets=SETS,
    protocol=f"Images of at most 150 pixels, dense SIFT at four scales, 10 training and 25 test images a class, "
    f"{DRAWS} draws. All training patches are stored; {QUERIES} random patches of a test image are searched for, the "
    "same for all methods (the bag of words uses all patches). Place, where a method has it, is appended to the "
    "descriptor before coding. Time is for whole images of the first draw in one thread, coding included, describing "
    f"and building excluded. The experiment patches_full has {FULL_QUERIES:,} queries, {CODER_SEEDS} coder seeds for "
    "each draw and all methods with place.",
    methods={method.title: "" if method.published else "not in the paper’s table" for method in METHODS.values()},
    metrics=("accuracy",),
    cells=cells,
    run=run,
    show=show,
    together=("set", "repeat"),
    apart=SLOW,
    scope=PATCH_BITS,
    independent=RIVALS,
    claims=_CLAIMS,
    cost=(28.0, 3.0),
)
# The full form takes about 40 hours of one core on Caltech-101 and Scene-15; it is run by its name alone.
FULL = replace(
    EXPERIMENT,
    name="patches_full",
    title="Patches with 1,000 queries",
    cells=full_cells,
    together=("set", "repeat", "coder_seed"),
    cost=(500.0, 3.0),
)
