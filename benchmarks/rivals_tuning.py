"""A second round for those that learn non-linear bits: python -m benchmarks.rivals_tuning [--methods NAME ...].

C-BID's `smoothing` was found by trials on four validation splits of Fashion-MNIST. Here every method that learns
non-linear bits has such a round on these splits: up to 25 settings at 32 bits (18 of FastHash, which takes longest;
8 of C-BID, which had the earlier trials), by the sum of 5-NN accuracy and mean average precision. The best has a
place among the four that benchmarks/rivals.py chooses from.

Results go to benchmarks/results/rivals_tuning.jsonl, one line for each setting as it is done; what is there is not
run again.
"""

import argparse
import itertools
import warnings

import faiss
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.results import add_line, load_lines
from benchmarks.rival_methods import METHODS
from benchmarks.rivals import on_validation

N_SPLITS = 4


def grid(**values):
    """Every combination; a value of None leaves the setting at its default."""
    for row in itertools.product(*values.values()):
        yield {name: value for name, value in zip(values, row, strict=True) if value is not None}


SETTINGS = {
    "C-BID, RBF": list(grid(gamma=(None, 2.0), smoothing=(None, 3e-4, 1e-3, 3e-3), n_anchors=(2000,))),
    "KSH": [
        *grid(gamma=(None, 0.5, 1.0, 3.0, 6.0), n_anchors=(None, 600, 1000, 2000)),
        *grid(gamma=(1.0,), n_anchors=(1000,), n_iter=(20, 50, 100)),
        *grid(gamma=(1.0,), n_anchors=(1000, 2000), n_labelled=(1000,)),
    ],
    "SDH, RBF": list(grid(gamma=(0.5, 1.0, 2.0, 3.0, 6.0), ridge=(1e-4, 1e-3, 3e-3, 1e-2, 0.1), n_anchors=(2000,))),
    "COSDISH, RBF": [
        *grid(gamma=(0.5, 1.0, 2.0, 3.0, 6.0), ridge=(1e-4, 1e-3, 1e-2, 0.1), n_columns=(300,), n_anchors=(2000,)),
        *grid(ridge=(1e-2,), n_columns=(100, 600, 1000), n_anchors=(2000,)),
        *grid(ridge=(1e-2,), n_columns=(300,), n_anchors=(2000,), n_rounds=(30,), n_turns=(None, 10)),
    ],
    "FastHash": [
        *grid(depth=(None, 6), n_trees=(None, 400), trim=(None, 0.99), n_sweeps=(None, 5)),
        *grid(depth=(8,), n_sweeps=(None, 5)),
    ],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    titles = parser.parse_args().methods
    done = [(line["method"], line["settings"]) for line in load_lines("rivals_tuning")]
    faiss.omp_set_num_threads(1)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        splits = [data.fashion_mnist("validation", seed) for seed in range(N_SPLITS)]
        for title in titles:
            for settings in SETTINGS[title]:
                if (title, settings) in done:
                    continue
                line = {"method": title, "settings": settings, **on_validation(METHODS[title], settings, splits)}
                add_line("rivals_tuning", line)
                print(f"{title:14s} {line['knn']:.4f} {line['map']:.4f}  {settings}", flush=True)


if __name__ == "__main__":
    main()
