"""How fast the exact scans are, compared with faiss's scan of plain bits and the limit that memory sets.

    python -m benchmarks.search_speed [--quick] [--only batch,single,...]

Every comparison runs in one process with equal threads, its sides one after the other in each repeat, in random
order; the table shows medians, `results/search_speed.json` keeps every time. The parts:

- batch: 1,000 queries at once against 1 million codes, k = 10, one thread: cbid weighted and plain, and
  `faiss.IndexBinaryFlat` (plain Hamming), on random and on clustered codes;
- threads: the same with two threads on each side;
- single: one query after the other;
- limit: one query at a time against 10 million codes, compared with passes that only sum the same bytes, read in
  order (numpy) or from eight places alternately, which a core reads from memory faster;
- options: what k = 100 and a filter cost against k = 10 without one.

How far from the limit: a batch is bound by lookups, most of its time being spent in the filter; the rest are the
sample that thresholds are guessed from, and exact distances of candidates. A single query is bound by memory, of
which it draws most ("limit").
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numba
import numpy as np
from numpy.typing import NDArray

from cbid.search.blocks import to_blocks
from cbid.search.kernels.compile import HAS_AVX2, HAS_VBMI
from cbid.search.queries import Queries
from cbid.search.scan import topk

RESULTS = Path(__file__).parent / "results" / "search_speed.json"
BITS = (64, 128, 256, 1024)
WEIGHTS: dict[str, Callable[[np.random.Generator, int], NDArray | None]] = {
    "plain": lambda rng, t: None,
    "even": lambda rng, t: np.full(t, 0.37),
    "uniform": lambda rng, t: rng.uniform(0.5, 1.5, t),
    "exponential": lambda rng, t: rng.exponential(size=t),
}

Rows = list[dict[str, Any]]


def random_codes(rng: np.random.Generator, n: int, n_bits: int) -> NDArray[np.uint8]:
    return rng.integers(0, 256, (n, n_bits // 8), dtype=np.uint8)


def near(rng: np.random.Generator, codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The same codes with an eighth of the bits flipped."""
    flips = [rng.integers(0, 256, codes.shape, dtype=np.uint8) for _ in range(3)]
    return codes ^ (flips[0] & flips[1] & flips[2])


def clustered_codes(rng: np.random.Generator, n: int, n_bits: int) -> NDArray[np.uint8]:
    """Codes around a thousand centres."""
    return near(rng, random_codes(rng, 1000, n_bits)[rng.integers(0, 1000, n)])


