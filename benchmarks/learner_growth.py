"""How learning grows with samples and with bits, and what memory it takes; default settings, one thread.

Claims checked: 10,000 to 40,000 samples cost less than 5 times; a bit at length 512 costs at most 3 times one at
length 32; 60,000 x 64 in 10 classes at 128 bits stays under 4 GB.
"""

import resource
import subprocess
import sys
import time

import numpy as np
from sklearn.datasets import make_classification

from benchmarks.results import store
from cbid import CBID


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
        CBID(n_bits=n_bits, **settings).fit(X, y)
        times.append(time.perf_counter() - start)
    return times


def seconds_per_bit(n=10_000, n_bits=512, **settings):
    ends = []
    X, y = samples(n)
    CBID(n_bits=n_bits, callback=lambda coder: ends.append(time.perf_counter()), **settings).fit(X, y)
    return np.diff(ends)


def peak_memory(settings):
    """Peak resident bytes of a fresh process that fits 60,000 x 64 at 128 bits, data included."""
    code = f"from benchmarks.learner_growth import fit_large; fit_large({settings!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [float(v) for v in done.stdout.split()]


def fit_large(settings):
    X, y = samples(60_000)
    start = time.perf_counter()
    CBID(n_bits=128, **settings).fit(X, y)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, time.perf_counter() - start)


def main():
    CBID(n_bits=2).fit(*samples(200))  # compile, outside the clock
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


if __name__ == "__main__":
    main()
