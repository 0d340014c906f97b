"""Classes that no line separates: hyperplanes of the input, and of 300 radial basis functions.

python examples/kernel.py [kernel.png]
"""

import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.datasets import make_moons

from cbid import CBID, CodeKNeighborsClassifier

COLOURS = ["#d1495b", "#00798c"]


def main(picture: str = "kernel.png") -> None:
    X, y = make_moons(600, noise=0.18, random_state=0)
    X_test, y_test = make_moons(2000, noise=0.18, random_state=1)
    across, up = np.meshgrid(np.linspace(-1.7, 2.7, 220), np.linspace(-1.3, 1.8, 160))
    plane = np.c_[across.ravel(), up.ravel()]

    coders = {
        "8 bits, linear": CBID(n_bits=8, kernel="linear", likeness=0),
        "32 bits, linear": CBID(n_bits=32, kernel="linear", likeness=0),
        '8 bits, kernel="rbf"': CBID(n_bits=8, kernel="rbf", n_anchors=300, likeness=0),
    }
    figure, panels = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")
    for axes, (name, coder) in zip(panels, coders.items()):
        knn = CodeKNeighborsClassifier(5, coder=coder).fit(X, y)
        accuracy = knn.score(X_test, y_test)
        print(f"{name:22} {accuracy:.1%}")
        regions = knn.predict(plane).reshape(across.shape)
        axes.pcolormesh(across, up, regions, cmap=ListedColormap(COLOURS), alpha=0.25, rasterized=True)
        axes.scatter(*X.T, c=np.array(COLOURS)[y], s=5, linewidths=0)
        axes.set(title=f"{name}: {accuracy:.1%}", xticks=[], yticks=[])
    figure.savefig(picture, dpi=90)


if __name__ == "__main__":
    main(*sys.argv[1:])
