"""Other coders have the same interface: seven of them on handwritten digits, three seeds.

python examples/rivals.py [rivals.png]
"""

import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from cbid import CBID
from cbid.coders import CCAITQ, ITQ, LSH, SDH, SphericalHashing
from cbid.evaluation import mean_average_precision

CODERS = {
    "C-BID, RBF": CBID(kernel="rbf", n_anchors=300),
    "C-BID": CBID(kernel="linear"),
    "SDH (RBF)": SDH(n_anchors=300),
    "CCA-ITQ": CCAITQ(),
    "ITQ": ITQ(),
    "spherical hashing": SphericalHashing(),
    "LSH": LSH(),
}
LENGTHS = [8, 16, 32]


def main(picture: str = "rivals.png") -> None:
    X, y = load_digits(return_X_y=True)
    figure, axes = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
    for name, coder in CODERS.items():
        found = np.array([[precision(coder, n_bits, seed, X, y) for seed in range(3)] for n_bits in LENGTHS])
        print(f"{name:18}", *(f"{mean:.1%} ± {std:.1%} " for mean, std in zip(found.mean(1), found.std(1))))
        axes.errorbar(LENGTHS, 100 * found.mean(1), 100 * found.std(1), marker="o", ms=4, capsize=2, label=name)
    axes.set(
        xlabel="bits", ylabel="mean average precision, %", title="digits: 600 queries, 1,197 stored", xscale="log"
    )
    axes.set_xticks(LENGTHS, LENGTHS)
    axes.minorticks_off()
    figure.legend(loc="outside right center", frameon=False)
    figure.savefig(picture, dpi=90)


def precision(coder, n_bits: int, seed: int, X, y) -> float:
    train, test, y_train, y_test = train_test_split(X, y, test_size=600, random_state=seed, stratify=y)
    # Those without supervision ignore the labels.
    coder = clone(coder).set_params(n_bits=n_bits, random_state=seed).fit(train, y_train)
    weights = getattr(coder, "weights_", 1.0)
    return mean_average_precision(coder.transform(test), y_test, coder.transform(train), y_train, weights=weights)


if __name__ == "__main__":
    main(*sys.argv[1:])
