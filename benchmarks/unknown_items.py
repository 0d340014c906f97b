"""Can a k-NN classifier on codes say "none of these" for items of classes it has never seen?

Scene-15 embeddings (EfficientNet-Lite0), 128 bits, five seeds. Five of fifteen classes are kept from learning
(`benchmarks.unseen_classes.split`). ``CodeKNeighborsClassifier(5, coder=..., unknown=.05)`` learns the others. Its
``decision`` separates test images of learned classes from images of unseen ones:

- auroc: probability that a known image has a larger score than an unknown one;
- false rejection: share of known images answered with "unknown"; .05 is asked for;
- rejection: share of unknown images answered with "unknown";
- accuracy: of the known images that are not rejected.

Beside C-BID by default and for the classes alone, and ITQ: raw vectors, by the mean cosine distance to the five
nearest, with the threshold from leave-one-out.

    python -m benchmarks.unknown_items
"""

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.results import store
from benchmarks.unseen_classes import split
from cbid import CBID, CodeKNeighborsClassifier
from cbid.coders import ITQ

N_BITS, K, SHARE, SEEDS = 128, 5, 0.05, 5
CODERS = {
    "C-BID": CBID(n_bits=N_BITS),
    "C-BID, classes alone": CBID(n_bits=N_BITS, likeness=0),
    "ITQ": ITQ(n_bits=N_BITS),
}


def figures(scores, known, right):
    """Return the figures from scores (below 0: unknown), which items are known, and which are classified right."""
    accepted = scores >= 0
    return {
        "auroc": roc_auc_score(known, scores),
        "false_rejection": np.mean(~accepted[known]),
        "rejection": np.mean(~accepted[~known]),
        "accuracy": np.mean(right[known & accepted]),
    }


def raw_vectors(X, y, train, items):
    """Return the scores of items by their vectors, and the classes of the vote (here of the nearest)."""

    def nearest(rows, drop):
        distances = np.sort(1 - X[rows] @ X[train].T, axis=1)
        return distances[:, drop : K + drop].mean(axis=1)

    limit = np.quantile(nearest(train, 1), 1 - SHARE, method="higher")
    return limit - nearest(items, 0), y[train][np.argmax(X[items] @ X[train].T, axis=1)]


def main():
    """Measure and print."""
    lines = []
    for seed in range(SEEDS):
        X, y, train, test, queries, database = split("scene15", seed, False)
        items = np.concatenate([test, queries, database])
        known = np.arange(len(items)) < len(test)
        scores, found = raw_vectors(X, y, train, items)
        lines.append({"seed": seed, "method": "raw vectors", **figures(scores, known, found == y[items])})
        for name, coder in CODERS.items():
            model = CodeKNeighborsClassifier(K, coder=coder, unknown=SHARE).fit(X[train], y[train])
            right = model.predict(X[items]) == y[items]
            lines.append({"seed": seed, "method": name, **figures(model.decision(X[items]), known, right)})
            print(lines[-1], flush=True)
    store("unknown_items", lines)
    columns = ("auroc", "false_rejection", "rejection", "accuracy")
    print(f"{'':24}" + " ".join(f"{c:>16}" for c in columns))
    for name in ("raw vectors", *CODERS):
        values = [[line[c] for c in columns] for line in lines if line["method"] == name]
        print(f"{name:24}" + " ".join(f"{v:16.3f}" for v in np.mean(values, axis=0)))


if __name__ == "__main__":
    main()
