"""The form that ``CBID`` chooses, and what it costs: python -m benchmarks.form_and_speed [PART ...].

- choice: 64 class bits in the linear form, in the kernel form, and in the form that ``kernel="auto"`` chooses:
  5-NN accuracy and mean average precision on test samples by plain Hamming distance, also at 16 bits. On
  Caltech-101, compared with the argmax of a linear SVM as a code, also with asymmetric queries. Seeds 0 and 1.
  Claim: the chosen form is at most .003 behind the better one (5-NN, 64 bits) in 9 of 10 cases.
- training: seconds of the processor, one thread, compared with SDH and KSH in the same run.
- earlier: seconds of the processor, alternating with an earlier version. CBID_EARLIER is its folder ``src``.
- jobs: ``n_jobs=2`` and ``n_jobs=1``, alternating.
- growth: 10,000 samples and four times as many. Claim: at most 4.5 times the time. And the peak of memory.
- encoding: seconds to encode 20,000 vectors in the kernel form, compared with the products alone and SDH.

Results go to benchmarks/results/form_and_speed.json. A part that runs again replaces what it stored. Seed 0.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.learner_speed import samples
from benchmarks.results import load, store
from benchmarks.scoring import prefix_scores, scores
from benchmarks.timing import timed
from cbid import CBID, CodeIndex
from cbid.coders import KSH, SDH, ArgmaxCode
from cbid.descriptors import RawPixels, describe
from cbid.paper.sets import DataAbsent, open_set

NAME = "form_and_speed"
LENGTHS = (16, 64)
FORMS = ("linear", "rbf", "auto")


SEEDS = (0, 1)


def pixels(name, n_train, n_test, seed):
    """Pixels in 0..1 of two-class sets: images of the training and of the test part, equally many a class."""
    images = open_set(name)
    split, labels = images.split("paper"), np.asarray(images.labels)
    found = []
    for pool, count in ((split.train, n_train), (split.test, n_test)):
        rows = np.random.default_rng(seed).permutation(pool)
        of_class = [rows[labels[rows] == c] for c in np.unique(labels)]
        rows = np.concatenate([part[: min(count // 2, min(map(len, of_class)))] for part in of_class])
        rows = np.random.default_rng(seed).permutation(rows)
        X = images.images.items[rows].reshape(len(rows), -1).astype(np.float32) / 255
        found += [X, labels[rows]]
    return found


def coil20(seed):
    """Pixels, 32 x 32; each object's test poses are two blocks of 45 degrees, apart from its training poses."""
    objects = open_set("coil20")
    split, y = objects.split("blocks", seed), np.asarray(objects.labels)
    X = describe(objects.images, RawPixels(size=(32, 32)), n_jobs=1).values
    train = np.random.default_rng(seed).permutation(split.train)
    return X[train], y[train], X[split.test], y[split.test]


def caltech101_embeddings(seed):
    """L2-normalised EfficientNet-Lite0 embeddings, the paper's split (15 training images a class)."""
    objects = open_set("caltech101")
    split = objects.split("paper", seed)
    X, y = normalize(objects.part("embeddings").astype(np.float32)), np.asarray(objects.labels)
    train = np.random.default_rng(seed).permutation(split.train)
    return X[train], y[train], X[split.test], y[split.test]


SETS = {
    "digits": lambda seed: data.digits(),
    "Fashion-MNIST 500": lambda seed: data.fashion_mnist(split=seed, n_train=500),
    "Fashion-MNIST 2,000": lambda seed: data.fashion_mnist(split=seed),
    "Fashion-MNIST 10,000": lambda seed: data.fashion_mnist(split=seed, n_train=10_000),
    "Scene-15, embeddings": lambda seed: data.scene15(part="test" if seed == 0 else "random", split=seed),
    "Caltech-101, GIST": lambda seed: data.caltech101(split=seed),
    "Caltech-101, embeddings": caltech101_embeddings,
    "COIL-20, pixels": coil20,
    "Daimler, pixels": lambda seed: pixels("daimler", 1500, 3000, seed),
    "CBCL faces, pixels": lambda seed: pixels("cbcl_faces", 1500, 3000, seed),
}


def seconds_of(make, X, y):
    start = time.process_time()
    coder = make().fit(X, y)
    return coder, time.process_time() - start


