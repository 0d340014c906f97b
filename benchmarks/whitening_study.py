"""How much whitening and how much ridge long codes want: Scene-15 embeddings, twelve validation splits, 256 bits.

Which bit is found next depends on the last digits of those before it, so one split tells little: the same setting
differs by .003 from split order to split order. Hence twelve splits, and the mean over all lengths from 96 bits on.
Fashion-MNIST (2,000 images) and digits, four splits each, show what the defaults do elsewhere. No test image is
read.

    python -m benchmarks.whitening_study
"""

import time

import numpy as np

from benchmarks import data
from benchmarks.results import store
from benchmarks.scoring import prefix_scores
from cbid import CBID

LENGTHS = (16, 32, 64, 96, 128, 160, 192, 224, 256)
SETTINGS = [  # whitening, ridge; None: the defaults
    (0.01, 0.001),
    (None, None),
    (0.1, 0.01),
    (0.1, 0.1),
    (0.03, None),
    (0.3, None),
]
SETS = (("scene15", data.scene15, 12), ("fashion", data.fashion_mnist, 4), ("digits", data.digits, 4))


def main():
    results = []
    for name, load, count in SETS:
        try:
            parts = [load("validation", s) for s in range(count)]
        except data.Absent as reason:
            print(f"{name}: left out, {reason}")
            continue
        for whitening, ridge in SETTINGS if name == "scene15" else SETTINGS[:2]:
            start, fits = time.perf_counter(), []
            for s, part in enumerate(parts):
                coder = CBID(n_bits=256, whitening=whitening, ridge=ridge, random_state=s, n_jobs=1).fit(*part[:2])
                fits.append(prefix_scores(coder, part, LENGTHS))
            row = {"set": name, "whitening": whitening, "ridge": ridge, "fits": fits}
            row["seconds"] = time.perf_counter() - start
            results.append(row)
            print(f"{name} whitening {whitening} ridge {ridge}:", *cells(fits), flush=True)
            store("whitening_study", results)


def cells(fits):
    """Mean scores at some lengths, and the mean accuracy over all from 96 bits on."""
    means = {length: np.mean([fit[length] for fit in fits], axis=0) for length in fits[0]}
    shown = [f"{length}: {means[length][0]:.4f} / {means[length][1]:.4f}" for length in (16, 32, 64, 128, 256)]
    return [*shown, f"long: {np.mean([means[length][0] for length in LENGTHS if length >= 96]):.4f}"]


if __name__ == "__main__":
    main()
