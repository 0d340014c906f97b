"""Patch classifiers beside the table of ``cbid reproduce patches``, with its descriptors, draws and methods.

    python -m benchmarks.nbnn_times [times] [queries] [place]

times: seconds for an image and a class. Whole images, about 10,000 patches, one thread, all methods in one run, on
the first draw of Caltech-101. queries: accuracy by the number of patches searched for, on the first draws. Both are
lines of benchmarks/results/nbnn_times.jsonl. place: accuracy of exact NBNN and ITQ with the location of patches,
and of C-BID without; lines of patch_place.jsonl.

Stored lines are not run again. ``python -m benchmarks.nbnn_report`` makes docs/nbnn.md from them.
"""

import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.results import FOLDER, add_line, load_lines
from cbid.descriptors import DenseSIFT
from cbid.paper.base import Context
from cbid.paper.patches import EXPERIMENT, METHODS, PLACE_METHODS, learn_cbid, sampled
from cbid.paper.raw import RawResults
from cbid.paper.runner import one_thread
from cbid.paper.sets import open_set
from cbid.threads import faiss_products

PLACE_RAW = RawResults(FOLDER / "patch_place.jsonl")
FEW_DRAWS = 2  # of exact NBNN with location on Scene-15, which is slow
SETS = ("caltech101-five", "scene15")
# Numbers of queries whose accuracies are compared; exact search of Scene-15 takes half an hour for each thousand.
CHECKED = {"cbid128": (50, 150, 300, 1000), "exact": (50, 150, 300, 600)}
TIMED_IMAGES, TIMED_RUNS = 3, 3
SLOW = ("exact", "placed", "bbf", "lsh")  # timed once


def lines():
    return load_lines("nbnn_times")


def write(line):
    add_line("nbnn_times", line)
    print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{v}" for k, v in line.items()), flush=True)


def draw(name):
    """Training bags and labels, test images and labels of the first draw."""
    data = open_set(name)
    split = data.split("patches", 0)
    train = DenseSIFT().transform(data.images[split.train])
    return train, data.labels[split.train], data.images[split.test], data.labels[split.test]


def queries():
    """Accuracy by the number of patches that a test image asks with; the fewer are the first of the more."""
    done = {(line["set"], line["method"], line["queries"]) for line in lines() if line["kind"] == "queries"}
    for name in SETS:
        missing = {m: [n for n in counts if (name, m, n) not in done] for m, counts in CHECKED.items()}
        if not any(missing.values()):
            continue
        train, y, images, truth = draw(name)
        asked = sampled(images, max(n for counts in missing.values() for n in counts), 0)
        for method, counts in missing.items():
            model = METHODS[method].make(0, learn_cbid(train, y, 0) if method != "exact" else None).fit(train, y)
            for n in counts:
                found = model.predict(asked.sample(n, np.random.default_rng(0)))
                write({"kind": "queries", "set": name, "method": method, "queries": n,
                       "accuracy": float(np.mean(found == truth))})  # fmt: skip


def times():
    """Every method, one after the other in one thread; and three plain scans of all distances."""
    done = {line["method"] for line in lines() if line["kind"] == "time"}
    if "numpy" in done:  # the last one
        return
    train, y, images, _ = draw(SETS[0])
    step = len(images) // TIMED_IMAGES
    asked = DenseSIFT().transform(images[::step][:TIMED_IMAGES])
    cbid = learn_cbid(train, y, 0)
    fixed = {"kind": "time", "set": SETS[0], "queries": asked.sizes.tolist(), "rows": len(train.values)}
    for method, about in (METHODS | PLACE_METHODS).items():
        if method == "bow":
            continue
        model = about.make(0, cbid).fit(train, y)
        model.predict(asked.take([0]).sample(10, np.random.default_rng(0)))  # compile before timing
        found = [model.evaluation_time(asked) for _ in range(1 if method in SLOW else TIMED_RUNS)]
        write({**fixed, "method": method, "per_image_and_class": float(np.median([t.total for t in found])),
               "seconds": [[t.encode, t.search] for t in found]})  # fmt: skip
    classes = np.unique(y)
    part = train.take(np.flatnonzero(y == classes[0])).values
    for method, scan in (("faiss", faiss_scan), ("scipy", plain_scan), ("numpy", plain_product)):
        started = time.thread_time()
        scan(asked[0], part)
        seconds = (time.thread_time() - started) * len(train.values) / len(part) / len(classes)
        seconds *= asked.sizes.mean() / len(asked[0])  # one image and class, to the mean of all
        write({**fixed, "method": method, "per_image_and_class": seconds})


def faiss_scan(queries, rows):
    """Nearest squared distances as a matrix product (faiss's flat search), as a plain loop over pairs (scipy), and as
    a matrix product in plain numpy."""
    import faiss

    with faiss_products(True):
        faiss.knn(queries, rows, 1)


def plain_scan(queries, rows):
    from scipy.spatial.distance import cdist

    for start in range(0, len(queries), 256):
        cdist(queries[start : start + 256], rows, "sqeuclidean").min(axis=1)


def plain_product(queries, rows):
    squares = np.einsum("ij,ij->i", rows, rows)
    for start in range(0, len(queries), 256):
        part = queries[start : start + 256]
        (squares - 2 * part @ rows.T).min(axis=1)


def place_cells():
    draws = [cell for cell in EXPERIMENT.cells(SETS, False) if cell["method"] == "exact"]
    return [
        {**cell, "method": method}
        for cell in draws
        for method in PLACE_METHODS
        if method != "placed" or cell["set"] != "scene15" or cell["repeat"] < FEW_DRAWS
    ]


def place():
    """Run exact NBNN and ITQ with the location of patches, and C-BID without it."""
    context = Context(None, Path("descriptors"))
    for task in EXPERIMENT.tasks(PLACE_RAW.missing(place_cells())):
        started = time.process_time()
        for settings, result in EXPERIMENT.run(task, context):
            PLACE_RAW.add(settings, result, time.process_time() - started)
            started = time.process_time()
            print(settings["set"], settings["repeat"], settings["method"], flush=True)


def main():
    parts = {"times": times, "queries": queries, "place": place}
    with one_thread():
        for name in sys.argv[1:] or parts:
            parts[name]()


if __name__ == "__main__":
    main()
