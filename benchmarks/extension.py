"""Does a code that is extended for new classes serve all classes as well as a fresh one?

Scene-15 embeddings, 100 training images a class. A coder learns ten classes drawn by the seed; ``extend`` then
appends 32 bits for all fifteen. 5-NN and mAP of test images against the training images of all classes, ranked by
``weights_``: before the extension, after it, and for a fresh fit of the same total length.

    python -m benchmarks.extension run [--seeds 5] [--kernels linear rbf] [--bits 32 64 96]
    python -m benchmarks.extension table
"""

import argparse
from collections import defaultdict

import numpy as np
from sklearn.preprocessing import normalize

from benchmarks.results import add_line, load_lines
from cbid import CBID
from cbid.evaluation import average_precision
from cbid.paper.sets import open_set
from cbid.paper.unseen import code_distances, nearest_class

APPENDED = 32
WAYS = ("ten classes", "extended", "fresh")


def split(seed):
    """Return X, y, the rows for training and for testing, and the ten classes that are learned first."""
    images = open_set("scene15")
    X, y = normalize(images.part("embeddings").astype(np.float32)), images.labels
    rng = np.random.default_rng(seed)
    first = rng.permutation(15)[:10]
    rows = [rng.permutation(np.flatnonzero(y == c)) for c in range(15)]
    train = rng.permutation(np.concatenate([r[:100] for r in rows]))  # ties must not meet the order of the classes
    return X, y, train, np.concatenate([r[100:250] for r in rows]), first


def measure(seed, kernel, n_bits):
    """Return 5-NN and mAP of each way."""
    X, y, train, test, first = split(seed)

    def figures(coder, rows):
        bits = coder.transform(X).astype(np.float32)
        D = code_distances(bits[rows], bits[train], coder.weights_)
        knn = np.mean(nearest_class(D, y[train]) == y[rows])
        return [float(knn), float(average_precision(D, y[rows][:, None] == y[train]).mean())]

    start = train[np.isin(y[train], first)]
    coder = CBID(n_bits=n_bits, kernel=kernel).fit(X[start], y[start])
    codes = coder.encode(X)
    found = {"ten classes": figures(coder, test)}
    coder.extend(X[train], y[train], n_bits=n_bits + APPENDED)
    if not (coder.truncate(n_bits).encode(X) == codes).all():
        raise AssertionError("the old bits changed")
    found["extended"] = figures(coder, test)
    found["fresh"] = figures(CBID(n_bits=n_bits + APPENDED, kernel=kernel).fit(X[train], y[train]), test)
    return found


def table():
    """Print means over the seeds."""
    groups = defaultdict(list)
    for line in load_lines("extension"):
        groups[line["kernel"], line["bits"]].append([line[way] for way in WAYS])
    print(f"{'5-NN / mAP':24}" + "".join(f"{way:>16}" for way in WAYS) + "  seeds, extended - fresh")
    for (kernel, bits), values in sorted(groups.items()):
        mean = np.mean(values, axis=0)
        cells = "".join(f"{knn:>9.3f} / {ap:.3f}"[-16:].rjust(16) for knn, ap in mean)
        print(f"{kernel:8}{bits:4} + {APPENDED} bits   {cells}{len(values):7}{mean[1, 0] - mean[2, 0]:+10.4f}")


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--bits", type=int, nargs="+", default=[32, 64, 96])
    parser.add_argument("--kernels", nargs="+", default=["linear", "rbf"], choices=["linear", "rbf"])
    given = parser.parse_args()
    if given.command == "run":
        stored = {(line["kernel"], line["bits"], line["seed"]) for line in load_lines("extension")}
        for kernel in given.kernels:
            for bits in given.bits:
                for seed in range(given.seeds):
                    if (kernel, bits, seed) not in stored:
                        line = {"kernel": kernel, "bits": bits, "seed": seed}
                        add_line("extension", {**line, **measure(seed, kernel, bits)})
    table()


if __name__ == "__main__":
    main()
