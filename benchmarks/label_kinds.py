"""Labels of every kind: several labels per sample, trees of labels, and pairs.

- sets: scene, yeast and corel5k (Mulan) with their published splits. NDCG@10 (gains 2^shared labels - 1), ACG@10,
  weighted mAP and mAP (at least one shared label) of test samples against the training samples, tie-aware, for C-BID
  at 16 to 128 bits, the rivals that take several labels, ITQ and the raw vectors. The seed is the coder's.
- tune: measures the settings in ``GRIDS`` for each set and method, at 32 bits, on a fifth of the training samples.
- cost: processor time of encoding a sample and bytes of the saved coder, for C-BID and FastHash at 64 bits.
- tree: Caltech-101 embeddings (5, 10 or 20 training and at most 40 test images a class) under ``TREE``, two levels
  written from the class names: hierarchical precision at 10, mAHP at 50, 5-NN of classes and of groups, with and
  without the tree. Ten neighbours among 20 images of a class leave no place for its relatives, among 5 they do.
- pairs: Scene-15 embeddings, 64 linear bits: 5-NN of ``fit`` on labels and of ``fit_pairs`` on 100 random pairs a
  sample.

    python -m benchmarks.label_kinds tune [--names scene yeast]
    python -m benchmarks.label_kinds sets [--names scene yeast] [--seeds 5]
    python -m benchmarks.label_kinds cost [--names scene yeast]
    python -m benchmarks.label_kinds tree [--seeds 5] [--images 5 20] [--validation]
    python -m benchmarks.label_kinds pairs [--seeds 5] [--validation]
    python -m benchmarks.label_kinds_report

Cells that are in the raw file are not run again. ``--validation`` queries with a part of the training samples and
touches no test sample: settings were chosen there. The report writes the tables of docs/labels.md.
"""

import argparse
import os
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.svm import SVC

from benchmarks.results import add_line, load_lines
from benchmarks.scoring import hamming_rows, nearest_class
from cbid import CBID
from cbid.coders import CCAITQ, COSDISH, ITQ, KSH, SDH, FastHash
from cbid.evaluation import (
    acg_at,
    average_hierarchical_precision,
    average_precision,
    hierarchical_precision_at,
    ndcg_at,
    tree_similarity,
    weighted_average_precision,
)
from cbid.learning import graded as graded_rows
from cbid.paper.sets import open_set

NAME = "label_kinds"
BITS = (16, 32, 64, 128)
TREE_BITS = (16, 32, 64)
TREE_IMAGES = (5, 10, 20)  # training images a class
FIGURES = ("ndcg10", "acg10", "wmap", "map")
CODERS = {
    "C-BID": CBID, "CCA-ITQ": CCAITQ, "KSH": KSH, "SDH": SDH, "COSDISH": COSDISH, "FastHash": FastHash, "ITQ": ITQ,
}  # fmt: skip
# Settings to choose from. The first is used where nothing was tuned: a default, but a kernel for COSDISH. C-BID has
# one setting for all sets: its fit chooses the form and the width of the kernel on the training samples.
GRIDS = {
    "C-BID": [{"likeness": 0.0, "n_anchors": 2000}],
    "CCA-ITQ": [{"reg": 1e-4}, {"reg": 1e-2}, {"reg": 1.0}],
    "KSH": [{"n_anchors": 300}, {"n_anchors": 1000}],
    "SDH": [{"ridge": 1e-2}, {"ridge": 1e-1}, {"ridge": 1.0}],
    "COSDISH": [
        {"kernel": "rbf"},
        {"kernel": None},
        {"kernel": "rbf", "ridge": 1e-2},
        {"kernel": "rbf", "ridge": 1e-4},
    ],
    "FastHash": [{"depth": 4}, {"depth": 6}, {"depth": 8}],
    "ITQ": [{}],
}
TUNED_AT = 32
COST_BITS = 64
# Two levels over Caltech-101: what a class is, by its name.
GROUPS = {
    "mammal": "beaver cougar_body cougar_face dalmatian elephant gerenuk hedgehog kangaroo Leopards llama okapi "
    "panda platypus rhino wild_cat",
    "bird": "emu flamingo flamingo_head ibis pigeon rooster",
    "reptile": "crocodile crocodile_head hawksbill brontosaurus stegosaurus",
    "insect": "ant butterfly dragonfly mayfly scorpion tick trilobite",
    "sea animal": "bass crab crayfish dolphin lobster nautilus octopus sea_horse starfish",
    "person and figure": "Faces Faces_easy buddha garfield snoopy brain",
    "plant and food": "bonsai joshua_tree lotus strawberry sunflower water_lilly pizza",
    "vehicle": "airplanes car_side ferry helicopter ketch Motorbikes schooner wheelchair inline_skate",
    "music": "accordion electric_guitar euphonium gramophone grand_piano mandolin metronome saxophone",
    "furniture and light": "ceiling_fan chair chandelier lamp menorah windsor_chair",
    "building": "minaret pagoda pyramid",
    "sign and paper": "dollar_bill stop_sign yin_yang soccer_ball",
    "tool and device": "anchor barrel binocular camera cannon cellphone cup ewer headphone laptop revolver scissors "
    "stapler umbrella watch wrench",
    "background": "BACKGROUND_Google",
}
TREE = {name: group for group, names in GROUPS.items() for name in names.split()}


