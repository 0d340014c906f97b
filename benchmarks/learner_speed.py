"""How fast the learner is, and how its time and memory grow.

    python -m benchmarks.learner_speed [textbook] [growth] [paper] [threads[=NAME...]]

textbook: against the paper's Algorithm 2 (benchmarks/textbook.py) on the same triplets, objective and machine, in
one thread, by the time of the processor. 5,000 x 64, 10 classes, 64 bits; two nearest hits and two nearest misses of
every other class: 180,000 triplets. More triplets (the paper's 25) only increase the ratio: triplets that share a
pair add little to our cost. Claim: at least 25 times faster at an equal or lower objective.

growth: default settings and nearest neighbours. Claims: 40,000 samples take less than 5 times as long as 10,000;
bit 512 takes at most 3 times as long as bit 32; 60,000 x 64 in 10 classes at 128 bits stays under 4 GB.

paper: ``CBID.paper(64)`` on 1,200 digits (270,000 triplets, 10 weight vectors), in one thread, with the seconds,
the objective and the gap after every bit. Claim: under 30 s of processor time, all gaps below ``tol``.

threads: ``n_jobs=2`` and ``n_jobs=1``, alternating; wall and processor time of each run, and the load of the machine
before and after. Claims, on a machine with two idle cores: never slower; at 60,000 samples at least 1.5 times as
fast.
"""

import os
import resource
import subprocess
import sys
import time

import numpy as np
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_limits

from benchmarks import data, textbook
from benchmarks.results import load, store
from cbid import CBID
from cbid.learning.neighbourhoods import find_neighbourhoods

NU = 1e-4


def problem(n=5000, seed=0):
    X, y = make_classification(
        n,
        64,
        n_informative=32,
        n_redundant=16,
        n_classes=10,
        n_clusters_per_class=2,
        class_sep=2.0,
        random_state=seed,
    )
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    near = find_neighbourhoods(
        X, y, n_hits=2, n_misses=2, hits="nearest", misses="nearest", max_rows=10**9, rng=np.random.default_rng(0)
    )
    # Two hits with two misses: four triplets for every sample and other class.
    hits, misses = np.repeat(near.hits[near.anchors], 2, axis=1), np.tile(near.misses, 2)
    return X, textbook.Triplets(np.repeat(near.anchors, 4), hits.ravel(), misses.ravel())


def textbook_speed(n_bits=64):
    X, triplets = problem()
    CBID(n_bits=2).fit_triplets(X[:100], [0, 1], [2, 3], [4, 5])  # compile before timing
    with threadpool_limits(1):
        start = time.process_time()
        coder = CBID(n_bits=n_bits, penalty="l1", nu=NU).fit_triplets(
            X, triplets.anchor, triplets.positive, triplets.negative
        )
        ours = time.process_time() - start
        print(f"ours      {ours:8.1f} s  {coder.n_bits_} bits  objective {coder.objective_[-1]:.5f}", flush=True)
        start = time.process_time()
        planes, _, objectives = textbook.algorithm_2(X.astype(np.float64), triplets, n_bits, nu=NU)
        theirs = time.process_time() - start
        print(f"textbook  {theirs:8.1f} s  {len(planes)} bits  objective {objectives[-1]:.5f}")
    print(f"ratio {theirs / ours:.0f}; objective ours / textbook {coder.objective_[-1] / objectives[-1]:.3f}")
    store(
        "learner_speed",
        {
            "triplets": len(triplets),
            "nu": NU,
            "seconds": {"ours": ours, "textbook": theirs},
            "ratio": theirs / ours,
            "objective": {"ours": coder.objective_.tolist(), "textbook": objectives.tolist()},
        },
    )


def samples(n):
    X, y = make_classification(
        n, 64, n_informative=32, n_redundant=16, n_classes=10, n_clusters_per_class=2, class_sep=2.0, random_state=0
    )
    return X.astype(np.float32), y


def seconds(n, n_bits=64, repeats=3, **settings):
    X, y = samples(n)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        CBID(likeness=0, kernel="linear", n_bits=n_bits, **settings).fit(X, y)
        times.append(time.perf_counter() - start)
    return times


def seconds_per_bit(n=10_000, n_bits=512, **settings):
    ends = []
    X, y = samples(n)
    CBID(
        likeness=0,
        kernel="linear",
        n_bits=n_bits,
        callback=lambda coder: ends.append(time.perf_counter()),
        **settings,
    ).fit(X, y)
    return np.diff(ends)


def peak_memory(settings):
    """Return peak resident bytes and seconds of a fresh process that fits 60,000 x 64 at 128 bits, data included."""
    code = f"from benchmarks.learner_speed import fit_large; fit_large({settings!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [float(v) for v in done.stdout.split()]


def fit_large(settings):
    X, y = samples(60_000)
    start = time.perf_counter()
    CBID(likeness=0, kernel="linear", n_bits=128, **settings).fit(X, y)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, time.perf_counter() - start)


