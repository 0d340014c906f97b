"""Which settings of ``PatchCBID`` become its defaults: one change at a time, by NBNN on validation images.

    python -m benchmarks.patch_study [--draws N] [--sets ...]            the settings, before there were rotations
    python -m benchmarks.patch_study noisy [--draws N] [--sets ...]      what helps against the noise of the rows

The five classes of Caltech-101 and Scene-15, dense SIFT as it comes, 10 training and 25 validation images a class.
All of them are drawn from the images that no test part of the protocol "patches" holds, in any of its repeats. To
keep the study short, a training image gives 1,000 patches to the database and a validation image asks with 150, drawn
at random, the same for all settings; so the accuracies compare settings and are lower than those of whole images.
The study of noise is smaller: eight classes of Scene-15, 400 patches and 120 queries, 3,000 patches to learn from.

Beside the accuracy stands the log loss of a softmax over minus the image-to-class distances, at the scale that serves
each setting best: it moves less from draw to draw. Codes are compared by their weights.
`results/patch_study.json` and `results/patch_noise.json` keep both for every draw; what they have is not run again.
"""

import argparse
import json
import time
from contextlib import contextmanager

import numpy as np
from threadpoolctl import threadpool_limits

import cbid.coders.patch_cbid as module
from benchmarks.results import load, store
from cbid import NBNNClassifier, PatchCBID
from cbid.bags import position_scale, with_positions
from cbid.coders import ITQ, LSH
from cbid.descriptors import DenseSIFT
from cbid.learning.rows import rows_from_neighbourhoods
from cbid.paper.sets import open_set
from cbid.paper.sets.base import shuffled

SETS = {"caltech101-five": 4, "scene15": 2}  # draws
TRAIN, VALIDATION, DATABASE, QUERIES = 10, 25, 1000, 150
LENGTHS = (16, 32, 128)
OLD = {"starts": "pencil", "whitening": 1.0}  # the defaults before there were rotations
CHANGES = [
    {},
    {"location": 1.0},
    {"location": 2.0},
    {"location": 1.0, "ridge": 1e-3},
    {"rows": "image"},
    {"location": 1.0, "ridge": 1e-2},
]
RIVALS = {
    "NBNN, exact": lambda seed: NBNNClassifier(),
    "NBNN, exact, location 0.5": lambda seed: NBNNClassifier(location=0.5),
    "NBNN, exact, location 1": lambda seed: NBNNClassifier(location=1.0),
    "NBNN, PCA, 512 bits": lambda seed: NBNNClassifier(search="pca", n_components=16),
    "ITQ, 128 bits": lambda seed: NBNNClassifier(coder=ITQ(n_bits=128, random_state=seed)),
    "random hyperplanes, 128 bits": lambda seed: NBNNClassifier(coder=LSH(n_bits=128, random_state=seed)),
}

# The study of noise. "keep": rows whose hit is nearer than the miss ("correct", an oracle of the right rows), or
# nearer by a tenth ("reliable"); "plain": plain Hamming distance; "asymmetric": queries are not rounded to bits.
NOISE_SIZES = {"classes": [4, 8, 9, 10, 11, 12, 13, 14], "database": 400, "queries": 120, "patches": 3000}
TRIES = [
    {},
    {"decision": "balanced"},
    {"decision": "corrected"},
    OLD,
    {**OLD, "keep": "correct"},
    {"keep": "correct"},
    {"rival": "itq"},
    {"rival": "itq", "decision": "balanced"},
    {"rival": "itq", "decision": "corrected"},
    {"rival": "lsh"},
    {"rival": "lsh", "decision": "balanced"},
    {"rival": "exact"},
    {"whitening": 1e9},  # axes as they are
    {"n_components": 48},
    {**OLD, "likeness": 0.5},
    {"asymmetric": True},
    {"plain": True},
    {**OLD, "keep": "reliable"},
    {"max_patches": 6000},
    {"n_hits": 3, "n_misses": 3},
    {"paper": True},
    {**OLD, "ridge": 0.1},
    {"n_components": 128},
    {"rows": "image"},
]


