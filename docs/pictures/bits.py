"""Draw the picture of docs/settings.md from the raw results of benchmarks/rivals.py."""

import json
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE.parent.parent / "benchmarks" / "results" / "rivals"
SETS = {
    "scene15": "Scene-15, embeddings (1,024 bytes)",
    "fashion": "Fashion-MNIST, pixels (256 bytes)",
    "caltech101": "Caltech-101, GIST (1,024 bytes)",
}
METHODS = {"C-BID": "#00798c", "C-BID, RBF": "#d1495b", "ITQ": "#8d8d8d", "LSH": "#c9c9c9"}


def means(name):
    """Mean 5-NN accuracy over the seeds, by method and length."""
    cells = defaultdict(list)
    for line in (RESULTS / f"{name}.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["kind"] == "cell" and "knn" in row:
            cells[row["method"], row["bits"]].append(row["knn"])
    return {key: np.mean(values) for key, values in cells.items()}


def main():
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for axes, (name, title) in zip(panels, SETS.items()):
        found = means(name)
        for method, colour in METHODS.items():
            lengths = sorted(t for m, t in found if m == method)
            axes.plot(lengths, [100 * found[method, t] for t in lengths], "o-", color=colour, label=method, ms=4)
        axes.axhline(
            100 * next(v for (m, _), v in found.items() if m == "float vectors"),
            color="k",
            lw=0.8,
            ls=":",
            label="the vectors",
        )
        axes.set(title=title, xscale="log", xlabel="bits")
        axes.set_xticks([16, 32, 64, 128, 256], ["16", "32", "64", "128", "256"])
        axes.minorticks_off()
    panels[0].set_ylabel("5-NN accuracy, %")
    panels[0].legend(frameon=False, fontsize=8)
    figure.savefig(HERE / "bits.png", dpi=90)


if __name__ == "__main__":
    main()