def sets_data(name, seed, validation):
    """Return training vectors and labels, then those of the queries."""
    with np.load(Path(os.environ["CBID_DATA"]) / "multilabel" / f"{name}.npz", allow_pickle=False) as data:
        X, Y, train = data["X"].astype(np.float32), data["Y"].astype(np.int8), data["train"].astype(bool)
    if validation:
        X, Y = X[train], Y[train]
        train = np.random.default_rng(seed).permutation(len(X)) >= len(X) // 5
    return X[train], Y[train], X[~train], Y[~train]


def graded(blocks, Yq, Y):
    """Return the four figures from rows of distances."""
    sums, start = defaultdict(list), 0
    for D in blocks:
        gains = Yq[start : start + len(D)].astype(np.int64) @ Y.T.astype(np.int64)
        start += len(D)
        for figure, values in zip(
            FIGURES,
            (ndcg_at(D, gains, 10), acg_at(D, gains, 10), weighted_average_precision(D, gains),
             average_precision(D, gains > 0)),
        ):  # fmt: skip
            sums[figure].append(values)
    return {figure: float(np.nanmean(np.concatenate(values))) for figure, values in sums.items()}


def raw_rows(train, queries):
    for start in range(0, len(queries), 256):
        part = queries[start : start + 256].astype(np.float64)
        D = (part**2).sum(axis=1)[:, None] + (train.astype(np.float64) ** 2).sum(axis=1) - 2 * part @ train.T
        yield np.round(D, 9)


def run_tune(names, methods):
    """Measure every setting of the grids on a validation part."""
    for name in names:
        X, Y, Xq, Yq = sets_data(name, 0, True)
        for method in [m for m in methods if len(GRIDS[m]) > 1]:
            for settings in GRIDS[method]:
                cell = {"part": "tune", "set": name, "seed": 0, "validation": True, "method": method,
                        "settings": settings, "bits": TUNED_AT}  # fmt: skip
                if not known(cell):
                    seconds, coder = timed(CODERS[method](n_bits=TUNED_AT, random_state=0, **settings), X, Y)
                    keep(cell | {"seconds": seconds} | coder_figures(coder, X, Y, Xq, Yq))


def chosen(name, method):
    """Return the settings with the largest NDCG@10 + mAP on the validation part; the first of the grid."""
    lines = [v for v in load_lines(NAME) if (v["part"], v.get("set"), v["method"]) == ("tune", name, method)]
    return max(lines, key=lambda v: v["ndcg10"] + v["map"])["settings"] if lines else GRIDS[method][0]


def run_sets(names, seeds, methods, lengths):
    for name in names:
        X, Y, Xq, Yq = sets_data(name, 0, False)
        raw = {"part": "sets", "set": name, "seed": 0, "validation": False, "method": "raw", "bits": 0}
        if not known(raw):
            keep(raw | graded(raw_rows(X, Xq), Yq, Y))
        for seed in seeds:
            for method in methods:
                settings = chosen(name, method)
                cell = {"part": "sets", "set": name, "seed": seed, "validation": False, "method": method,
                        "settings": settings}  # fmt: skip
                wanted = [
                    t for t in lengths if not known(cell | {"bits": t}) and (method != "ITQ" or t <= X.shape[1])
                ]
                # One fit of C-BID gives all lengths.
                for t in wanted[-1:] if method == "C-BID" else wanted:
                    seconds, whole = timed(CODERS[method](n_bits=t, random_state=seed, **settings), X, Y)
                    for coder in [whole.truncate(t) for t in wanted] if method == "C-BID" else [whole]:
                        line = {"bits": coder.n_bits_, "seconds": seconds}
                        keep(cell | line | coder_figures(coder, X, Y, Xq, Yq))