def free_images(data, number, classes=None):
    """The images of each class that are in no test part, in the order of a draw."""
    repeats = data.info.protocols["patches"].repeats
    tested = np.concatenate([data.split("patches", repeat).test for repeat in range(repeats)])
    free = np.setdiff1d(np.arange(len(data)), tested)
    return [
        shuffled(free[data.labels[free] == label], data.images.names, f"patch study/{number}")
        for label in (np.unique(data.labels) if classes is None else classes)
    ]


def draw(name, number, *, database=DATABASE, queries=QUERIES, classes=None):
    """Database, validation bags and their labels, of images that are in no test part."""
    data = open_set(name)
    orders = free_images(data, number, classes)
    train = np.concatenate([order[:TRAIN] for order in orders])
    validation = np.concatenate([order[TRAIN : TRAIN + VALIDATION] for order in orders])
    rng = np.random.default_rng(number)
    descriptor = DenseSIFT()
    stored = descriptor.transform(data.images[train]).sample(database, rng)
    asked = descriptor.transform(data.images[validation]).sample(queries, rng)
    return stored, data.labels[train], asked, data.labels[validation]


def scores(model, queries, labels):
    """Accuracy, and the log loss at the best of many scales."""
    decision = model.decision_function(queries)
    return scores_of(-decision, np.searchsorted(model.classes_, labels))


def scores_of(distances, own):
    nearest = distances.min(axis=1, keepdims=True)
    logits = (nearest - distances) / np.mean(distances - nearest)
    losses = [
        np.mean(np.log(np.exp(scale * logits).sum(axis=1)) - scale * logits[np.arange(len(own)), own])
        for scale in np.geomspace(0.1, 20, 40)
    ]
    return [float(np.mean(distances.argmin(axis=1) == own)), float(min(losses))]


def rivals(part, seed):
    database, y, queries, labels = part
    return {title: scores(make(seed).fit(database, y), queries, labels) for title, make in RIVALS.items()}


@contextmanager
def rows_kept(which):
    """Learn from rows whose hit is nearer than the miss, by the descriptors."""

    def subset(near, y, *, triplets, n_classes):
        rows = rows_from_neighbourhoods(near, y, triplets=triplets, n_classes=n_classes)
        X = rows_kept.X
        hit = ((X[near.anchors] - X[near.hits[near.anchors, 0]]) ** 2).sum(axis=1)
        miss = ((X[near.anchors] - X[near.misses[:, 0]]) ** 2).sum(axis=1)
        rows_kept.share = float(np.mean(hit < miss))
        return rows.subset(hit < miss * {"correct": 1.0, "reliable": 0.9}[which])

    original, unit = module.rows_from_neighbourhoods, module.of_unit_size

    def remember(X):
        rows_kept.X = unit(X)
        return rows_kept.X

    module.rows_from_neighbourhoods, module.of_unit_size = (subset if which else original), remember
    try:
        yield
    finally:
        module.rows_from_neighbourhoods, module.of_unit_size = original, unit


def learned(changes, seed, database, y):
    """A fitted coder; whitening and likeness are attributes, no parameters."""
    changes = dict(changes)
    attributes = {name: changes.pop(name) for name in ("whitening", "likeness") if name in changes}
    make = PatchCBID.paper if changes.pop("paper", False) else PatchCBID
    with rows_kept(changes.pop("keep", None)):
        coder = make(**{"n_bits": 128, "random_state": seed, **changes})
        for name, value in attributes.items():
            setattr(coder, name, value)
        return coder.fit(database, y)


def coded(part, changes, seed):
    """The scores at every length, the objective, and the seconds of one thread that learning took."""
    database, y, queries, labels = part
    started = time.thread_time()
    coder = learned({**OLD, **changes}, seed, database, y)
    found = {"seconds": time.thread_time() - started, "bits": coder.n_bits_, "objective": coder.objective_[-1]}
    for length in LENGTHS:
        if length <= coder.n_bits_:
            model = NBNNClassifier(coder=coder.truncate(length)).fit(database, y)
            found[str(length)] = scores(model, queries, labels)
    return found


