"""Patch classifiers for the table of ``cbid reproduce patches``, with its descriptors, draws and methods.

    python -m benchmarks.nbnn_times [times] [queries] [--methods ...]
    python -m benchmarks.nbnn_times table [--sets ...] [--draws ...] [--methods ...]

times: seconds for an image and a class. Whole images, about 10,000 patches, one thread, all methods in one run, on
the first draw of Caltech-101. queries: accuracy by the number of patches searched for, on the first draws. Both are
lines of benchmarks/results/nbnn_times.jsonl. table: some cells of ``cbid reproduce patches``, or all, one after the
other in one thread; lines of patches.jsonl.

Stored lines are not run again. ``python -m benchmarks.nbnn_report`` makes docs/nbnn.md from them.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.results import FOLDER, add_line, load_lines
from cbid.descriptors import DenseSIFT
from cbid.paper.base import Context
from cbid.paper.patches import DRAWS, EXPERIMENT, METHODS, QUERIES, SLOW, learn_cbid, sampled
from cbid.paper.raw import RawResults
from cbid.paper.runner import one_thread
from cbid.paper.sets import open_set
from cbid.threads import faiss_products

RAW = RawResults(FOLDER / "patches.jsonl", EXPERIMENT.revision, EXPERIMENT.independent, EXPERIMENT.scope)
SETS = ("caltech101-five", "scene15")
# Numbers of queries whose accuracies are compared; exact search of Scene-15 takes half an hour for each thousand.
CHECKED = {"cbid128": (50, 150, 300, 1000), "exact": (50, 150, 300, 600)}
TIMED_IMAGES, TIMED_RUNS = 3, 3
SCANS = ("faiss", "scipy", "numpy")
# Timed in addition to the plain scans: what costs the same with place is timed once.
TIMED = [method for method in METHODS if method != "bow" and not method.endswith("_placed")]
# All cells of the protocol with as many queries as the reduced form has, which has some of them in fewer draws.
CELLS = [
    {"set": name, "repeat": repeat, "method": method, "train": 10, "test": 25, "classes": None, "step": 2,
     "queries": QUERIES}
    for name in SETS
    for repeat in range(DRAWS)
    for method in METHODS
]  # fmt: skip


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
            model = (
                METHODS[method]
                .make(0, learn_cbid(train, y, 0, placed=False) if method != "exact" else None)
                .fit(train, y)
            )
            for n in counts:
                found = model.predict(asked.sample(n, np.random.default_rng(0)))
                write({"kind": "queries", "set": name, "method": method, "queries": n,
                       "accuracy": float(np.mean(found == truth))})  # fmt: skip


def times(methods):
    """Every method, or these, one after the other in one thread; and three plain scans of all distances."""
    done = {line["method"] for line in lines() if line["kind"] == "time"}
    wanted = [m for m in (*TIMED, *SCANS) if m not in done and (not methods or m in methods)]
    if not wanted:
        return
    train, y, images, _ = draw(SETS[0])
    step = len(images) // TIMED_IMAGES
    asked = DenseSIFT().transform(images[::step][:TIMED_IMAGES])
    cbid = learn_cbid(train, y, 0, placed=False) if set(wanted) - set(SCANS) else None
    fixed = {"kind": "time", "set": SETS[0], "queries": asked.sizes.tolist(), "rows": len(train.values)}
    for method in wanted:
        if method in SCANS:
            continue
        model = METHODS[method].make(0, cbid).fit(train, y)
        model.predict(asked.take([0]).sample(10, np.random.default_rng(0)))  # compile before timing
        found = [model.evaluation_time(asked) for _ in range(1 if method in SLOW else TIMED_RUNS)]
        write({**fixed, "method": method, "per_image_and_class": float(np.median([t.total for t in found])),
               "seconds": [[t.encode, t.search] for t in found]})  # fmt: skip
    classes = np.unique(y)
    part = train.take(np.flatnonzero(y == classes[0])).values
    for method in [m for m in wanted if m in SCANS]:
        scan = {"faiss": faiss_scan, "scipy": plain_scan, "numpy": plain_product}[method]
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


def table(sets, draws, methods):
    """Run the cells of the table that are not stored yet; a killed run resumes."""
    cells = [
        cell
        for cell in (CELLS if methods else EXPERIMENT.cells(SETS, False))
        if cell["set"] in sets and cell["repeat"] in draws and (not methods or cell["method"] in methods)
    ]
    cells.sort(key=lambda cell: (draws.index(cell["repeat"]), sets.index(cell["set"])))
    context = Context(None, Path("descriptors"))
    for task in EXPERIMENT.tasks(RAW.missing(cells)):
        started = time.process_time()
        for settings, result in EXPERIMENT.run(task, context):
            RAW.add(settings, result, time.process_time() - started)
            started = time.process_time()
            right = np.mean(np.array(result["truth"]) == np.array(result["predicted"]))
            print(settings["set"], settings["repeat"], settings["method"], f"{100 * right:.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=("times", "queries", "table", []), default=["times", "queries"])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--draws", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, *SCANS], default=[])
    given = parser.parse_args()
    with one_thread():
        for name in given.parts:
            if name == "table":
                table(given.sets, given.draws, given.methods)
            elif name == "times":
                times(given.methods)
            else:
                queries()


if __name__ == "__main__":
    main()