def choice(*wanted):
    """Measure the sets whose names are given, or all; those stored before stay."""
    result = load(NAME, default={}).get("choice", {})
    for name in wanted or SETS:
        found = []
        for seed in SEEDS:
            try:
                X, y, Xt, yt = split = SETS[name](seed)
            except DataAbsent as missing:
                print(f"{name}: {missing}")
                break
            row = {"seed": seed, "samples": X.shape, "classes": len(np.unique(y))}
            for form in FORMS:
                coder, seconds = seconds_of(
                    lambda: CBID(n_bits=64, likeness=0, kernel=form, n_jobs=1, random_state=seed),  # noqa: B023
                    X,
                    y,
                )
                row[form] = {
                    "seconds": seconds,
                    "form": coder.kernel_,
                    "scores": prefix_scores(coder, split, LENGTHS),
                }
            if row["classes"] > 64:
                row["asymmetric"] = {length: asymmetric(coder.truncate(length), split) for length in LENGTHS}
                coder = ArgmaxCode().fit(X, y)
                row["argmax"] = scores(coder.transform(X), y, coder.transform(Xt), yt)
            found.append(row)
            print(name, row, flush=True)
        if found:
            result[name] = found
    return {name: result[name] for name in SETS if name in result}


def asymmetric(coder, split):
    """5-NN accuracy if the query keeps its real values; ties go to the smaller row."""
    X, y, Xt, yt = split
    index = CodeIndex(coder.n_bits_, weights=coder.weights_)
    index.add(coder.encode(X))
    near = index.search(projections=coder.project(Xt), k=5).ids
    classes, numbers = np.unique(y, return_inverse=True)
    votes = [np.bincount(row).argmax() for row in numbers[near]]
    return float(np.mean(classes[votes] == yt))


def training(*wanted):
    """Measure what is given as "SET" or "SET: METHOD", or all; what was stored before stays."""
    found = load(NAME, default={}).get("training", {})
    # The anchors and the width of KSH are those of docs/rivals.md.
    sets = {"Scene-15": (data.scene15, 1000, 1.0), "Fashion-MNIST 2,000": (data.fashion_mnist, 2000, 6.0)}
    for task in wanted or sets:
        name, _, only = task.partition(": ")
        open_data, anchors, width = sets[name]
        X, y, *_ = open_data()
        gamma = width / float(X.var(0).sum())
        ways = {
            "C-BID, default, 64 bits": lambda: CBID(n_bits=64, n_jobs=1),
            "C-BID, default, 256 bits": lambda: CBID(n_bits=256, n_jobs=1),
            "C-BID, linear, 64 bits": lambda: CBID(n_bits=64, likeness=0, kernel="linear", n_jobs=1),
            "SDH, linear, 64 bits": lambda: SDH(n_bits=64, kernel=None),
            "C-BID, RBF, 256 bits": lambda: CBID(n_bits=256, likeness=0, kernel="rbf", n_jobs=1),
            "SDH, RBF, 256 bits": lambda: SDH(n_bits=256),
            "KSH, 256 bits": lambda: KSH(n_bits=256, n_anchors=anchors, gamma=gamma),  # noqa: B023
        }
        times = {way: seconds_of(make, X, y)[1] for way, make in ways.items() if only in way}
        found[name] = {**found.get(name, {}), **times}
        print(name, times, flush=True)
    return found


# A process of its own for each version: it fits what lies in a file and prints the seconds of the processor.
_FIT = """
import inspect, json, sys, time, warnings
import numpy as np
from threadpoolctl import threadpool_limits
from cbid import CBID
warnings.simplefilter("ignore")
path, form, n_bits = sys.argv[1], sys.argv[2], int(sys.argv[3])
held = np.load(path)
known = {"likeness": 0} if "likeness" in inspect.signature(CBID).parameters else {}
make = lambda n_bits: CBID(n_bits=n_bits, kernel=None if form == "linear" else form, n_jobs=1, **known)
with threadpool_limits(1):
    make(2).fit(held["X"][:200], held["y"][:200])  # compile before timing
    start = time.process_time()
    make(n_bits).fit(held["X"], held["y"])
    print(time.process_time() - start)
"""


