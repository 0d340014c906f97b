"""Are search, learning and encoding as fast as in an earlier version?

    CBID_EARLIER=PATH/src python -m benchmarks.before_after [--quick] [--only search,learning,encoding]

``CBID_EARLIER`` is the ``src`` folder of another checkout (``git worktree add PATH COMMIT``). Each version runs in a
process of its own, in one thread, on the same data. Every case runs once to compile and then ``repeats`` times: each
repeat runs both versions, one after the other, and every other repeat starts with the other version. The result is
the median over the repeats of earlier / present: above 1, the present version is faster. Claim: at least .95 in
every case.

- search: 1 million random codes of 64, 128 and 256 bits under uniform weights, k = 10: 1,000 queries at once, and 200
  one after the other. The index is the default one, and also, for one query at a time, the scan alone: the default
  may use buckets, which earlier versions lack.
- learning: 64 bits. 10,000 x 64 in 10 classes with hyperplanes, 2,000 x 64 with the RBF kernel; class bits alone,
  ``likeness=0``, as in versions before likeness.
- encoding: 100,000 x 64 by both coders.
"""

import argparse
import functools
import inspect
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.timing import ratio

# No import of cbid at the top: a process of the earlier version imports this module, too.

ROOT = Path(__file__).parents[1]
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "NUMBA")}
SIDES = ("earlier", "present")
N_BITS = (64, 128, 256)
FORMS = ("linear", "rbf")
SIZE = {"codes": 1_000_000, "queries": 1000, "linear": 10_000, "rbf": 2_000, "encoded": 100_000, "repeats": 15}
QUICK = {"codes": 50_000, "queries": 50, "linear": 600, "rbf": 300, "encoded": 5_000, "repeats": 3}
SINGLE = 200  # queries in a row


def all_cases():
    """Names of the cases by part."""
    return {
        "search": [
            f"{queries}, {n_bits} bits"
            for n_bits in N_BITS
            for queries in ("batch", "single", "single by the scan alone")
        ],
        "learning": [f"learn, {form}" for form in FORMS],
        "encoding": [f"encode, {form}" for form in FORMS],
    }


def prepare(case, size):
    """Return a function without arguments that runs the case with the version of cbid that this process imports."""
    what, _, setting = case.partition(", ")
    if what == "learn":
        coder, X, y = learner(setting, size)
        return lambda: coder.fit(X, y)
    if what == "encode":
        return functools.partial(fitted(setting, size["rbf"]).encode, samples(size["encoded"])[0])
    index, queries = filled_index(int(setting.split()[0]), size, scan="scan" in what)
    if what == "batch":
        return lambda: index.search(queries, k=10)
    return lambda: [index.search(query, k=10) for query in queries[:SINGLE]]


