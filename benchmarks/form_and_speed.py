"""The form that ``CBID`` chooses, and what it costs: python -m benchmarks.form_and_speed [PART ...].

- choice: 64 class bits in the linear form, in the kernel form, and in the form that ``kernel="auto"`` chooses:
  5-NN accuracy and mean average precision on test samples by plain Hamming distance, also at 16 bits. On
  Caltech-101, beside the argmax of a linear SVM as a code.
- training: seconds of the processor, one thread, beside SDH and KSH in the same run; and ``CBID.paper`` on digits.
- jobs: ``n_jobs=2`` beside ``n_jobs=1``, in turns.
- growth: 10,000 samples and four times as many.
- encoding: seconds to encode 20,000 vectors in the kernel form, beside the bare products and SDH.

Results go to benchmarks/results/form_and_speed.json. A part that runs again replaces what it stored. Seed 0.
"""

import sys
import time
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.results import load, store
from benchmarks.scoring import prefix_scores, scores
from benchmarks.timing import timed
from cbid import CBID
from cbid.coders import KSH, SDH, ArgmaxCode
from cbid.paper.sets import DataAbsent, open_set

NAME = "form_and_speed"
LENGTHS = (16, 64)
FORMS = ("linear", "rbf", "auto")


def pixels(name, n_train, n_test):
    """Pixels in 0..1 of two-class sets: random training and test images of the given training part."""
    images = open_set(name)
    pool = np.random.default_rng(0).permutation(images.split("paper").train)[: n_train + n_test]
    X = images.images.items[pool].reshape(len(pool), -1).astype(np.float32) / 255
    y = np.asarray(images.labels)[pool]
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def caltech101_embeddings():
    """L2-normalised EfficientNet-Lite0 embeddings, the paper's split (15 training images a class)."""
    objects = open_set("caltech101")
    split = objects.split("paper", 0)
    X, y = normalize(objects.part("embeddings").astype(np.float32)), np.asarray(objects.labels)
    train = np.random.default_rng(0).permutation(split.train)
    return X[train], y[train], X[split.test], y[split.test]


SETS = {
    "digits": data.digits,
    "digits, 200 samples": lambda: tuple(part[:200] if k < 2 else part for k, part in enumerate(data.digits())),
    "Scene-15, embeddings": data.scene15,
    "Caltech-101, embeddings": caltech101_embeddings,
    "CBCL faces, pixels": lambda: pixels("cbcl_faces", 1500, 1500),
    "Daimler, pixels": lambda: pixels("daimler", 1500, 3000),
}


def seconds_of(make, X, y):
    start = time.process_time()
    coder = make().fit(X, y)
    return coder, time.process_time() - start


def choice():
    result = {}
    for name, open_data in SETS.items():
        try:
            X, y, Xt, yt = split = open_data()
        except DataAbsent as missing:
            print(f"{name}: {missing}")
            continue
        row = result[name] = {"samples": X.shape, "classes": len(np.unique(y))}
        for form in FORMS:
            coder, seconds = seconds_of(lambda form=form: CBID(n_bits=64, likeness=0, kernel=form, n_jobs=1), X, y)
            row[form] = {"seconds": seconds, "form": coder.kernel_, "scores": prefix_scores(coder, split, LENGTHS)}
        if row["classes"] > 64:
            coder = ArgmaxCode().fit(X, y)
            row["argmax"] = scores(coder.transform(X), y, coder.transform(Xt), yt)
        print(name, row, flush=True)
    return result


def training():
    X, y, *_ = data.scene15()
    ways = {
        "C-BID, default, 64 bits": lambda: CBID(n_bits=64, n_jobs=1),
        "C-BID, default, 256 bits": lambda: CBID(n_bits=256, n_jobs=1),
        "C-BID, linear, 64 bits": lambda: CBID(n_bits=64, likeness=0, kernel="linear", n_jobs=1),
        "SDH, linear, 64 bits": lambda: SDH(n_bits=64, kernel=None),
        "C-BID, RBF, 256 bits": lambda: CBID(n_bits=256, likeness=0, kernel="rbf", n_jobs=1),
        "SDH, RBF, 256 bits": lambda: SDH(n_bits=256),
        "KSH, 1,000 anchors, 256 bits": lambda: KSH(n_bits=256, n_anchors=1000, gamma=1 / float(X.var(0).sum())),
    }
    found = {}
    for name, make in ways.items():
        found[name] = seconds_of(make, X, y)[1]
        print(name, found[name], flush=True)
    X, y = load_digits(return_X_y=True)
    found["C-BID, the paper's settings, digits, 64 bits"] = seconds_of(lambda: CBID.paper(64, n_jobs=1), X, y)[1]
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
            _, seconds = seconds_of(lambda form=form: CBID(n_bits=32, likeness=0, kernel=form, n_jobs=1), X, y)
            result[f"{form}, {n}"] = seconds
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


PARTS = {part.__name__: part for part in (choice, training, encoding, growth, jobs)}


def main(names):
    warnings.simplefilter("ignore")
    X, y = blobs(200)
    for form in ("linear", "rbf"):
        CBID(n_bits=2, likeness=0, kernel=form).fit(X, y)  # compile before timing
    for name in names or PARTS:
        with threadpool_limits(2 if name == "jobs" else 1):
            found = PARTS[name]()
        earlier = {key: value for key, value in load(NAME, default={"": None}).items() if key}
        store(NAME, {**earlier, name: found})


if __name__ == "__main__":
    main(sys.argv[1:])
