"""100 million codes of 64 and of 128 bits on one machine: building, opening, exact and IVF search, memory.

Claim: the time of an exact query grows linearly with the number of codes; it is compared with the time that one pass
over the codes takes at the bandwidth of the memory. Codes have the structure of groups, as learned ones do. Each size
runs in a process of its own; finished ones are kept in the raw results.

    python -m benchmarks.scale_index [millions of codes, default 100] [folder]
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.results import Steps
from cbid.search import CodeIndex

BLOCK, GROUPS, QUERIES = 1_000_000, 20_000, 100


def grouped(n_bits: int, n: int, seed: int) -> np.ndarray:
    """Codes (n, n_bits / 8) of points around 20,000 centres, seen through random hyperplanes."""
    fixed = np.random.default_rng(n_bits)
    centres = fixed.standard_normal((GROUPS, 32), dtype=np.float32)
    planes = fixed.standard_normal((32, n_bits), dtype=np.float32)
    rng = np.random.default_rng([1, seed])
    points = centres[rng.integers(0, GROUPS, n)] + 0.6 * rng.standard_normal((n, 32), dtype=np.float32)
    return np.packbits(points @ planes > 0, axis=1)


def status(name: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    return 1024 * int(re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])


def best(act, repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return min(times)


def bandwidth() -> float:
    """Bytes per second of one thread that reads memory once."""
    words = np.ones(2**27, np.uint64)  # 1 GiB
    return words.nbytes / best(words.sum)


def build(folder: Path, n_bits: int, n: int, cells: int | None) -> dict:
    weights = np.random.default_rng(2).exponential(size=n_bits)
    index = CodeIndex(n_bits, weights, n_threads=1, cells=cells)
    made, began = 0.0, time.perf_counter()
    for start in range(0, n, BLOCK):
        before = time.perf_counter()
        codes = grouped(n_bits, min(BLOCK, n - start), start)
        made += time.perf_counter() - before
        index.add(codes)
    if cells is not None:
        index.train()
    built = time.perf_counter() - began - made
    seconds = best(lambda: index.save(folder), 1)
    size = sum(path.stat().st_size for path in folder.iterdir())
    return {
        "build_seconds": built,
        "save_seconds": seconds,
        "bytes_on_disk_per_code": size / n,
        "peak": status("VmHWM"),
    }


def search(folder: Path, n_bits: int, n: int, cells: int | None) -> dict:
    before = status("VmRSS")
    began = time.perf_counter()
    index = CodeIndex.open(folder)
    opened = time.perf_counter() - began
    index.n_threads = 1
    queries = grouped(n_bits, QUERIES, -1 % 2**32)
    index.search(queries[0])  # compiled, and the pages read
    found = {
        "open_seconds": opened,
        "one_query_seconds": best(lambda: index.search(queries[0])),
        "per_query_of_a_batch_seconds": best(lambda: index.search(queries), 2) / QUERIES,
        "resident_bytes_per_code": (status("VmRSS") - before) / n,
        "pass_over_the_codes_seconds": n * n_bits / 8 / bandwidth(),
    }
    if cells is not None:
        found["probes"] = [
            {
                "probes": probes,
                "recall": index.measure_recall(queries, probes=probes),
                "one_query_seconds": best(lambda p=probes: index.search(queries[0], probes=p)),
                "per_query_of_a_batch_seconds": best(lambda p=probes: index.search(queries, probes=p), 2) / QUERIES,
            }
            for probes in (8, 32, 128)
        ]
    return found


ACTS = {"build": build, "search": search}


def in_fresh_process(act: str, folder: Path, n_bits: int, n: int, cells: int | None) -> dict:
    arguments = json.dumps([str(folder), n_bits, n, cells])
    command = [sys.executable, "-m", "benchmarks.scale_index", "--act", act, arguments]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])


def main() -> int:
    if sys.argv[1:2] == ["--act"]:
        path, n_bits, n, cells = json.loads(sys.argv[3])
        print(json.dumps(ACTS[sys.argv[2]](Path(path), n_bits, n, cells)))
        return 0
    most = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 100_000_000
    where = Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.gettempdir()) / "cbid_scale_index"
    steps = Steps("scale_index", {"codes": most, "queries": QUERIES})
    sizes = [most // 100, most // 10, most]
    for n_bits in (64, 128):
        for n, cells in [*((n, None) for n in sizes), (most, min(4096, max(2, most // 1000)))]:
            name = f"{n_bits} bits, {n} codes, {'exact' if cells is None else f'{cells} cells'}"
            folder = where / name.replace(" ", "_").replace(",", "")

            def both(folder=folder, n_bits=n_bits, n=n, cells=cells) -> dict:
                folder.parent.mkdir(parents=True, exist_ok=True)
                shutil.rmtree(folder, ignore_errors=True)
                found = in_fresh_process("build", folder, n_bits, n, cells)
                found |= in_fresh_process("search", folder, n_bits, n, cells)
                shutil.rmtree(folder)
                return found

            steps.once(name, both)
    steps.claim(
        {
            f"{n_bits} bits": {
                "tenfold_codes_times_as_long": steps[f"{n_bits} bits, {sizes[2]} codes, exact"]["one_query_seconds"]
                / steps[f"{n_bits} bits, {sizes[1]} codes, exact"]["one_query_seconds"],
                "times_one_pass_over_the_codes": steps[f"{n_bits} bits, {most} codes, exact"]["one_query_seconds"]
                / steps[f"{n_bits} bits, {most} codes, exact"]["pass_over_the_codes_seconds"],
            }
            for n_bits in (64, 128)
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
