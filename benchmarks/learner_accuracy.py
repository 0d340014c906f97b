"""Accuracy of the default settings on test splits: 5-NN accuracy / mean average precision, plain Hamming, five seeds.

    python -m benchmarks.learner_accuracy [accuracy] [ranking] [classes-{scene15,fashion,caltech101}]

accuracy:
- Scene-15 embeddings: one fit of 256 bits evaluated at its prefixes, on the given split (the seed is the coder's
  and orders the training rows) and on five random splits of the same size (the seed draws the split); and the RBF
  form. The first 1,000 test images of the given split are, except three, of the first five classes; they are listed
  separately because other figures of this set are for them alone.
- Fashion-MNIST, 2,000 training images, RBF form, against supervised discrete hashing with 1,000 anchors and the
  kernel width that was best on validation splits; the seed also draws the split.
- Fashion-MNIST, 10,000 training images, linear form, 128 bits, against 5-NN on the raw PCA-64 features.

ranking: mean average precision on Scene-15 in four ways: over all test images or the first 1,000, with ties in
random order (the expectation) or in the order of the training rows, which is the order of the classes. The training
rows of the first five classes come first, so both choices favour a method, most of all short or unsupervised codes.
Figures of different ways are not comparable.

classes: what likeness costs on learned classes. The default against ``CBID(likeness=0)``, both ranked by ``weights_``
(and plain Hamming), one fit of 256 bits and its prefixes, on the sets and splits of docs/rivals.md; one line per
seed and length.

Mean average precision is over the training set, tie-aware (cbid.evaluation) unless stated otherwise.
"""

import sys
from functools import partial

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from benchmarks import data
from benchmarks.results import add_line, load_lines, store
from benchmarks.rivals import DATA
from benchmarks.scoring import figures, hamming_rows, neighbour_accuracy, prefix_scores, scores
from cbid import CBID
from cbid.coders import ITQ, SDH
from cbid.evaluation import mean_average_precision

SEEDS = range(5)
FIRST = 1000
LENGTHS = (16, 32, 64, 128, 256)
SDH_WIDTHS = (1.0, 3.0, 6.0)  # multiples of 1 / (2 total variance), tried on validation splits
LinearSDH = partial(SDH, kernel=None)


def coder_scores(coder, split):
    X, y, Xt, yt = split
    return scores(coder.transform(X), y, coder.transform(Xt), yt)


def raw_accuracy(X, y, Xt, yt):
    return KNeighborsClassifier(5).fit(X, y).score(Xt, yt)


def scene(part="test", n_test=None, forms=(("cbid", None), ("cbid rbf", "rbf"))):
    result = {"raw": [], "itq": [], "sdh linear": [], **{method: [] for method, _ in forms}}
    for s in SEEDS:
        X, y, Xt, yt = data.scene15(part, s)
        split = X, y, Xt[:n_test], yt[:n_test]
        for method, make, lengths in (("itq", ITQ, (32, 64)), ("sdh linear", LinearSDH, (32, 64, 128))):
            coders = {length: make(n_bits=length, random_state=s).fit(X, y) for length in lengths}
            result[method].append({length: coder_scores(coder, split) for length, coder in coders.items()})
        for method, kernel in forms:
            coder = CBID(likeness=0, n_bits=256, kernel=kernel, random_state=s).fit(X, y)
            result[method].append(prefix_scores(coder, split, (16, 32, 64, 128, 256)))
        result["raw"].append(raw_accuracy(*split))
    return result


def scene_first():
    return scene(n_test=1000, forms=(("cbid", None),))


def scene_random():
    return scene("random")


def sdh_scores(split, length, width, seed):
    X, y, *_ = split
    gamma = width / (2 * float(X.var(axis=0).sum()))
    return coder_scores(SDH(n_bits=length, gamma=gamma, random_state=seed).fit(X, y), split)


def fashion_rbf():
    held_out = [data.fashion_mnist("validation", s, n_test=3000) for s in range(2)]
    tried = {w: [sdh_scores(d, 32, w, s) for s, d in enumerate(held_out)] for w in SDH_WIDTHS}
    width = max(tried, key=lambda w: np.mean(tried[w]))
    result = {"sdh widths on validation": tried, "sdh width": width, "cbid": [], "sdh": [], "raw": []}
    for s in SEEDS:
        split = data.fashion_mnist("test", s)
        coder = CBID(likeness=0, n_bits=64, kernel="rbf", random_state=s).fit(*split[:2])
        result["cbid"].append(prefix_scores(coder, split, (16, 32, 64)))
        result["sdh"].append({length: sdh_scores(split, length, width, s) for length in (16, 32, 64)})
        result["raw"].append(raw_accuracy(*split))
    return result


def fashion_linear():
    result = {"cbid": [], "raw": []}
    for s in SEEDS:
        split = data.fashion_mnist("test", s, n_train=10_000)
        result["cbid"].append(
            prefix_scores(
                CBID(likeness=0, kernel="linear", n_bits=128, random_state=s).fit(*split[:2]), split, (32, 64, 128)
            )
        )
        result["raw"].append(raw_accuracy(*split))
    return result


