"""Does `cbid classify` favour a class when almost all images tie, and is the printed accuracy that of new images?

    python -m benchmarks.ties [--seeds 100]

Claims: with 8 bits over ten even classes, no class is predicted more than 40 % above or below its share, and about 95
of 100 of the intervals that `cbid fit` prints hold the accuracy on 6,000 other vectors of the same kind.

Each seed draws other means and vectors, 60 of each class to learn from, a fifth of them held out.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.results import add_line, load_lines
from cbid.data.tables import VectorTable
from cbid.project import Project
from cbid.report.page import interval

N_CLASSES, N_VALUES, N_BITS = 10, 12, 8
PER_CLASS, PER_CLASS_NEW = 60, 600
NAMES = np.array([str(c) for c in range(N_CLASSES)])


def run(seed):
    """Fit, and classify new vectors; return the accuracies and the number of times each class is predicted."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(N_CLASSES, N_VALUES))
    y, new_y = (np.repeat(np.arange(N_CLASSES), n) for n in (PER_CLASS, PER_CLASS_NEW))
    X, new = ((means[c] + 1.2 * rng.normal(size=(len(c), N_VALUES))).astype(np.float32) for c in (y, new_y))
    with tempfile.TemporaryDirectory() as folder:
        table = VectorTable(X, np.arange(len(X)).astype(str), y, NAMES)
        with Project.fit(Path(folder) / "ties.cbid", table, n_bits=N_BITS) as project:
            predicted, measured = project.classify(new).labels, project.evaluation
    return {
        "seed": seed,
        "printed": measured["codes"][-1]["weighted"]["accuracy"],
        "held_out": measured["n_queries"],
        "new": float((predicted == NAMES[new_y]).mean()),
        "counts": [int((predicted == name).sum()) for name in NAMES],
    }


def summary(lines):
    inside = [low <= line["new"] <= high for line in lines for low, high in [_interval(line)]]
    shares = np.array([line["counts"] for line in lines]) / PER_CLASS_NEW
    even = (np.abs(shares - 1) <= 0.4).all(axis=1)
    return (
        f"{sum(inside)} of {len(lines)} intervals hold the accuracy on new vectors; every class within 40 % of its "
        f"share in {even.sum()} of {len(lines)} seeds (least {shares.min():.2f}, most {shares.max():.2f})"
    )


def _interval(line):
    return interval(line["printed"], line["held_out"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    done = {line["seed"] for line in load_lines("ties")}
    for seed in range(parser.parse_args().seeds):
        if seed not in done:
            add_line("ties", run(seed))
    print(summary(load_lines("ties")))


if __name__ == "__main__":
    main()
