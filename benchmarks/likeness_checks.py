"""Does likeness order poses, what does it cost, and what does the dial reach?

    python -m benchmarks.likeness_checks poses cost dial [--seeds 5]
    python -m benchmarks.likeness_checks table

poses: COIL-20, pyramid HOG, 128 bits, linear form. Of each object four poses, 90 degrees apart, turned by the seed,
are queries; the other 68 are learned and stored. Share of the comparisons in which the same object in a near pose
(within 30 or 15 degrees) is nearer than the same object in a far pose, and this one nearer than another object; ties
count half. Without likeness, with the default and at ``weights_at`` 0.75 and 1; and the original vectors.

cost: processor time of a fit with likeness over one without, 128 bits, in the form that ``kernel="auto"`` chooses
(here RBF) and in the linear form, on made-up samples of 64 features in 10 classes; the peak of memory above that of
the samples and the libraries. A fresh process for each fit.

dial: Scene-15 embeddings, classes split as in benchmarks/unseen_classes.py, 128 bits, linear form. One fit with
likeness 0.5: seen mAP and neighbour recall of unseen classes by ``weights_at`` 0 to 1, before and after a save.
Beside them the seen mAP of a class-only fit and the neighbour recall of ITQ, both of 64 bits.
"""

import argparse
import itertools
import json
import resource
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import numpy as np
from sklearn.datasets import make_classification
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from benchmarks.results import add_line, load_lines
from cbid import CBID, load
from cbid.coders import ITQ
from cbid.descriptors import PyramidHOG, describe
from cbid.paper.sets import open_set
from cbid.paper.unseen import code_distances, unseen_figures, unseen_split

NAME = "likeness_checks"
NEAR = (30, 15)  # degrees
SIZES = (2000, 4000, 8000)
DIAL = (0.0, 0.25, 0.5, 0.75, 1.0)


def share_before(first, second):
    """Return the share of pairs (one of each) in which the first distance is smaller, ties by half."""
    ordered = np.sort(second)
    below = np.searchsorted(ordered, first, side="left")
    up_to = np.searchsorted(ordered, first, side="right")
    return float(1 - np.mean((below + up_to) / 2) / len(second))


def pose_shares(D, queries, stored, labels, pose):
    """Return the mean over queries of: near before far, far before others; for each limit of near."""
    found = []
    for row, q in zip(D, queries):
        same = labels[stored] == labels[q]
        away = np.abs((pose[stored] - pose[q] + 180) % 360 - 180)
        shares = []
        for limit in NEAR:
            near, far, other = row[same & (away <= limit)], row[same & (away > limit)], row[~same]
            shares += [share_before(near, far), share_before(far, other)]
        found.append(shares)
    return np.mean(found, axis=0).tolist()


def poses(seed):
    """Store the shares of each way for one turn of the query poses."""
    data = open_set("coil20")
    labels, pose = data.labels, np.asarray(data.part("pose"), dtype=float)
    X = np.asarray(describe(data.images, PyramidHOG(), cache=Path(gettempdir()) / "cbid-benchmarks").values)
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    is_query = (pose - 15 * seed) % 90 == 0
    queries, stored = np.flatnonzero(is_query), np.flatnonzero(~is_query)

    def shares(D):
        return pose_shares(D, queries, stored, labels, pose)

    found = {"original vectors": shares(1 - X[queries] @ X[stored].T)}
    for likeness in (0, None):
        coder = CBID(n_bits=128, kernel="linear", likeness=likeness, random_state=seed).fit(X[stored], labels[stored])
        bits = coder.transform(X).astype(np.float32)
        weights = {"classes only": coder.weights_} if likeness == 0 else {"default": coder.weights_}
        if likeness is None:
            weights |= {f"weights_at({a})": coder.weights_at(a) for a in (0.75, 1)}
        for way, w in weights.items():
            found[way] = shares(code_distances(bits[queries], bits[stored], w))
    add_line(NAME, {"check": "poses", "seed": seed, **found})


def fit_once(n, likeness, kernel):
    """Print processor time and memory of one fit; for a process of its own."""
    X, y = make_classification(
        n, 64, n_informative=32, n_redundant=16, n_classes=10, n_clusters_per_class=2, class_sep=2.0, random_state=0
    )
    X = X.astype(np.float32)
    coder = CBID(n_bits=128, kernel=kernel, likeness=likeness)
    with threadpool_limits(1):
        CBID(n_bits=8, kernel=kernel, likeness=likeness).fit(X[:500], y[:500])  # imports and compiles
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        coder.fit(X, y)
    seconds = time.process_time() - start
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps({"seconds": seconds, "megabytes": megabytes}))