def show(name, fits):
    table = {length: np.array([fit[length] for fit in fits]) for length in fits[0]}
    cells = (
        f"{length}: {v[:, 0].mean():.4f} ± {v[:, 0].std():.4f} / {v[:, 1].mean():.4f} ± {v[:, 1].std():.4f}"
        for length, v in table.items()
    )
    print(f"  {name:8s}", "   ".join(cells), flush=True)


def accuracy():
    results = {}
    for name, run in (
        ("scene15", scene),
        ("scene15, first 1,000 test images", scene_first),
        ("scene15, random splits", scene_random),
        ("fashion 2,000, RBF", fashion_rbf),
        ("fashion 10,000", fashion_linear),
    ):
        try:
            results[name] = run()
        except data.Absent as reason:
            print(f"{name}: skipped, {reason}")
            continue
        print(f"{name}: raw 5-NN {np.mean(results[name]['raw']):.4f}")
        for method in ("cbid", "cbid rbf", "sdh", "sdh linear", "itq"):
            if method in results[name]:
                show(method, results[name][method])
    store("learner_accuracy", results)


def ordered_average_precision(test, yt, train, y):
    """Return the mean average precision if ties go to the smaller row; bits in -1/+1."""
    total = 0.0
    for start in range(0, len(test), 500):
        part = slice(start, start + 500)
        order = np.argsort(-(test[part].astype(np.float32) @ train.T.astype(np.float32)), axis=1, kind="stable")
        relevant = y[order] == yt[part, None]
        precision = np.cumsum(relevant, axis=1) / np.arange(1, len(y) + 1)
        total += float(((precision * relevant).sum(axis=1) / relevant.sum(axis=1)).sum())
    return total / len(test)


def ways(train, y, test, yt):
    found = {"5-NN": neighbour_accuracy(train, y, test, yt)}
    for name, n in (("all", len(test)), (f"first {FIRST:,}", FIRST)):
        found[f"{name}, shared"] = mean_average_precision(test[:n], yt[:n], train, y)
        found[f"{name}, ordered"] = ordered_average_precision(test[:n], yt[:n], train, y)
    return found


def ranking():
    results = {"itq": [], "sdh linear": [], "cbid": []}
    for seed in SEEDS:
        X, y, Xt, yt = data.scene15("test", seed)
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
        for method, make, lengths in (("itq", ITQ, (32, 64)), ("sdh linear", LinearSDH, (32, 64, 128))):
            found = {}
            for length in lengths:
                coder = make(n_bits=length, random_state=seed).fit(X, y)
                found[length] = ways(coder.transform(X), y, coder.transform(Xt), yt)
            results[method].append(found)
        coder = CBID(likeness=0, kernel="linear", n_bits=256, random_state=seed).fit(X, y)
        train, test = coder.transform(X), coder.transform(Xt)
        results["cbid"].append({t: ways(train[:, :t], y, test[:, :t], yt) for t in (16, 32, 64, 128, 256)})
    for method, fits in results.items():
        for length in fits[0]:
            cells = (f"{way} {np.mean([fit[length][way] for fit in fits]):.4f}" for way in fits[0][length])
            print(f"{method:10s} {length:4d} bits  ", "   ".join(cells), flush=True)
    store("scene15_ranking", results)


def classes(name):
    """Store 5-NN and mAP with and without likeness, and print the differences."""
    stored = {(line["set"], line["seed"]) for line in load_lines("classes_learned")}
    for seed in SEEDS:
        if (name, seed) in stored:
            continue
        X, y, Xt, yt = DATA[name][0]("test", seed)
        fits = {
            way: CBID(n_bits=LENGTHS[-1], random_state=seed, **given).fit(X, y)
            for way, given in (("default", {}), ("classes only", {"likeness": 0}))
        }
        for length in LENGTHS:
            line = {"set": name, "seed": seed, "bits": length}
            for way, whole in fits.items():
                coder = whole.truncate(length)
                train, test = coder.transform(X).astype(np.float32), coder.transform(Xt).astype(np.float32)
                for ranked, weights in (("", coder.weights_), (", plain", None)):
                    found = figures(hamming_rows(train, test, weights), y, yt)
                    line[way + ranked] = [found["knn"], found["map"]]
            add_line("classes_learned", line)
    for length in LENGTHS:
        lines = [line for line in load_lines("classes_learned") if (line["set"], line["bits"]) == (name, length)]
        mean = {way: np.mean([line[way] for line in lines], axis=0) for way in ("default", "classes only")}
        change = mean["default"] - mean["classes only"]
        cells = "   ".join(f"{way} {knn:.4f} / {ap:.4f}" for way, (knn, ap) in mean.items())
        print(f"{name} {length:4} bits   {cells}   {change[0]:+.4f} / {change[1]:+.4f}   seeds: {len(lines)}")


def main():
    parts = {
        "accuracy": accuracy,
        "ranking": ranking,
        "classes-scene15": partial(classes, "scene15"),
        "classes-fashion": partial(classes, "fashion"),
        "classes-caltech101": partial(classes, "caltech101"),
    }
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
