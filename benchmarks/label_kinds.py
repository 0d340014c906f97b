"""Labels of every kind: several labels per sample, trees of labels, and pairs.

- sets: scene, yeast and corel5k (Mulan) with their published splits. NDCG@10 (gains 2^shared labels - 1), ACG@10,
  weighted mAP and mAP (at least one shared label) of test samples against the training samples, tie-aware, for C-BID
  at 16 to 128 bits, the rivals that take several labels, ITQ and the raw vectors.
- tree: Caltech-101 embeddings (20 training and at most 40 test images a class) under ``TREE``, two levels written
  from the class names: hierarchical precision at 10, 5-NN of classes and of groups, with and without the tree.
- pairs: Scene-15 embeddings, 64 linear bits: 5-NN of ``fit`` on labels and of ``fit_pairs`` on 100 random pairs a
  sample.

    python -m benchmarks.label_kinds sets [--names scene yeast] [--seeds 5] [--validation]
    python -m benchmarks.label_kinds tree [--seeds 5] [--validation]
    python -m benchmarks.label_kinds pairs [--seeds 5] [--validation]
    python -m benchmarks.label_kinds table

``--validation`` queries with a part of the training samples and touches no test sample: settings were chosen there.
"""

import argparse
import os
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize

from benchmarks.results import add_line, load_lines
from benchmarks.scoring import hamming_rows, nearest_class
from cbid import CBID
from cbid.coders import CCAITQ, COSDISH, ITQ, KSH, SDH, FastHash
from cbid.evaluation import (
    acg_at,
    average_precision,
    hierarchical_precision_at,
    ndcg_at,
    tree_similarity,
    weighted_average_precision,
)
from cbid.paper.sets import open_set

NAME = "label_kinds"
BITS = (16, 32, 64, 128)
FIGURES = ("ndcg10", "acg10", "wmap", "map")
# Chosen with --validation.
OURS = {"likeness": 0.0, "kernel": "rbf"}
METHODS = {
    "C-BID": lambda t, seed: CBID(n_bits=t, random_state=seed, **OURS),
    "C-BID, linear": lambda t, seed: CBID(n_bits=t, random_state=seed, likeness=0.0, kernel=None),
    "CCA-ITQ": lambda t, seed: CCAITQ(n_bits=t, random_state=seed),
    "KSH": lambda t, seed: KSH(n_bits=t, random_state=seed),
    "SDH": lambda t, seed: SDH(n_bits=t, random_state=seed),
    "COSDISH": lambda t, seed: COSDISH(n_bits=t, kernel="rbf", random_state=seed),
    "FastHash": lambda t, seed: FastHash(n_bits=t, random_state=seed),
    "ITQ": lambda t, seed: ITQ(n_bits=t, random_state=seed),
}
PREFIXES = {"C-BID", "C-BID, linear"}  # one fit gives all lengths
NO_SLOW = {"corel5k": {"FastHash"}}  # left out: time grows with n_bits n^2
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


def run_sets(names, seeds, validation, methods, lengths=BITS):
    for name in names:
        for seed in seeds:
            X, Y, Xq, Yq = sets_data(name, seed, validation)
            cell = {"part": "sets", "set": name, "seed": seed, "validation": validation}
            if "raw" in methods and (seed == 0 or validation):
                keep(cell | {"method": "raw", "bits": 0} | graded(raw_rows(X, Xq), Yq, Y))
            for method in [m for m in METHODS if m in methods and m not in NO_SLOW.get(name, ())]:
                if method in PREFIXES:
                    seconds, coder = timed(METHODS[method](lengths[-1], seed), X, Y)
                    coders = [coder.truncate(t) for t in lengths]
                else:
                    usable = [t for t in lengths if method != "ITQ" or t <= X.shape[1]]
                    fits = [timed(METHODS[method](t, seed), X, None if method == "ITQ" else Y) for t in usable]
                    seconds, coders = sum(s for s, _ in fits), [coder for _, coder in fits]
                for coder in coders:
                    rows = hamming_rows(coder.transform(X), coder.transform(Xq), getattr(coder, "weights_", None))
                    line = {"method": method, "bits": coder.n_bits_, "seconds": seconds}
                    keep(cell | line | graded(rows, Yq, Y))


def timed(coder, X, Y):
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (UserWarning, ConvergenceWarning))
        coder.fit(X, Y) if Y is not None else coder.fit(X)
    return time.perf_counter() - start, coder


def keep(line):
    add_line(NAME, line)
    print({k: round(v, 4) if isinstance(v, float) else v for k, v in line.items()}, flush=True)


