"""Table 1 of the paper: image classification by the nearest patches, with codes of 16 to 128 bits and without.

    python -m benchmarks.nbnn_table [--sets ...] [--repeats ...] [--methods ...] [--jobs N]

The five classes of Caltech-101 and Scene-15: the longest side at most 150 pixels, dense SIFT at four scales, 10
training and 25 test images a class, five draws (the protocol "patches" of ``cbid.data``). All methods have the same
descriptors. All training patches are kept; a test image asks with 150 of its patches, drawn at random, the same for
all methods (the bag of words has them all). What that costs in accuracy is measured too, by codes of 128 bits.

Time is for whole images, about 10,000 patches, in one thread, all methods in one run, on the first draw of
Caltech-101.

Results are the lines of benchmarks/results/nbnn_table.jsonl, written one by one; what is there is not run again. An
hour on two cores. ``python -m benchmarks.nbnn_report`` makes the tables of docs/patches.md from them.
"""

import argparse
import json
import os
import time

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from benchmarks.results import FOLDER, PACKAGES
from cbid.data import open_set
from cbid.descriptors import DenseSIFT
from cbid.experiments.patch_methods import METHODS, in_order, index_of, learn_cbid, storage_of
from cbid.experiments.patches import sampled

RESULTS = FOLDER / "nbnn_table.jsonl"
SETS = ("caltech101-five", "scene15")
QUERIES = 150
CHECKED = (50, 100, 150, 300, 1000)  # numbers of queries whose accuracies are compared
TIMED_IMAGES, TIMED_RUNS = 3, 3
SLOW = ("exact", "bbf", "lsh")  # timed once


def lines():
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def write(line):
    """One line, in one write, so that workers do not mix theirs."""
    RESULTS.parent.mkdir(exist_ok=True)
    with open(RESULTS, "ab", buffering=0) as file:
        file.write((json.dumps(line, default=float) + "\n").encode())
    shown = {k: v for k, v in line.items() if k not in ("predicted", "seconds", "machine")}
    print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{v}" for k, v in shown.items()), flush=True)


def draw(name, repeat):
    """Training bags and labels, test images and labels."""
    data = open_set(name)
    split = data.split("patches", repeat)
    train = DenseSIFT().transform(data.images[split.train])
    return train, data.labels[split.train], data.images[split.test], data.labels[split.test]


def accuracies(name, repeat, methods):
    """All methods on one draw."""
    with threadpool_limits(1):
        train, y, images, y_test = draw(name, repeat)
        fixed = {"kind": "accuracy", "set": name, "repeat": repeat, "descriptor": DenseSIFT().fingerprint()}
        models, whole = {}, []
        if "bow" in methods:
            started = time.thread_time()
            models["bow"] = METHODS["bow"].make(repeat, None).fit(train, y)
            bow_fit = time.thread_time() - started
        queries = sampled(
            images, QUERIES, repeat, lambda bags: whole.extend(models["bow"].predict(bags)) if models else None
        )
        cbid = None
        for method in in_order(methods):
            started = time.thread_time()
            if method == "bow":
                model, predicted, fit = models["bow"], np.array(whole), bow_fit
            else:
                if cbid is None and method in ("cbid16", "cbid32", "cbid128", "local128"):
                    cbid = learn_cbid(train, y, repeat)
                    write(
                        {
                            **fixed,
                            "kind": "learning",
                            "fit_seconds": time.thread_time() - started,
                            "bits": cbid.n_bits_,
                        }
                    )
                started = time.thread_time()
                model = METHODS[method].make(repeat, cbid).fit(train, y)
                fit = time.thread_time() - started
                started = time.thread_time()
                predicted = model.predict(queries)
            write(
                {
                    **fixed,
                    "method": method,
                    "accuracy": float(np.mean(predicted == y_test)),
                    "storage": storage_of(method, model),
                    "index": index_of(method, model, len(train)),
                    "descriptors": float(train.sizes.mean()),
                    "fit_seconds": fit,
                    "predict_seconds": time.thread_time() - started,
                    "predicted": np.searchsorted(np.unique(y), predicted).tolist(),
                }
            )


