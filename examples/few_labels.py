"""Few labels: two to twenty labelled samples of each class, and all the others without a label.

python examples/few_labels.py [few_labels.png]
"""

import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from cbid import CBID
from cbid.classify import CodeKNeighborsClassifier

N_TRAIN = 800


def main(picture: str = "few_labels.png") -> None:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y, X_test, y_test = X[order[:N_TRAIN]], y[order[:N_TRAIN]], X[order[N_TRAIN:]], y[order[N_TRAIN:]]

    def accuracy(samples, labels, known):
        """Learn 32 bits, classify by the nearest samples whose label is known."""
        coder = CBID(n_bits=32).fit(samples, labels)
        classifier = CodeKNeighborsClassifier(n_neighbors=1).fit(coder.transform(X[known]), y[known])
        return 100 * classifier.score(coder.transform(X_test), y_test)

    counts, results = (2, 5, 20), {"labelled samples only": [], "all samples, few labels": []}
    for count in counts:
        known = np.concatenate([np.flatnonzero(y == digit)[:count] for digit in range(10)])
        partly = np.full(N_TRAIN, None, dtype=object)  # None: no label
        partly[known] = y[known]
        results["labelled samples only"].append(accuracy(X[known], y[known], known))
        results["all samples, few labels"].append(accuracy(X, partly, known))
    for name, values in results.items():
        print(f"{name}: {np.round(values, 1).tolist()}")

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, values in results.items():
        axes.plot(counts, values, "o-", label=name)
    axes.set(xlabel="labelled samples of each class", ylabel="accuracy, %", xscale="log")
    axes.set(xticks=counts, xticklabels=counts)
    axes.minorticks_off()
    axes.legend()
    figure.savefig(picture, dpi=90)


if __name__ == "__main__":
    main(*sys.argv[1:])