def embeddings(name, seed, n_train, n_test, validation):
    """Return vectors, class names and rows for training and queries, drawn by the seed."""
    images = open_set(name)
    X, y = normalize(images.part("embeddings").astype(np.float32)), np.asarray(images.classes)[images.labels]
    rng = np.random.default_rng(seed)
    train, test = [], []
    for c in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == c))
        count = min(n_train, len(rows) // 2)
        if validation:
            train.append(rows[: 3 * count // 4])
            test.append(rows[3 * count // 4 : count])
        else:
            train.append(rows[:count])
            test.append(rows[count : count + n_test])
    return X, y, np.concatenate(train), np.concatenate(test)


def run_tree(seeds, validation, n_bits=64):
    for seed in seeds:
        X, y, train, test = embeddings("caltech101", seed, 20, 40, validation)
        names, numbers = np.unique(y, return_inverse=True)
        groups = np.unique([TREE[name] for name in names], return_inverse=True)[1][numbers]
        similarity = tree_similarity(names.tolist(), names.tolist(), TREE)
        for method, tree in (("flat", None), ("tree", TREE)):
            coder = CBID(n_bits=n_bits, likeness=0.0, random_state=seed).fit(X[train], y[train], tree=tree)
            for t in (16, n_bits):
                short = coder.truncate(t)
                hits = defaultdict(list)
                start = 0
                for D in hamming_rows(short.transform(X[train]), short.transform(X[test]), short.weights_):
                    rows = test[start : start + len(D)]
                    start += len(D)
                    near = similarity[np.ix_(numbers[rows], numbers[train])]
                    hits["hp10"].append(hierarchical_precision_at(D, near, 10))
                    hits["fine"].append(nearest_class(D, numbers[train]) == numbers[rows])
                    hits["coarse"].append(nearest_class(D, groups[train]) == groups[rows])
                found = {figure: float(np.mean(np.concatenate(v))) for figure, v in hits.items()}
                cell = {"part": "tree", "seed": seed, "validation": validation, "method": method, "bits": t}
                keep(cell | found | {"levels": getattr(coder, "levels_", np.array([n_bits])).tolist()})


def run_pairs(seeds, validation):
    for seed in seeds:
        X, y, train, test = embeddings("scene15", seed, 100, 1000, validation)
        numbers = np.unique(y, return_inverse=True)[1]
        rng = np.random.default_rng(seed)
        n = len(train)
        left, right = np.repeat(np.arange(n), 50), rng.integers(n, size=50 * n)  # each sample is in about 100 pairs
        left, right = left[left != right], right[left != right]
        same = numbers[train][left] == numbers[train][right]
        settings = {"n_bits": 64, "likeness": 0.0, "kernel": "linear", "random_state": seed}
        by_label = CBID(**settings).fit(X[train], y[train])
        by_pair = CBID(**settings).fit_pairs(X[train], left, right, same)
        for method, coder in (("fit", by_label), ("fit_pairs", by_pair)):
            rows = hamming_rows(coder.transform(X[train]), coder.transform(X[test]), coder.weights_)
            found = np.concatenate([nearest_class(D, numbers[train]) for D in rows])
            cell = {"part": "pairs", "seed": seed, "validation": validation, "method": method, "bits": 64}
            keep(cell | {"knn": float((found == numbers[test]).mean())})


def table():
    """Print the means over seeds of the test results, and the cells where C-BID is behind."""
    cells = defaultdict(lambda: defaultdict(list))
    for line in load_lines(NAME):
        if not line["validation"]:
            key = (line["part"], line.get("set", ""), line["method"], line["bits"])
            for figure in (*FIGURES, "hp10", "fine", "coarse", "knn"):
                if figure in line:
                    cells[key][figure].append(line[figure])
    for key, figures in cells.items():
        print(key, {f: f"{np.mean(v):.4f}" for f, v in figures.items()}, f"seeds {len(next(iter(figures.values())))}")
    ahead = total = 0
    for (part, name, method, bits), ours in cells.items():
        if part != "sets" or method != "C-BID":
            continue
        others = {m: f for (p, s, m, b), f in cells.items() if p == part and s == name and b in (bits, 0)
                  and not m.startswith("C-BID")}  # fmt: skip
        for figure in FIGURES:
            best = max(others, key=lambda m: np.mean(others[m][figure]))
            distance = np.mean(ours[figure]) - np.mean(others[best][figure])
            total += 1
            ahead += distance > 0
            if distance <= 0:
                print(f"behind: {name}, {bits} bits, {figure}: {distance:+.4f} ({best})")
    print(f"ahead in {ahead} of {total} cells")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=("sets", "tree", "pairs", "table"))
    parser.add_argument("--names", nargs="+", default=("scene", "yeast", "corel5k"))
    parser.add_argument("--methods", nargs="+", default=("raw", *METHODS))
    parser.add_argument("--bits", nargs="+", type=int, default=BITS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--validation", action="store_true")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.step == "sets":
        run_sets(options.names, seeds, options.validation, options.methods, options.bits)
    elif options.step == "tree":
        run_tree(seeds, options.validation)
    elif options.step == "pairs":
        run_pairs(seeds, options.validation)
    else:
        table()


if __name__ == "__main__":
    main()
