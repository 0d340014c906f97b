"""Do samples without a label help a code when few have one?

For 1, 2, 5 and 10 labels a class: 5-NN of test samples among the labelled ones (1-NN if a class has fewer than
five), at 64 bits in the linear form.
"labelled" learns classes from the labelled samples alone, "likeness" adds the others without labels, "spread" is the
default, where labels spread to the others. A class needs two labels to be learned from, so with one label a
class only the last way exists. Scene-15 and Caltech-101 embeddings, and scikit-learn's digits.

    python -m benchmarks.few_labels run [--seeds 3] [--labels 5]
    python -m benchmarks.few_labels table
"""

import argparse
from collections import defaultdict

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from benchmarks.results import add_line, load_lines
from cbid import CBID
from cbid.paper.sets import open_set
from cbid.paper.unseen import code_distances, nearest_class

SETS = {"scene15": 100, "caltech101": 20, "digits": 100}  # training samples a class
BITS = 64
WAYS = ("raw", "labelled", "likeness", "spread")


def split(name, seed, n_labels):
    """Return X, y and the rows for training, test and those with a label."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X = normalize(X).astype(np.float32)
    else:
        images = open_set(name)
        X, y = normalize(images.part("embeddings").astype(np.float32)), images.labels
    rng = np.random.default_rng(seed)
    train, test, labelled = [], [], []
    for c in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == c))
        count = min(SETS[name], len(rows) // 2)
        train.append(rows[:count])
        test.append(rows[count : count + 60])
        labelled.append(rows[:n_labels])
    shuffled = rng.permutation(np.concatenate(labelled))  # ties must not meet the order of the classes
    return X, y, np.concatenate(train), np.concatenate(test), shuffled


def measure(name, seed, n_labels):
    """Yield the name of each way and its accuracy."""
    X, y, train, test, labelled = split(name, seed, n_labels)
    k = 5 if n_labels >= 5 else 1  # votes of one or two labels a class tie

    def accuracy(coder):
        bits = coder.transform(X).astype(np.float32)
        D = code_distances(bits[test], bits[labelled], coder.weights_)
        return np.mean(nearest_class(D, y[labelled], k) == y[test])

    yield "raw", np.mean(nearest_class(1 - X[test] @ X[labelled].T, y[labelled], k) == y[test])
    settings = {"n_bits": BITS, "kernel": "linear", "missing_label": -1}
    if n_labels > 1:
        yield "labelled", accuracy(CBID(**settings, likeness=0).fit(X[labelled], y[labelled]))
    given = np.where(np.isin(train, labelled), y[train], -1)
    if n_labels > 1:
        yield "likeness", accuracy(CBID(**settings, spread_labels=False).fit(X[train], given))
    yield "spread", accuracy(CBID(**settings).fit(X[train], given))


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--labels", type=int, nargs="+", default=[1, 2, 5, 10])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    given = parser.parse_args()
    if given.command == "run":
        stored = {(r["set"], r["seed"], r["labels"]) for r in load_lines("few_labels")}
        for name in given.sets:
            for n_labels in given.labels:
                for seed in range(given.seeds):
                    if (name, seed, n_labels) not in stored:
                        found = {way: float(v) for way, v in measure(name, seed, n_labels)}
                        add_line("few_labels", {"set": name, "seed": seed, "labels": n_labels, **found})
    groups = defaultdict(list)
    for r in load_lines("few_labels"):
        groups[r["set"], r["labels"]].append([r.get(way, np.nan) for way in WAYS])
    print(f"{'':22}{'raw':>10}{'labelled':>10}{'likeness':>10}{'spread':>10}  seeds")
    for (name, n_labels), values in sorted(groups.items()):
        print(
            f"{name:12}{n_labels:>10}" + "".join(f"{v:10.3f}" for v in np.mean(values, axis=0)) + f"{len(values):7}"
        )


if __name__ == "__main__":
    main()
