"""Published figures on MNIST: mean average precision of each method, measured and as its literature reports it.

Protocol: 70,000 digits as 784 pixels in 0..1. 1,000 queries, 100 of each digit, against the other 69,000; an item is
relevant if it shows the same digit; average precision over the whole ranking by Hamming distance, ties in random
order (its expectation, cbid.evaluation), mean over queries. Methods learn from 5,000 of the database, 500 of
each digit; supervised ones see their labels. Five seeds draw queries, sample and what is random in a method.

Published ranges are what comparisons in the literature of supervised hashing report for 12 to 48 bits.
``python -m benchmarks.rivals_mnist [NAME ...]`` runs the named methods, or all, and writes their rows into
benchmarks/results/rivals_mnist.json and docs/coders.md.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.results import FOLDER, store
from cbid import coders
from cbid.coders.rivals import spherical_hamming
from cbid.evaluation import average_precision, mean_average_precision

LENGTHS = (12, 24, 32, 48)
SEEDS = range(5)
DOCS = Path(__file__).parent.parent / "docs" / "coders.md"
MARKS = "<!-- MNIST: written by python -m benchmarks.rivals_mnist -->\n", "<!-- end of MNIST -->\n"


@dataclass(frozen=True)
class Row:
    """make: a coder of the given number of bits and a seed. published: what the literature reports.

    learns_from: "sample" or "database". distances: of query codes to database codes, where they are not Hamming's.
    """

    make: Callable[[int, int], coders.Coder]
    published: str = ""
    learns_from: str = "sample"
    distances: Callable[[Any, Any, Any], np.ndarray] | None = None
    seeds: int = 5


def of(cls, *, seeded=True, **params):
    """A maker of that class, with or without a seed."""
    return lambda n_bits, seed: cls(n_bits=n_bits, **params, **({"random_state": seed} if seeded else {}))


METHODS = {
    "LSH": Row(of(coders.LSH), ".19-.24"),
    "LSH, around the origin": Row(of(coders.LSH, center=False), ".19-.24"),
    "p-stable LSH": Row(of(coders.PStableLSH)),
    "shift-invariant LSH": Row(of(coders.ShiftInvariantLSH)),
    "LSI": Row(of(coders.LSI, seeded=False)),
    "PCA-sign": Row(of(coders.PCASign, seeded=False)),
    "ITQ": Row(of(coders.ITQ), ".39-.43"),
    "ITQ, from all 69,000": Row(of(coders.ITQ), ".39-.43", learns_from="database"),
    "spectral hashing": Row(of(coders.SpectralHashing, seeded=False), ".25-.27"),
    "multidimensional spectral hashing": Row(of(coders.MultidimensionalSpectralHashing)),
    "the same, its own affinity": Row(
        of(coders.MultidimensionalSpectralHashing), distances=lambda coder, Q, B: -coder.affinity(Q, B), seeds=2
    ),
    "anchor-graph hashing, one layer": Row(of(coders.AnchorGraphHashing, n_layers=1)),
    "anchor-graph hashing, two layers": Row(of(coders.AnchorGraphHashing)),
    "spherical hashing": Row(of(coders.SphericalHashing)),
    "the same, spherical distance": Row(
        of(coders.SphericalHashing), distances=lambda coder, Q, B: spherical_hamming(Q, B), seeds=2
    ),
    "self-taught hashing": Row(of(coders.SelfTaughtHashing, seeded=False)),
    "Laplacian co-hashing": Row(of(coders.LaplacianCoHashing, seeded=False)),
    "spline-regression hashing": Row(of(coders.SplineRegressionHashing)),
    "K-means hashing": Row(of(coders.KMeansHashing, seeded=False)),
    "CCA-ITQ": Row(of(coders.CCAITQ), ".65-.72"),
    "KSH": Row(of(coders.KSH), ".87-.90"),
    "SDH, linear": Row(of(coders.SDH, kernel=None)),
    "SDH, 1,000 anchors": Row(of(coders.SDH)),
    "COSDISH": Row(of(coders.COSDISH)),
    "FastHash": Row(of(coders.FastHash), seeds=1),
    "C-BID": Row(of(coders.CBID, kernel="linear")),
    "C-BID, 1,000 anchors": Row(of(coders.CBID, kernel="rbf")),
    "argmax of a linear SVM": Row(of(coders.ArgmaxCode, seeded=False)),
}


def score(row, coder, split):
    X, y, _, Xt, yt = split
    if row.distances is None:
        return mean_average_precision(coder.transform(Xt), yt, coder.transform(X), y)
    queries, database = coder.encode(Xt), coder.encode(X)
    found = []
    for start in range(0, len(queries), 100):
        part = slice(start, start + 100)
        found.append(average_precision(row.distances(coder, queries[part], database), yt[part, None] == y))
    return float(np.mean(np.concatenate(found)))


def run(names):
    """{name: {"map": {length: [by seed]}, "fit_s": {length: [by seed]}}} of the named methods."""
    results = {name: {"map": {}, "fit_s": {}} for name in names}
    for seed in SEEDS:
        split = data.mnist(seed)
        X, y, sample, *_ = split
        for name in names:
            row = METHODS[name]
            if seed >= row.seeds:
                continue
            rows = sample if row.learns_from == "sample" else slice(None)
            for length in LENGTHS:
                start = time.process_time()
                coder = row.make(length, seed).fit(X[rows], y[rows])
                spent = time.process_time() - start
                results[name]["map"].setdefault(str(length), []).append(score(row, coder, split))
                results[name]["fit_s"].setdefault(str(length), []).append(spent)
            shown = "  ".join(f"{length}: {results[name]['map'][str(length)][-1]:.3f}" for length in LENGTHS)
            print(f"  {seed} {name:34s} {shown}   ({spent:.1f} s)", flush=True)
    return results


def raw():
    path = FOLDER / "rivals_mnist.json"
    return json.loads(path.read_text())["results"] if path.exists() else {}


def table():
    """The results as a table of docs/coders.md."""
    found = raw()
    head = ["method", *(f"{length} bits" for length in LENGTHS), "published", "seconds to fit 48 bits"]
    lines = [head, ["---"] * len(head)]
    for name, row in METHODS.items():
        if name in found:
            cells = []
            for length in LENGTHS:
                values = found[name]["map"][str(length)]
                cells.append(f"{np.mean(values):.3f} ± {np.std(values):.3f}")
            lines.append([name, *cells, row.published, f"{np.median(found[name]['fit_s']['48']):.1f}"])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def document():
    """Return docs/coders.md with its table."""
    before, rest = DOCS.read_text().split(MARKS[0])
    return before + MARKS[0] + table() + MARKS[1] + rest.split(MARKS[1])[1]


def main():
    names = sys.argv[1:] or list(METHODS)
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise SystemExit(f"no such method: {', '.join(unknown)}; there are: {', '.join(METHODS)}")
    try:
        found = run(names)
    except data.Absent as reason:
        print(f"skipped, {reason}")
        return
    store("rivals_mnist", {name: row for name, row in {**raw(), **found}.items() if name in METHODS})
    DOCS.write_text(document())


if __name__ == "__main__":
    main()