def coder_figures(coder, X, Y, Xq, Yq):
    rows = hamming_rows(coder.transform(X), coder.transform(Xq), getattr(coder, "weights_", None))
    return graded(rows, Yq, Y)


def timed(coder, X, Y):
    """Return the processor time of a fit, and the coder."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coder.fit(X) if isinstance(coder, ITQ) else coder.fit(X, Y)
    return time.process_time() - start, coder


def run_cost(names):
    """What a code of ``COST_BITS`` costs: the least processor time of five runs over the queries, and the file."""
    for name in names:
        X, Y, Xq, _ = sets_data(name, 0, False)
        for method in ("C-BID", "FastHash"):
            cell = {"part": "cost", "set": name, "seed": 0, "validation": False, "method": method, "bits": COST_BITS}
            if known(cell):
                continue
            coder = timed(CODERS[method](n_bits=COST_BITS, random_state=0, **chosen(name, method)), X, Y)[1]
            coder.encode(Xq)  # compiled before it is timed
            seconds = []
            for _ in range(5):
                start = time.process_time()
                coder.encode(Xq)
                seconds.append(time.process_time() - start)
            with tempfile.TemporaryDirectory() as folder:
                coder.save(Path(folder) / "coder")
                size = (Path(folder) / "coder").stat().st_size
            keep(cell | {"microseconds": 1e6 * min(seconds) / len(Xq), "bytes": size})


def known(cell):
    """Return whether the raw file has this cell."""
    return any(all(line.get(key) == value for key, value in cell.items()) for line in load_lines(NAME))


def keep(line):
    add_line(NAME, line)
    print({k: round(v, 4) if isinstance(v, float) else v for k, v in line.items()}, flush=True)


def embeddings(name, seed, n_train, n_test, validation, kept=None):
    """Return vectors, class names and rows for training and queries, drawn by the seed.

    ``kept``: of how many training images a class to learn. The queries stay the same.
    """
    images = open_set(name)
    X, y = normalize(images.part("embeddings").astype(np.float32)), np.asarray(images.classes)[images.labels]
    rng = np.random.default_rng(seed)
    train, test = [], []
    for c in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == c))
        count = min(n_train, len(rows) // 2)
        if validation:
            train.append(rows[: 3 * count // 4][:kept])
            test.append(rows[3 * count // 4 : count])
        else:
            train.append(rows[:count][:kept])
            test.append(rows[count : count + n_test])
    return X, y, np.concatenate(train), np.concatenate(test)


def run_tree(seeds, validation, images):
    """Measure codes with and without the tree."""
    for seed in seeds:
        for kept in images:
            X, y, train, test = embeddings("caltech101", seed, 20, 40, validation, kept)
            names, numbers = np.unique(y, return_inverse=True)
            groups = np.unique([TREE[name] for name in names], return_inverse=True)[1][numbers]
            similarity = tree_similarity(names.tolist(), names.tolist(), TREE)
            cell = {"part": "tree", "images": kept, "seed": seed, "validation": validation}
            if kept >= 10:  # else ten neighbours are of several classes
                tell_limit(X, numbers, groups, similarity, train, test, cell)
            about = (similarity, numbers, groups, train, test)
            raw = cell | {"method": "raw", "bits": 0}
            if not known(raw):
                keep(raw | tree_figures(raw_rows(X[train], X[test]), *about))
            for (method, t), coder in tree_coders(X[train], y[train], cell):
                rows = hamming_rows(coder.transform(X[train]), coder.transform(X[test]), coder.weights_)
                keep(cell | {"method": method, "bits": t, "kernel": coder.kernel_} | tree_figures(rows, *about))


def tree_figures(blocks, similarity, numbers, groups, train, test):
    """Return the four figures from rows of distances of test to training images."""
    hits, start = defaultdict(list), 0
    for D in blocks:
        rows = test[start : start + len(D)]
        start += len(D)
        near = similarity[np.ix_(numbers[rows], numbers[train])]
        hits["hp10"].append(hierarchical_precision_at(D, near, 10))
        hits["mahp50"].append(average_hierarchical_precision(D, near, 50))
        hits["fine"].append(nearest_class(D, numbers[train]) == numbers[rows])
        hits["coarse"].append(nearest_class(D, groups[train]) == groups[rows])
    return {figure: float(np.mean(np.concatenate(values))) for figure, values in hits.items()}


def tree_coders(X, y, cell):
    """Yield coders with and without the tree, at each length, and the prefix of the longest one with the tree."""
    seed = cell["seed"]
    wanted = [t for t in TREE_BITS if not known(cell | {"method": "flat", "bits": t})]
    if wanted:  # prefixes of one code are the codes of these lengths
        flat = CBID(n_bits=wanted[-1], likeness=0.0, random_state=seed).fit(X, y)
        yield from ((("flat", t), flat.truncate(t)) for t in wanted)
    for t in TREE_BITS[1:]:
        if not known(cell | {"method": "tree", "bits": t}):
            coder = CBID(n_bits=t, likeness=0.0, random_state=seed).fit(X, y, tree=TREE)
            yield ("tree", t), coder
            yield (f"prefix of {t}", TREE_BITS[0]), coder.truncate(TREE_BITS[0])


def tell_limit(X, numbers, groups, similarity, train, test, cell):
    """What to expect of a code: SVMs on the vectors, as if all ten neighbours were of the class that an SVM names."""
    cell = cell | {"method": "svm", "bits": 0}
    if not known(cell):
        fine, coarse = (SVC(C=10).fit(X[train], of[train]).predict(X[test]) for of in (numbers, groups))
        found = {
            "hp10": similarity[numbers[test], fine],
            "fine": fine == numbers[test],
            "coarse": coarse == groups[test],
        }
        keep(cell | {figure: float(np.mean(values)) for figure, values in found.items()})


def run_pairs(seeds, validation, sides):
    """``sides``: dissimilar samples to a side of a row of ``fit_pairs``; one for the test, several to choose from."""
    for seed in seeds:
        X, y, train, test = embeddings("scene15", seed, 100, 1000, validation)
        numbers = np.unique(y, return_inverse=True)[1]
        rng = np.random.default_rng(seed)
        n = len(train)
        left, right = np.repeat(np.arange(n), 50), rng.integers(n, size=50 * n)  # each sample is in about 100 pairs
        left, right = left[left != right], right[left != right]
        same = numbers[train][left] == numbers[train][right]
        for method, side in (("fit", None), *(("fit_pairs", side) for side in sides)):
            cell = {
                "part": "pairs",
                "seed": seed,
                "validation": validation,
                "method": method,
                "bits": 64,
                "side": side,
            }
            if known(cell):
                continue
            coder = CBID(n_bits=64, likeness=0.0, kernel="linear", random_state=seed)
            if method == "fit":
                coder.fit(X[train], y[train])
            else:
                graded_rows._SIDE = side
                coder.fit_pairs(X[train], left, right, same)
            rows = hamming_rows(coder.transform(X[train]), coder.transform(X[test]), coder.weights_)
            found = np.concatenate([nearest_class(D, numbers[train]) for D in rows])
            keep(cell | {"knn": float((found == numbers[test]).mean())})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=("tune", "sets", "cost", "tree", "pairs"))
    parser.add_argument("--names", nargs="+", default=("scene", "yeast", "corel5k"))
    parser.add_argument("--methods", nargs="+", choices=CODERS, default=list(CODERS))
    parser.add_argument("--bits", nargs="+", type=int, default=BITS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--sides", nargs="+", type=int, default=[graded_rows._SIDE])
    parser.add_argument("--images", nargs="+", type=int, default=TREE_IMAGES)
    parser.add_argument("--validation", action="store_true")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.step == "tune":
        run_tune(options.names, options.methods)
    elif options.step == "sets":
        run_sets(options.names, seeds, options.methods, options.bits)
    elif options.step == "cost":
        run_cost(options.names)
    elif options.step == "tree":
        run_tree(seeds, options.validation, options.images)
    else:
        run_pairs(seeds, options.validation, options.sides)


if __name__ == "__main__":
    main()
