"""Which settings become the defaults: one change at a time, on validation parts of three training sets.

Digits (three splits), Fashion-MNIST with 2,000 images and PCA-64 (two), Scene-15 embeddings with PCA-256 (four). No
test image is read. Prints 5-NN accuracy / mean average precision at 16 and 64 bits, the mean over splits.
"""

import time

import numpy as np

from benchmarks import data
from benchmarks.results import store
from benchmarks.scoring import prefix_scores
from cbid import CBID

LENGTHS = (16, 32, 64)
VARIANTS = [
    {},
    *({"nu": nu} for nu in (0.02, 0.05, 0.2, 0.5)),
    *({"ridge": ridge} for ridge in (0.0, 1e-3, 1e-2, 0.1)),
    *({"whitening": share} for share in (1e-2, 1.0)),
    *({"hits": hits} for hits in ("class", "nearest")),
    *({"margin": margin} for margin in ("class", "paper", "database")),
    *({"starts": starts} for starts in ("spectral", "random")),
    {"starts": "paper", "n_starts": 200},
    *({"n_climbs": n} for n in (0, 1, 6)),
    *({"loss": loss} for loss in ("exponential", "squared_hinge")),
    {"penalty": "l1", "nu": 1e-5},
    *({"penalty": penalty} for penalty in ("l1", 2.0)),
    *({"sigmoid": sigmoid} for sigmoid in ("tanh", "logistic")),
    {"kernel": "rbf"},
    *({"kernel": "rbf", "nu": nu} for nu in (0.2, 0.5, 1.0)),
]


def splits():
    for name, load, count in (
        ("digits", data.digits, 3),
        ("fashion", data.fashion_mnist, 2),
        ("scene15", data.scene15, 4),
    ):
        try:
            yield name, [load("validation", s) for s in range(count)]
        except data.Absent as reason:
            print(f"{name}: left out, {reason}")


def main():
    sets = dict(splits())
    results = []
    for changes in VARIANTS:
        row = {"changes": changes}
        for name, parts in sets.items():
            start = time.perf_counter()
            fits = []
            for s, part in enumerate(parts):
                coder = CBID(**{"n_bits": 64, "random_state": s, **changes}).fit(*part[:2])
                fits.append(prefix_scores(coder, part, [t for t in LENGTHS if t <= coder.n_bits_]))
            row[name] = {"fits": fits, "seconds": time.perf_counter() - start}
        results.append(row)
        print(
            f"{changes or 'defaults'!s:36s}",
            "  ".join(f"{name} {cell(row[name]['fits'])}" for name in sets),
            flush=True,
        )
    store("defaults_study", results)


def cell(fits):
    """Mean scores at 16 and 64 bits; "-" where a coder ended before that length."""
    cells = []
    for length in (16, 64):
        found = [fit[length] for fit in fits if length in fit]
        cells.append("{:.3f}/{:.3f}".format(*np.mean(found, axis=0)) if len(found) == len(fits) else "-")
    return " ".join(cells)


if __name__ == "__main__":
    main()
