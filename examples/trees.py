"""Trees of labels: the first bits tell the coarse groups apart, the rest the classes.

python examples/trees.py [trees.png]
"""

import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from cbid import CBID, CodeIndex

SHAPE = {0: "round", 6: "round", 8: "round", 9: "round", 1: "straight", 4: "straight", 7: "straight"}


def main(picture: str = "trees.png") -> None:
    X, y = load_digits(return_X_y=True)
    labels = np.array([f"{SHAPE.get(digit, 'open')}/{digit}" for digit in y.tolist()])
    X, labels, X_test, asked = X[:1000], labels[:1000], X[1000:1400], labels[1000:1400]
    coder = CBID(n_bits=32).fit(X, labels, tree="/")
    print("bits that serve each level of the tree:", coder.levels_.tolist())

    def level(names, depth):
        return np.array([name.split("/")[depth] for name in names])

    lengths, results = (2, 4, 8, 16, 32), {"group": [], "digit": []}
    for n_bits in lengths:
        short = coder.truncate(n_bits)
        index = CodeIndex(n_bits=n_bits, weights=short.weights_)
        index.add(short.encode(X), labels=labels)
        found = index.search(short.encode(X_test), k=1).labels[:, 0]
        for depth, name in enumerate(results):
            results[name].append(100 * np.mean(level(found, depth) == level(asked, depth)))
    print(*(f"{name}: {np.round(values, 1).tolist()}" for name, values in results.items()), sep="\n")

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, accuracies in results.items():
        axes.plot(lengths, accuracies, "o-", label=name)
    axes.set(xlabel="bits", ylabel="accuracy of the nearest, %", xscale="log", xticks=lengths, xticklabels=lengths)
    axes.legend()
    figure.savefig(picture, dpi=90)


if __name__ == "__main__":
    main(*sys.argv[1:])
