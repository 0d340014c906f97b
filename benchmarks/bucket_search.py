"""Where exact search by buckets is faster than a scan, and whether method "auto" finds out.

    python -m benchmarks.bucket_search [--quick] [--cells 10000000-64-clustered-plain,...]

Codes around a thousand centres (an eighth of the bits flipped) and random codes; queries are drawn like the codes.
One thread, processor time, the sides one after the other in random order, each twice, of which the second counts;
every result is compared with that of the scan. `results/bucket_search.json` keeps every time. "batch" is 200 queries
at once, "single" is one by one. "buckets" and "auto" search the same tables in memory: the times of two copies differ
by up to 30 %. What is shown is the mean of the faster half of the rounds: in the others, other memory filled the
caches.
``--cells`` runs some of the sets; the rows of the others are kept.
"""

import argparse
import time
from functools import partial

import numpy as np

from benchmarks.results import load, store
from benchmarks.search_speed import WEIGHTS, interleaved, near, random_codes
from cbid.search import CodeIndex

METHODS = ("scan", "buckets", "auto")


def draw(rng, data, n, n_bits, centres):
    return random_codes(rng, n, n_bits) if data == "random" else near(rng, centres[rng.integers(0, 1000, n)])


def settle(index, search):
    """Search until "auto" has built its tables and measured both methods, or a minute has passed."""
    began = time.thread_time()
    while time.thread_time() - began < 60:
        for _ in range(3):
            search(index)
        if all(segment.tables is not None for segment in index._segments()):
            for _ in range(6):
                search(index)
            return


def compare(n, n_bits, data, weights, repeats, quick):
    rng = np.random.default_rng(n_bits)
    centres = random_codes(rng, 1000, n_bits)
    codes, queries = draw(rng, data, n, n_bits, centres), draw(rng, data, 200, n_bits, centres)
    w = WEIGHTS[weights](rng, n_bits)
    indexes = {method: CodeIndex(n_bits, w, method=method, n_threads=1) for method in METHODS}
    for index in indexes.values():
        index.add(codes)
    radii = [] if weights != "plain" else [0, n_bits // 16, n_bits // 8]
    cells = [("batch", "k", k) for k in (1, 10, 100)] + [("single", "k", 10)]
    cells += [("batch", "radius", radius) for radius in radii]
    if quick:
        cells = [("batch", "k", 10), ("single", "k", 10)]
    rows = []
    for mode, kind, value in cells:
        asked = queries if mode == "batch" else queries[:20]

        def search(index, mode=mode, kind=kind, value=value, asked=asked):
            parts = [asked] if mode == "batch" else [query[None] for query in asked]
            if kind == "k":
                return [index.search(part, value) for part in parts]
            return [index.range_search(part, value) for part in parts]

        settle(indexes["auto"], search)
        search(indexes["buckets"])
        for one, other in zip(indexes["auto"]._segments(), indexes["buckets"]._segments()):
            other.tables = one.tables
        expected = search(indexes["scan"])
        for method in ("buckets", "auto"):
            for found, wanted in zip(search(indexes[method]), expected):
                assert (found.ids == wanted.ids).all()
                assert (found.distances == wanted.distances).all()
        times = interleaved({name: partial(search, index) for name, index in indexes.items()}, repeats, settle=True)
        fastest = {name: np.sort(values)[: (len(values) + 1) // 2] for name, values in times.items()}
        usual = {name: float(values.mean()) / len(asked) for name, values in fastest.items()}
        row = {
            "codes": n, "bits": n_bits, "data": data, "weights": weights, "mode": mode, kind: value,
            "seconds per query": usual, "seconds": times,
            "bytes per code": {name: index.nbytes / n for name, index in indexes.items()},
        }  # fmt: skip
        rows.append(row)
        faster = usual["scan"] / usual["buckets"]
        slower = usual["auto"] / min(usual["scan"], usual["buckets"])
        print(
            f"{n:>11,} x {n_bits:3} {data:9} {weights:11} {mode:6} {kind} {value:<4} scan "
            f"{1e6 * usual['scan']:8.1f} us, buckets {faster:6.2f} times as fast, auto {slower:.2f} of the better",
            flush=True,
        )
    return rows


def name_of(row):
    return f"{row['codes']}-{row['bits']}-{row['data']}-{row['weights']}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="k = 10 only, for a busy machine")
    parser.add_argument("--cells", default="", help="CODES-BITS-DATA-WEIGHTS, comma-separated; by default all")
    arguments = parser.parse_args()
    cells = [
        (n, bits, data, "plain") for n in (10**6, 10**7) for bits in (64, 128) for data in ("clustered", "random")
    ]
    cells += [(10**7, 64, "clustered", weights) for weights in ("uniform", "exponential")]
    wanted = arguments.cells.split(",") if arguments.cells else ["-".join(map(str, cell)) for cell in cells]
    for n, bits, data, weights in (name.split("-") for name in wanted):
        made = compare(int(n), int(bits), data, weights, repeats=3 if arguments.quick else 15, quick=arguments.quick)
        kept = [row for row in load("bucket_search", []) if name_of(row) != name_of(made[0])]
        store("bucket_search", kept + made)