def growth():
    CBID(likeness=0, kernel="linear", n_bits=2).fit(*samples(200))  # compile before timing
    results = {}
    for name, settings in (("whole classes (default)", {}), ("five nearest", {"hits": "nearest"})):
        by_size = {n: seconds(n, repeats=3 if not settings else 1, **settings) for n in (10_000, 40_000)}
        ratio = np.median(by_size[40_000]) / np.median(by_size[10_000])
        per_bit = seconds_per_bit(**settings)
        early, late = np.median(per_bit[24:40]), np.median(per_bit[-16:])
        peak, took = peak_memory(settings)
        small, large = (np.median(by_size[n]) for n in (10_000, 40_000))
        print(f"{name}: 10,000 samples {small:.1f} s, 40,000 samples {large:.1f} s, ratio {ratio:.2f}")
        print(f"  a bit at length 32: {early * 1e3:.0f} ms, at 512: {late * 1e3:.0f} ms, ratio {late / early:.2f}")
        print(f"  60,000 x 64, 128 bits: peak {peak / 2**30:.2f} GB, {took:.0f} s", flush=True)
        results[name] = {
            "seconds by samples": by_size,
            "ratio 40,000 / 10,000": ratio,
            "seconds per bit": per_bit.tolist(),
            "ratio bit 512 / bit 32": late / early,
            "peak bytes, 60,000 x 64, 128 bits": peak,
            "seconds, 60,000 x 64, 128 bits": took,
        }
    store("learner_growth", results)


def paper_speed(n_bits=64):
    X, y, *_ = data.digits()
    ends = []
    with threadpool_limits(1):
        CBID.paper(2, n_jobs=1).fit(X[:200], y[:200])  # compile before timing
        start = time.process_time()
        coder = CBID.paper(n_bits, n_jobs=1, callback=lambda coder: ends.append(time.process_time() - start))
        coder.fit(X, y)
    gap = float((coder.gap_ / coder.objective_).max())
    print(f"CBID.paper: {coder.n_bits_} bits in {ends[-1]:.1f} s of the processor, largest relative gap {gap:.1e}")
    store(
        "paper_speed",
        {
            "samples": X.shape,
            "tol": coder.tol,
            "seconds after each bit": ends,
            "objective": coder.objective_.tolist(),
            "gap": coder.gap_.tolist(),
        },
    )


# Name: samples, features, classes, bits, form of the class bits, rounds. The shapes of the sets of
# benchmarks/form_and_speed.py, and 60,000 samples.
THREADED = {
    "500 x 64, RBF, 64 bits": (500, 64, 10, 64, "rbf", 5),
    "1,200 x 64, linear, 64 bits": (1_200, 64, 10, 64, "linear", 5),
    "1,200 x 64, RBF, 64 bits": (1_200, 64, 10, 64, "rbf", 3),
    "1,500 x 256, 15 classes, linear, 64 bits": (1_500, 256, 15, 64, "linear", 5),
    "1,500 x 256, 15 classes, RBF, 256 bits": (1_500, 256, 15, 256, "rbf", 3),
    "1,500 x 648, 2 classes, RBF, 64 bits": (1_500, 648, 2, 64, "rbf", 3),
    "1,530 x 1,280, 102 classes, auto, 64 bits": (1_530, 1_280, 102, 64, "auto", 3),
    "2,000 x 64, RBF, 256 bits": (2_000, 64, 10, 256, "rbf", 3),
    "2,400 x 1,280, linear, 128 bits": (2_400, 1_280, 10, 128, "linear", 3),
    "2,400 x 1,280, RBF, 32 bits": (2_400, 1_280, 10, 32, "rbf", 3),
    "10,000 x 64, RBF, 32 bits": (10_000, 64, 10, 32, "rbf", 2),
    "10,000 x 128, linear, 64 bits": (10_000, 128, 10, 64, "linear", 3),
    "60,000 x 64, linear, 32 bits": (60_000, 64, 10, 32, "linear", 3),
    "60,000 x 64, RBF, 32 bits": (60_000, 64, 10, 32, "rbf", 1),
}


def thread_speed(*wanted):
    """Measure the fits whose names are given, or all; what was stored before stays."""
    results = load("thread_speed", default={})
    for name in wanted or THREADED:
        n, d, n_classes, n_bits, form, rounds = THREADED[name]
        rng = np.random.default_rng(0)
        y = np.arange(n) % n_classes
        X = (rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n_classes, d))[y]).astype(np.float32)
        CBID(n_bits=2, likeness=0, kernel=form, n_jobs=2).fit(X[:500], y[:500])  # compile before timing
        runs = []
        for _ in range(rounds):
            for n_jobs in (1, 2):
                busy, wall, cpu = os.getloadavg()[0], time.perf_counter(), time.process_time()
                coder = CBID(n_bits=n_bits, likeness=0, kernel=form, n_jobs=n_jobs).fit(X, y)
                runs.append(
                    {
                        "n_jobs": n_jobs,
                        "wall": time.perf_counter() - wall,
                        "processor": time.process_time() - cpu,
                        "objective": coder.objective_[-1],
                        "load_average": [busy, os.getloadavg()[0]],
                    }
                )
        one, two = (np.median([run["wall"] for run in runs if run["n_jobs"] == n]) for n in (1, 2))
        results[name] = {"runs": runs, "ratio of the median wall times": one / two}
        print(f"{name}: n_jobs=1 {one:.2f} s, n_jobs=2 {two:.2f} s, ratio {one / two:.2f}", flush=True)
        store("thread_speed", results)


def main():
    parts = {"textbook": textbook_speed, "growth": growth, "paper": paper_speed, "threads": thread_speed}
    for name in sys.argv[1:] or parts:
        name, *wanted = name.split("=")
        parts[name](*wanted)


if __name__ == "__main__":
    main()
