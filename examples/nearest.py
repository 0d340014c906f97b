"""Search by codes: the ten nearest stored images of six digits.

python examples/nearest.py [nearest.png]
"""

import sys
import time

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from cbid import CBID, CodeIndex


def main(picture: str = "nearest.png") -> None:
    X, y = load_digits(return_X_y=True)
    stored, new = train_test_split(np.arange(len(X)), test_size=600, random_state=0, stratify=y)

    coder = CBID(n_bits=32).fit(X[stored], y[stored])
    index = CodeIndex(n_bits=32, weights=coder.weights_)
    index.add(coder.encode(X[stored]), ids=stored, labels=y[stored])

    start = time.perf_counter()
    found = index.search(coder.encode(X[new]), k=10)
    seconds = time.perf_counter() - start
    n_right = (y[found.ids] == y[new, None]).sum(axis=1)
    print(f"{len(new)} searches in {1000 * seconds:.1f} ms, {n_right.mean() / 10:.1%} of what was found is right")

    # One query with all ten right, one with eight, and so on: most have ten, and would be dull to look at.
    shown = [np.flatnonzero(n_right <= most)[n_right[n_right <= most].argmax()] for most in (10, 8, 6, 4, 2, 0)]
    figure, panels = plt.subplots(6, 11, figsize=(8.5, 5), layout="constrained")
    for row, q in zip(panels, shown):
        show(row[0], X[new[q]], f"query: {y[new[q]]}", "black")
        for axes, i, distance in zip(row[1:], found.ids[q], found.distances[q]):
            show(axes, X[i], f"{distance:.2f}", "#00798c" if y[i] == y[new[q]] else "#d1495b")
    figure.savefig(picture, dpi=90)


def show(axes, pixels, title: str, frame: str) -> None:
    axes.imshow(pixels.reshape(8, 8), cmap="gray_r")
    axes.set_title(title, fontsize=8)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color=frame, linewidth=2.5)


if __name__ == "__main__":
    main(*sys.argv[1:])