def earlier(*wanted):
    """Measure this version and an earlier one alternately: the fits whose names are given, or all."""
    sources = {"now": str(Path(__file__).parents[1] / "src"), "earlier": os.environ["CBID_EARLIER"]}
    tasks = {
        "Scene-15, linear, 64 bits": (data.scene15()[:2], "linear", 64),
        "Fashion-MNIST 2,000, linear, 64 bits": (data.fashion_mnist()[:2], "linear", 64),
        "60,000 x 64, linear, 128 bits": (samples(60_000), "linear", 128),
    }
    found = load(NAME, default={}).get("earlier", {})
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted or tasks:
            (X, y), form, n_bits = tasks[name]
            path = str(Path(folder) / "samples.npz")
            np.savez(path, X=X, y=y)
            times = found[name] = {version: [] for version in sources}
            for _ in range(3 if len(X) < 10_000 else 1):
                for version, source in sources.items():
                    done = subprocess.run(
                        [sys.executable, "-c", _FIT, path, form, str(n_bits)],
                        env={**os.environ, "PYTHONPATH": source},
                        capture_output=True,
                        text=True,
                        check=True,
                    )
                    times[version].append(json.loads(done.stdout))
            print(name, times, flush=True)
    return found


def blobs(n, d=64, k=10):
    rng = np.random.default_rng(0)
    y = np.arange(n) % k
    return (rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(k, d))[y]).astype(np.float32), y


def jobs():
    result = {}
    for name, (X, y), form in (
        ("Scene-15, linear, 32 bits", data.scene15()[:2], "linear"),
        ("Scene-15, RBF, 32 bits", data.scene15()[:2], "rbf"),
        ("2,400 x 1,280, linear, 32 bits", blobs(2_400, 1_280), "linear"),
        ("60,000 x 64, linear, 32 bits", blobs(60_000), "linear"),
    ):
        for clock in (time.perf_counter, time.process_time):
            ways = {
                f"n_jobs={n}": lambda n=n: CBID(n_bits=32, likeness=0, kernel=form, n_jobs=n).fit(X, y)  # noqa: B023
                for n in (1, 2)
            }
            result[f"{name}, {clock.__name__}"] = timed(ways, 3, clock)
        print(name, result, flush=True)
    return result


def growth():
    result = {}
    for form in ("linear", "rbf"):
        for n in (10_000, 40_000):
            X, y = blobs(n)
            _, seconds = seconds_of(lambda form=form: CBID(n_bits=16, likeness=0, kernel=form, n_jobs=1), X, y)
            result[f"{form}, {n}"] = seconds
            result[f"{form}, {n}, peak bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(result, flush=True)
    return result


def encoding():
    result = {}
    for d in (64, 256, 1280):
        X, y = blobs(1200, d)
        Q = np.random.default_rng(1).normal(size=(20_000, d)).astype(np.float32)
        ours, theirs = CBID(n_bits=64, likeness=0, kernel="rbf", n_jobs=1).fit(X, y), SDH(n_bits=64).fit(X, y)
        A, C = X[:1000].T.copy(), ours.coef_.T.astype(np.float32)

        def products(Q=Q, A=A, C=C):
            for start in range(0, len(Q), 4000):
                Q[start : start + 4000] @ A @ C

        ways = {
            "products": products,
            "C-BID": lambda coder=ours, Q=Q: coder.encode(Q),
            "SDH": lambda coder=theirs, Q=Q: coder.encode(Q),
        }
        result[d] = timed(ways, 5, time.process_time)
        print(d, {name: min(times) for name, times in result[d].items()}, flush=True)
    return result


PARTS = {part.__name__: part for part in (choice, training, encoding, growth, jobs, earlier)}


def main(names):
    warnings.simplefilter("ignore")
    X, y = blobs(200)
    for form in ("linear", "rbf"):
        CBID(n_bits=2, likeness=0, kernel=form).fit(X, y)  # compile before timing
    for name in names or [part for part in PARTS if part != "earlier" or "CBID_EARLIER" in os.environ]:
        name, *wanted = name.split("=")
        with threadpool_limits(2 if name == "jobs" else 1):
            found = PARTS[name](*wanted)
        earlier_parts = {key: value for key, value in load(NAME, default={"": None}).items() if key}
        store(NAME, {**earlier_parts, name: found})


if __name__ == "__main__":
    main(sys.argv[1:])