def asymmetric(coder, database, y, queries, labels):
    """NBNN where queries are tanh(2 z / mean |z|) instead of signs, by sums of w |q - h|."""
    z, of_class = coder.project(queries.values), y[database.owners]
    q = np.tanh(2 * z / np.abs(coder.project(database.values)).mean(axis=0)) * coder.weights_
    H = coder.transform(database.values)
    distances = np.stack(
        [(coder.weights_.sum() - q @ H[of_class == c].T.astype(np.float32)).min(axis=1) for c in np.unique(y)], axis=1
    )
    sums = np.add.reduceat(distances, queries.offsets[:-1], axis=0, dtype=np.float64)
    return scores_of(sums, np.searchsorted(np.unique(y), labels))


def tried(part, changes, seed):
    """The scores of one try at 32 and 128 bits."""
    database, y, queries, labels = part
    changes = {"max_patches": NOISE_SIZES["patches"], **changes}
    rival, decision = changes.pop("rival", None), changes.pop("decision", "nearest")
    plain, is_asymmetric = changes.pop("plain", False), changes.pop("asymmetric", False)
    found = {}
    if rival is not None:
        for length in (32, 128) if rival != "exact" else (None,):
            coder = length and {"itq": ITQ, "lsh": LSH}[rival](n_bits=length, random_state=seed)
            model = NBNNClassifier(coder=coder, decision=decision).fit(database, y)
            found[str(length)] = scores(model, queries, labels)
        return found
    coder = learned(changes, seed, database, y)
    found["bits"] = coder.n_bits_
    if "keep" in changes:
        found["correct"] = rows_kept.share
    for length in (32, 128):
        short = coder.truncate(min(length, coder.n_bits_))
        if is_asymmetric:
            found[str(length)] = asymmetric(short, database, y, queries, labels)
            continue
        model = NBNNClassifier(coder=short, decision=decision, weighted=False if plain else None).fit(database, y)
        found[str(length)] = scores(model, queries, labels)
    return found


def noisy(sets, draws):
    """Run the tries against noise, without place and with it."""
    results = load("patch_noise", [])
    done = {(row["set"], row["draw"], row["place"], row["what"]) for row in results}
    sizes = {name: NOISE_SIZES[name] for name in ("database", "queries")}
    for number in range(draws):
        for name in sets:
            part = None
            for place in (0, 1):
                for what in TRIES:
                    key = (name, number, place, json.dumps(what))
                    if key in done:
                        continue
                    if part is None:
                        classes = NOISE_SIZES["classes"] if name == "scene15" else None
                        part = draw(name, number, classes=classes, **sizes)
                    database, y, queries, labels = part
                    scale = position_scale(database, place)
                    placed = (with_positions(database, scale), y, with_positions(queries, scale), labels)
                    found = tried(placed, what, number)
                    results.append({"set": name, "draw": number, "place": place, "what": key[3], "found": found})
                    print(*key, {k: np.round(v, 3).tolist() for k, v in found.items()}, flush=True)
                    store("patch_noise", results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("settings", "noisy"), default="settings")
    parser.add_argument("--draws", type=int, default=max(SETS.values()), help="at most so many of each set")
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    arguments = parser.parse_args()
    with threadpool_limits(1):
        if arguments.part == "noisy":
            noisy(arguments.sets, arguments.draws)
            return
        results = load("patch_study", [])
        done = {(row["set"], row["draw"], row["what"]) for row in results}
        for number in range(arguments.draws):
            for name in arguments.sets:
                if number >= SETS[name]:
                    continue
                part = None
                for what in ["rivals", *CHANGES]:
                    key = (name, number, what if what == "rivals" else json.dumps(what))
                    if key in done:
                        continue
                    part = part or draw(name, number)
                    found = rivals(part, number) if what == "rivals" else coded(part, what, number)
                    results.append({"set": name, "draw": number, "what": key[2], "found": found})
                    print(*key, {k: np.round(v, 3).tolist() for k, v in found.items()}, flush=True)
                    store("patch_study", results)


if __name__ == "__main__":
    main()