def cost(seed):
    """Store time and memory with and without likeness, for each size."""
    for n, kernel in itertools.product(SIZES, ("auto", "linear")):
        line = {"check": "cost", "seed": seed, "n": n, "kernel": kernel}
        for likeness in (0, 0.5):
            given = ["--fit", str(n), str(likeness), "--kernel", kernel]
            command = [sys.executable, "-m", "benchmarks.likeness_checks", "fit", *given]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            line[f"likeness {likeness}"] = json.loads(done.stdout.splitlines()[-1])
        add_line(NAME, line)


def dial(seed):
    """Store the figures of one fit at each point of the dial, and those of the two halves."""
    images = open_set("scene15")
    X, y = normalize(images.part("embeddings").astype(np.float32)), images.labels
    split = unseen_split(y, 5, 100, seed)

    def figures(coder, weights):
        bits = coder.transform(X).astype(np.float32)
        found = unseen_figures(X, y, split, lambda a, b: code_distances(bits[a], bits[b], weights))
        return [found["seen_map"], found["neighbours"]]

    settings = {"kernel": "linear", "random_state": seed}
    coder = CBID(n_bits=128, likeness=0.5, **settings).fit(X[split.train], y[split.train])
    with TemporaryDirectory() as folder:
        coder.save(Path(folder) / "coder.safetensors")
        again = load(Path(folder) / "coder.safetensors")
    line = {"check": "dial", "seed": seed}
    for point in DIAL:
        line[f"at {point}"] = figures(coder, coder.weights_at(point))
        if figures(again, again.weights_at(point)) != line[f"at {point}"]:
            raise AssertionError(f"the dial at {point} differs after save and load")
    classes = CBID(n_bits=64, likeness=0, **settings).fit(X[split.train], y[split.train])
    line["classes, 64 bits"] = figures(classes, classes.weights_)
    line["ITQ, 64 bits"] = figures(ITQ(n_bits=64, random_state=seed).fit(X[split.train]), np.ones(64))
    add_line(NAME, line)


def table():
    """Print means over the seeds."""
    lines = load_lines(NAME)
    for_poses = [line for line in lines if line["check"] == "poses"]
    print(f"poses, {len(for_poses)} seeds: near before far, far before others; near is {NEAR} degrees")
    for way in for_poses[0] if for_poses else ():
        if way not in ("check", "seed", "defaults", "made"):
            shares = np.mean([line[way] for line in for_poses], axis=0)
            print(f"  {way:20}" + "".join(f"{share:8.3f}" for share in shares))
    print("cost: form, samples, seconds without and with likeness, ratio, megabytes without and with")
    sizes = defaultdict(list)
    for line in lines:
        if line["check"] == "cost":
            sizes[line["kernel"], line["n"]].append([list(line[f"likeness {a}"].values()) for a in (0, 0.5)])
    for (kernel, n), values in sorted(sizes.items()):
        (s0, m0), (s1, m1) = np.mean(values, axis=0)
        print(f"  {kernel:8}{n:8}{s0:8.1f}{s1:8.1f}{s1 / s0:8.2f}{m0:8.0f}{m1:8.0f}  seeds: {len(values)}")
    dials = [line for line in lines if line["check"] == "dial"]
    print(f"dial, {len(dials)} seeds: seen mAP, neighbour recall")
    for way in dials[0] if dials else ():
        if way not in ("check", "seed", "defaults", "made"):
            seen, neighbours = np.mean([line[way] for line in dials], axis=0)
            print(f"  {way:20}{seen:8.3f}{neighbours:8.3f}")


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="+", choices=["poses", "cost", "dial", "fit", "table"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--fit", type=float, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--kernel", default="auto", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fit:
        fit_once(int(given.fit[0]), given.fit[1], given.kernel)
        return
    stored = {(line["check"], line["seed"]) for line in load_lines(NAME)}
    for check, run in (("poses", poses), ("cost", cost), ("dial", dial)):
        for seed in range(1 if check == "cost" else given.seeds):
            if check in given.checks and (check, seed) not in stored:
                run(seed)
    table()


if __name__ == "__main__":
    main()