def queries_for(rng: np.random.Generator, codes: NDArray[np.uint8], n: int) -> NDArray[np.uint8]:
    """Half of them random, half near stored codes."""
    return np.concatenate(
        [
            random_codes(rng, n - n // 2, 8 * codes.shape[1]),
            near(rng, codes[rng.integers(0, len(codes), n // 2)]),
        ]
    )


def interleaved(
    sides: dict[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.thread_time,
    settle: bool = False,
) -> dict[str, list[float]]:
    """Seconds of each side in each repeat, after one call that is not counted.

    Sides that run in one thread are measured in processor time, which other work on the machine disturbs
    less. ``settle``: another call that is not counted precedes every one that is, so that each side finds the caches
    as its own last call left them, not as another side's did.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    for call in sides.values():
        call()
    rng = np.random.default_rng(0)
    for _ in range(repeats):
        for name in rng.permutation(list(sides)).tolist():  # none always finds the caches as the same other left them
            call = sides[name]
            if settle:
                call()
            began = clock()
            call()
            times[name].append(clock() - began)
    return times


def faiss_flat(codes: NDArray[np.uint8]) -> Any:
    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(codes)
    return index


def compare_batches(size: dict[str, int], bits: tuple[int, ...], n_threads: int, data: str) -> Rows:
    rows = []
    for n_bits in bits:
        rng = np.random.default_rng(n_bits)
        codes = {"random": random_codes, "clustered": clustered_codes}[data](rng, size["codes"], n_bits)
        asked = queries_for(rng, codes, size["queries"])
        blocks, index = to_blocks(codes), faiss_flat(codes)
        sides: dict[str, Callable[[], Any]] = {"faiss": partial(index.search, asked, 10)}
        for name, weights in WEIGHTS.items():
            queries = Queries.from_codes(asked, n_bits, weights(rng, n_bits))
            sides[name] = partial(topk, blocks, len(codes), queries, 10, n_threads=n_threads)
        faiss.omp_set_num_threads(n_threads)
        clock = time.thread_time if n_threads == 1 else time.perf_counter
        times = interleaved(sides, size["repeats"], clock)
        rows.append({"bits": n_bits, "data": data, "threads": n_threads, "seconds": times})
        show(rows[-1], size["queries"] * len(codes))
    return rows


def compare_single(size: dict[str, int]) -> Rows:
    rows = []
    faiss.omp_set_num_threads(1)
    for n_bits in BITS:
        rng = np.random.default_rng(n_bits)
        codes = random_codes(rng, size["codes"], n_bits)
        blocks, index = to_blocks(codes), faiss_flat(codes)
        asked = queries_for(rng, codes, 2)[1:]
        sides: dict[str, Callable[[], Any]] = {"faiss": partial(index.search, asked, 10)}
        for name in ("plain", "uniform", "exponential"):
            queries = Queries.from_codes(asked, n_bits, WEIGHTS[name](rng, n_bits))
            sides[name] = partial(topk, blocks, len(codes), queries, 10, n_threads=1)
        times = interleaved(sides, 5 * size["repeats"], settle=True)
        rows.append({"bits": n_bits, "data": "random", "threads": 1, "seconds": times})
        show(rows[-1], len(codes))
    return rows


@numba.njit(nogil=True)
def sum_of_eighths(words: NDArray[np.int64]) -> int:
    """All but up to seven words, added up from eight places in turn."""
    eighth = len(words) // 8
    total = 0
    for i in range(eighth):
        for place in range(8):
            total += words[place * eighth + i]
    return total


def compare_limit(size: dict[str, int]) -> Rows:
    rows = []
    for n_bits in BITS:
        rng = np.random.default_rng(n_bits)
        n = size["many"]
        blocks = rng.integers(0, 256, (n // 32, n_bits // 8, 32), dtype=np.uint8)
        words = blocks.reshape(-1).view(np.int64)
        asked = random_codes(rng, 1, n_bits)
        sides: dict[str, Callable[[], Any]] = {
            "limit": partial(sum_of_eighths, words),
            "limit, in order": words.sum,
        }
        for name in ("plain", "uniform"):
            queries = Queries.from_codes(asked, n_bits, WEIGHTS[name](rng, n_bits))
            sides[name] = partial(topk, blocks, n, queries, 10, n_threads=1)
        times = interleaved(sides, size["repeats"])
        rows.append({"bits": n_bits, "data": "random", "threads": 1, "seconds": times})
        show(rows[-1], n, against="limit")
    return rows


def compare_options(size: dict[str, int]) -> Rows:
    rows = []
    for n_bits in BITS:
        rng = np.random.default_rng(n_bits)
        codes = random_codes(rng, size["codes"], n_bits)
        n, blocks = len(codes), to_blocks(codes)
        keeps = {share: (rng.random(n) < share / 100).astype(np.uint8) for share in (90, 50, 10, 1)}
        for n_queries in (size["queries"] // 4, 1):
            asked = queries_for(rng, codes, 2 * n_queries)[n_queries:]
            queries = Queries.from_codes(asked, n_bits, WEIGHTS["uniform"](rng, n_bits))
            scan = partial(topk, blocks, n, queries, n_threads=1)
            sides: dict[str, Callable[[], Any]] = {"k=10": partial(scan, 10), "k=100": partial(scan, 100)}
            sides |= {f"keep {share}%": partial(scan, 10, keep=keep) for share, keep in keeps.items()}
            times = interleaved(sides, size["repeats"] * (1 if n_queries > 1 else 5))
            row = {"bits": n_bits, "data": "random", "queries": n_queries, "threads": 1, "seconds": times}
            show(row, n_queries * n, against="k=10")
            rows.append(row)
    return rows


def show(row: dict[str, Any], work: int, against: str = "faiss") -> None:
    """One line: giga-codes per second, and how many times as fast as ``against``."""
    medians = {name: statistics.median(times) for name, times in row["seconds"].items()}
    row["giga_codes_per_second"] = {name: work / t / 1e9 for name, t in medians.items()}
    row["times_as_fast"] = {name: medians[against] / t for name, t in medians.items()}
    cells = [f"{n} {row['giga_codes_per_second'][n]:.3f} ({row['times_as_fast'][n]:.2f}x)" for n in medians]
    queries = f" {row['queries']} queries" if "queries" in row else ""
    print(
        f"{row['bits']:5d} bits {row['data']}{queries}, {row['threads']} thread(s): " + "  ".join(cells),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the codes and queries")
    parser.add_argument("--only", default="batch,threads,single,limit,options")
    arguments = parser.parse_args()
    size = {"codes": 1_000_000, "queries": 1000, "repeats": 5, "many": 10_000_000}
    if arguments.quick:
        size = {"codes": 100_000, "queries": 100, "repeats": 3, "many": 1_000_000}
    parts: dict[str, Callable[[], Rows]] = {
        "batch": lambda: compare_batches(size, BITS, 1, "random") + compare_batches(size, BITS, 1, "clustered"),
        "threads": lambda: compare_batches(size, (64, 256), 2, "random"),
        "single": lambda: compare_single(size),
        "limit": lambda: compare_limit(size),
        "options": lambda: compare_options(size),
    }
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results["setting"] = {
        "size": size,
        "processor": platform.machine(),
        "simd": "AVX-512 VBMI" if HAS_VBMI else "AVX2" if HAS_AVX2 else "none",
        "faiss": f"{faiss.__version__} {faiss.get_compile_options().strip()}",
        "numpy": np.__version__,
        "numba": numba.__version__,
    }
    for part in arguments.only.split(","):
        if part not in parts:
            parser.error(f"--only names {part!r}; accepted: {', '.join(parts)}")
        print(f"-- {part}: giga-codes per second (times as fast as the first)")
        results[part] = parts[part]()
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