def samples(n):
    """Ten overlapping classes of 64 features."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 10
    centres = rng.normal(size=(20, 64))
    X = rng.normal(size=(n, 64)) + 0.6 * centres[y + 10 * rng.integers(0, 2, n)]  # two clusters per class
    return X.astype(np.float32), y


def learner(form, size):
    """An unfitted coder of class bits alone, with its samples."""
    from cbid import CBID

    settings = {"n_bits": 64, "n_jobs": 1}
    if "likeness" in inspect.signature(CBID).parameters:
        settings |= {"likeness": 0, "kernel": form}
    else:
        settings |= {"kernel": None if form == "linear" else form}
    return CBID(**settings), *samples(size[form])


@functools.cache
def fitted(form, n):
    coder, X, y = learner(form, {form: n})
    return coder.fit(X, y)


def filled_index(n_bits, size, scan):
    from cbid import CodeIndex

    rng = np.random.default_rng(n_bits)
    codes = rng.integers(0, 256, (size["codes"], n_bits // 8), dtype=np.uint8)
    near = rng.integers(0, len(codes), size["queries"] // 2)
    queries = rng.integers(0, 256, (size["queries"], n_bits // 8), dtype=np.uint8)
    flips = np.bitwise_and.reduce(rng.integers(0, 256, (3, len(near), n_bits // 8), dtype=np.uint8))
    queries[: len(near)] = codes[near] ^ flips  # half of the queries lie near a stored code
    method = {"method": "scan"} if scan and "method" in inspect.signature(CodeIndex).parameters else {}
    index = CodeIndex(n_bits, rng.uniform(0.5, 1.5, n_bits), n_threads=1, **method)
    index.add(codes)
    return index, rng.permutation(queries)


def work():
    """Answer requests, one per line: a case to prepare, or "" to run it and print its processor and wall time."""
    import cbid

    size = json.loads(sys.stdin.readline())
    print(Path(cbid.__file__).parents[1], flush=True)
    for line in sys.stdin:
        if case := line.strip():
            run = prepare(case, size)
            run()  # compile, and fill the caches
            print(flush=True)
        else:
            processor, wall = time.process_time(), time.perf_counter()
            run()
            print(time.process_time() - processor, time.perf_counter() - wall, flush=True)


class Version:
    """A process that imports cbid from a source folder."""

    def __init__(self, source, size):
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from benchmarks.before_after import work; work()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        imported = self._ask(json.dumps(size))
        if imported != str(source):
            self.end()
            raise RuntimeError(f"cbid is imported from {imported!r}; expected {str(source)!r}")

    def _ask(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self.end()
            raise RuntimeError(f"the process ended with status {self._process.returncode} at {line!r}")
        return answer.strip()

    def prepare(self, case):
        self._ask(case)

    def run(self):
        """Return processor and wall seconds of the prepared case."""
        return tuple(float(seconds) for seconds in self._ask("").split())

    def end(self):
        self._process.communicate()  # closes its input, at whose end it exits


def compare(versions, case, repeats):
    """Return the processor and wall seconds of both versions in every repeat, and the ratios."""
    for version in versions.values():
        version.prepare(case)
    times = {clock: {side: [] for side in SIDES} for clock in ("processor", "wall")}
    for repeat in range(repeats):
        for side in SIDES if repeat % 2 == 0 else reversed(SIDES):
            for clock, seconds in zip(times, versions[side].run()):
                times[clock][side].append(seconds)
    ratios = {clock: ratio(seconds, "earlier", "present") for clock, seconds in times.items()}
    return {"seconds": times, "earlier / present": ratios, "load_average": os.getloadavg()[0]}


def commit_of(source):
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=source, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes; the result is not stored")
    parser.add_argument("--only", default=",".join(all_cases()), help="parts, separated by commas")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if unknown := set(parts) - set(all_cases()):
        parser.error(f"--only={arguments.only}: {sorted(unknown)} unknown; accepted: {', '.join(all_cases())}")
    if "CBID_EARLIER" not in os.environ:
        parser.error("CBID_EARLIER is not set; expected the src folder of an earlier checkout")
    sources = {"earlier": Path(os.environ["CBID_EARLIER"]).resolve(), "present": ROOT / "src"}
    size = QUICK if arguments.quick else SIZE
    versions = {side: Version(source, size) for side, source in sources.items()}
    cases = {}
    for case in (case for part in parts for case in all_cases()[part]):
        cases[case] = compare(versions, case, size["repeats"])
        ratios = cases[case]["earlier / present"]
        medians = {side: statistics.median(cases[case]["seconds"]["processor"][side]) for side in SIDES}
        print(
            f"{case:36s} earlier {medians['earlier']:8.4f} s  present {medians['present']:8.4f} s of the processor; "
            f"earlier / present {ratios['processor']:.2f} (processor), {ratios['wall']:.2f} (wall)",
            flush=True,
        )
    for version in versions.values():
        version.end()
    if not arguments.quick:
        from benchmarks.results import load, store

        stored = load("before_after", {"cases": {}})["cases"]
        commits = {side: commit_of(source) for side, source in sources.items()}
        cases = {case: {**found, "commits": commits, "size": size} for case, found in cases.items()}
        store("before_after", {"cases": {**stored, **cases}})


if __name__ == "__main__":
    main()