def queries_check(name):
    """Accuracy by codes of 128 bits on the first draw, by the number of patches that a test image asks with."""
    with threadpool_limits(1):
        train, y, images, y_test = draw(name, 0)
        model = METHODS["cbid128"].make(0, learn_cbid(train, y, 0)).fit(train, y)
        most = None if name == SETS[0] else CHECKED[-1]
        whole = sampled(images, most or 10**9, 0)
        for n in (*CHECKED, *([] if most else [None])):
            rng = np.random.default_rng(0)
            asked = whole if n is None else whole.sample(n, rng)
            found = float(np.mean(model.predict(asked) == y_test))
            write({"kind": "queries", "set": name, "repeat": 0, "queries": n or "all", "accuracy": found})


def times():
    """Seconds for an image and a class, of every method, one after the other in one thread."""
    with threadpool_limits(1):
        train, y, images, _ = draw(SETS[0], 0)
        step = len(images) // TIMED_IMAGES
        asked = DenseSIFT().transform(images[::step][:TIMED_IMAGES])
        cbid = learn_cbid(train, y, 0)
        fixed = {"kind": "time", "set": SETS[0], "queries": asked.sizes.tolist(), "rows": len(train.values)}
        for method in METHODS:
            if method == "bow":
                continue
            model = METHODS[method].make(0, cbid).fit(train, y)
            model.predict(asked.take([0]).sample(10, np.random.default_rng(0)))  # compiles what is to be compiled
            found = [model.evaluation_time(asked) for _ in range(1 if method in SLOW else TIMED_RUNS)]
            write({**fixed, "method": method, "per_image_and_class": float(np.median([t.total for t in found])),
                   "seconds": [[t.encode, t.search] for t in found]})  # fmt: skip
        classes = np.unique(y)
        part = train.take(np.flatnonzero(y == classes[0])).values
        for method, scan in (("scipy", plain_scan), ("numpy", plain_product)):
            started = time.thread_time()
            scan(asked[0], part)
            seconds = (time.thread_time() - started) * len(train.values) / len(part) / len(classes)
            seconds *= asked.sizes.mean() / len(asked[0])  # one image and class, to the mean of all
            write({**fixed, "method": method, "per_image_and_class": seconds})


def plain_scan(queries, rows):
    """Nearest squared distances as a plain loop over pairs (scipy), and as a matrix product in plain numpy."""
    from scipy.spatial.distance import cdist

    for start in range(0, len(queries), 256):
        cdist(queries[start : start + 256], rows, "sqeuclidean").min(axis=1)


def plain_product(queries, rows):
    squares = np.einsum("ij,ij->i", rows, rows)
    for start in range(0, len(queries), 256):
        part = queries[start : start + 256]
        (squares - 2 * part @ rows.T).min(axis=1)


def machine():
    from importlib.metadata import version

    return {"cores": os.cpu_count(), "packages": {package: version(package) for package in PACKAGES}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    parser.add_argument("--repeats", nargs="*", type=int, default=range(5))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--jobs", type=int, default=2, help="draws at a time; each takes about 4 GB")
    arguments = parser.parse_args()
    done = lines()
    if not done:
        write({"kind": "machine", **machine()})
    descriptor = DenseSIFT().fingerprint()  # what was made of other descriptors does not count
    have = {
        (line["set"], line["repeat"], line["method"])
        for line in done
        if line["kind"] == "accuracy" and line["descriptor"] == descriptor
    }
    jobs = []
    for repeat in arguments.repeats:
        for name in arguments.sets:
            missing = [m for m in arguments.methods if (name, repeat, m) not in have]
            if missing:
                jobs.append(delayed(accuracies)(name, repeat, missing))
    checked = {line["set"] for line in done if line["kind"] == "queries" and line["queries"] in ("all", CHECKED[-1])}
    if "cbid128" in arguments.methods:
        jobs += [delayed(queries_check)(name) for name in arguments.sets if name not in checked]
    started = time.perf_counter()
    for count, _ in enumerate(Parallel(arguments.jobs, return_as="generator_unordered")(jobs), 1):
        print(f"-- {count} of {len(jobs)} draws, {(time.perf_counter() - started) / 60:.1f} minutes", flush=True)
    timed = {line["method"] for line in done if line["kind"] == "time"}
    if set(arguments.methods) == set(METHODS) and "numpy" not in timed:  # the last one
        times()


if __name__ == "__main__":
    main()
