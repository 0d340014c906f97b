"""Which settings become the defaults, by validation parts of three training sets; no test image is read.

    python -m benchmarks.defaults_study [changes] [whitening]

changes: one change at a time. Digits (three splits), Fashion-MNIST with 2,000 images and PCA-64 (two), Scene-15
embeddings with PCA-256 (four). 5-NN accuracy / mean average precision at 16 and 64 bits, the mean over splits.

whitening: how much whitening and ridge long codes need. Scene-15 embeddings, twelve splits, 256 bits. Each bit
depends on the last digits of those before it, so one setting differs by .003 from split to split; therefore twelve
splits, and the mean over all lengths from 96 bits on. Fashion-MNIST (2,000 images) and digits, four splits each,
check the defaults.
"""

import sys
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
    *({"n_climbs": n} for n in (0, 2, 6)),
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
            print(f"{name}: skipped, {reason}")


def changes():
    sets = dict(splits())
    results = []
    for change in VARIANTS:
        row = {"changes": change}
        for name, parts in sets.items():
            start = time.perf_counter()
            fits = []
            for s, part in enumerate(parts):
                coder = CBID(likeness=0, **{"kernel": "linear", "n_bits": 64, "random_state": s, **change}).fit(
                    *part[:2]
                )
                fits.append(prefix_scores(coder, part, [t for t in LENGTHS if t <= coder.n_bits_]))
            row[name] = {"fits": fits, "seconds": time.perf_counter() - start}
        results.append(row)
        print(
            f"{change or 'defaults'!s:36s}",
            "  ".join(f"{name} {cell(row[name]['fits'])}" for name in sets),
            flush=True,
        )
    store("defaults_study", results)


def cell(fits):
    """Return the mean scores at 16 and 64 bits, or "-" if a coder ended before that length."""
    cells = []
    for length in (16, 64):
        found = [fit[length] for fit in fits if length in fit]
        cells.append("{:.3f}/{:.3f}".format(*np.mean(found, axis=0)) if len(found) == len(fits) else "-")
    return " ".join(cells)


LONG_LENGTHS = (16, 32, 64, 96, 128, 160, 192, 224, 256)
SETTINGS = [  # whitening, ridge; None: the defaults
    (0.01, 0.001),
    (None, None),
    (0.1, 0.01),
    (0.1, 0.1),
    (0.03, None),
    (0.3, None),
]
SETS = (("scene15", data.scene15, 12), ("fashion", data.fashion_mnist, 4), ("digits", data.digits, 4))


def whitening():
    results = []
    for name, load, count in SETS:
        try:
            parts = [load("validation", s) for s in range(count)]
        except data.Absent as reason:
            print(f"{name}: skipped, {reason}")
            continue
        for share, ridge in SETTINGS if name == "scene15" else SETTINGS[:2]:
            start, fits = time.perf_counter(), []
            for s, part in enumerate(parts):
                coder = CBID(
                    likeness=0, kernel="linear", n_bits=256, whitening=share, ridge=ridge, random_state=s, n_jobs=1
                ).fit(*part[:2])
                fits.append(prefix_scores(coder, part, LONG_LENGTHS))
            row = {"set": name, "whitening": share, "ridge": ridge, "fits": fits}
            row["seconds"] = time.perf_counter() - start
            results.append(row)
            print(f"{name} whitening {share} ridge {ridge}:", *long_cells(fits), flush=True)
            store("whitening_study", results)


def long_cells(fits):
    """Return the mean scores at some lengths, and the mean accuracy over all lengths from 96 bits on."""
    means = {length: np.mean([fit[length] for fit in fits], axis=0) for length in fits[0]}
    shown = [f"{length}: {means[length][0]:.4f} / {means[length][1]:.4f}" for length in (16, 32, 64, 128, 256)]
    return [*shown, f"long: {np.mean([means[length][0] for length in LONG_LENGTHS if length >= 96]):.4f}"]


def main():
    parts = {"changes": changes, "whitening": whitening}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
