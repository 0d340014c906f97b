"""Draw the pictures of docs/method.md: ``python docs/pictures/method.py``."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from cbid import CBID

HERE = Path(__file__).parent
COLOURS = np.array(["#d1495b", "#00798c", "#edae49", "#66a182"])


def four_classes(n=300, seed=0):
    """Points in the plane: four classes, two of them of two parts."""
    rng = np.random.default_rng(seed)
    centres = np.array([[-2, 1.5], [2.2, -1.5], [2, 1.6], [-2.1, -1.5], [0, 0.2], [0.2, 3.0]])
    part = rng.integers(len(centres), size=n)
    return centres[part] + 0.45 * rng.standard_normal((n, 2)), np.array([0, 0, 1, 2, 3, 1])[part]


def line(axes, coef, intercept, box, **style):
    """The line coef . x + intercept = 0 inside the box."""
    normal = coef / np.linalg.norm(coef)
    foot, along = -intercept / np.linalg.norm(coef) * normal, np.array([-normal[1], normal[0]])
    ends = np.stack([foot - 20 * along, foot + 20 * along])
    axes.plot(*ends.T, **style)
    axes.set(xlim=box[0], ylim=box[1], xticks=[], yticks=[])


def bits():
    """The first bits one by one; the size of a point is how much its worst comparison still counts."""
    X, y = four_classes()
    coder = CBID(n_bits=8, kernel="linear", hits="nearest", nu=1e-3, penalty="l1").fit(X, y)
    box = [(X[:, i].min() - 0.5, X[:, i].max() + 0.5) for i in (0, 1)]
    figure, panels = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
    for axes, t in zip(panels, (1, 2, 3, 4)):
        codes = coder.transform(X)[:, :t]
        weights = coder.truncate(t).weights_
        distances = ((codes[:, None] != codes[None]) * weights).sum(axis=2)
        nearest = np.stack([np.where(y == r, distances, np.inf).min(axis=1) for r in range(4)], axis=1)
        own = np.array([np.sort(distances[i, y == y[i]])[1] for i in range(len(y))])
        nearest[np.arange(len(y)), y] = np.inf
        loss = np.log1p(np.exp(-(nearest.min(axis=1) - own)))
        axes.scatter(*X.T, c=COLOURS[y], s=2 + 30 * (loss / loss.max()) ** 2, linewidths=0, alpha=0.8)
        for s in range(t):
            newest = s == t - 1
            line(axes, coder.coef_[s], coder.intercept_[s], box, color="k", lw=2 if newest else 0.8)
        axes.set_title(f"{t} bit{'s' if t > 1 else ''}", fontsize=10)
    figure.savefig(HERE / "method_bits.png", dpi=90)


def learning():
    """Objective over the bits; distances within and between classes, on samples that were not learned from."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    coder = CBID(n_bits=64, kernel="linear").fit(X[:1000], y[:1000])
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
    t = np.arange(1, 65)
    left.plot(t, coder.objective_, color="k")
    sure = (coder.gap_ / coder.objective_).max()
    left.set(xlabel="bits", ylabel="mean loss and penalty", yscale="log", title="the objective")
    left.text(0.97, 0.9, f"at every length within {sure:.2%} of the optimum", ha="right", transform=left.transAxes)
    codes = coder.transform(X[1000:]).astype(float)
    distances = (codes.shape[1] - codes @ codes.T) / 2
    same = y[1000:, None] == y[None, 1000:]
    np.fill_diagonal(same, False)
    edges = np.arange(0, 50, 2)
    other = y[1000:, None] != y[None, 1000:]
    for what, label, colour in ((same, "same digit", COLOURS[1]), (other, "another", COLOURS[0])):
        right.hist(distances[what], edges, density=True, alpha=0.6, color=colour, label=label)
    right.set(xlabel="bits that differ, of 64", yticks=[], title="pairs of new samples")
    right.legend(frameon=False)
    figure.savefig(HERE / "method_learning.png", dpi=90)


if __name__ == "__main__":
    bits()
    learning()
