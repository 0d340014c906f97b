"""Which settings of ``PatchCBID`` become its defaults: one change at a time, by NBNN on validation images.

    python -m benchmarks.patch_study [--draws N] [--sets ...]

The five classes of Caltech-101 and Scene-15, dense SIFT as it comes, 10 training and 25 validation images a class.
All of them are drawn from the images that no test part of the protocol "patches" holds, in any of its repeats. To
keep the study short, a training image gives 1,000 patches to the database and a validation image asks with 150, drawn
at random, the same for all settings; so the accuracies compare settings and are lower than those of whole images.

Beside the accuracy stands the log loss of a softmax over minus the image-to-class distances, at the scale that serves
each setting best: it moves less from draw to draw. Codes are compared by their weights.
`results/patch_study.json` keeps both for every draw; what it has already is not run again.
"""

import argparse
import json
import time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.results import load, store
from cbid import NBNNClassifier, PatchCBID
from cbid.coders import ITQ, LSH
from cbid.descriptors import DenseSIFT
from cbid.paper.sets import open_set
from cbid.paper.sets.base import shuffled

SETS = {"caltech101-five": 4, "scene15": 2}  # draws
TRAIN, VALIDATION, DATABASE, QUERIES = 10, 25, 1000, 150
LENGTHS = (16, 32, 128)
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


def draw(name, number):
    """Database, validation bags and their labels, of images that are in no test part."""
    data = open_set(name)
    repeats = data.info.protocols["patches"].repeats
    tested = np.concatenate([data.split("patches", repeat).test for repeat in range(repeats)])
    free = np.setdiff1d(np.arange(len(data)), tested)
    train, validation = [], []
    for label in np.unique(data.labels):
        order = shuffled(free[data.labels[free] == label], data.images.names, f"patch study/{number}")
        train.append(order[:TRAIN])
        validation.append(order[TRAIN : TRAIN + VALIDATION])
    rng = np.random.default_rng(number)
    train, validation = np.concatenate(train), np.concatenate(validation)
    descriptor = DenseSIFT()
    database = descriptor.transform(data.images[train]).sample(DATABASE, rng)
    queries = descriptor.transform(data.images[validation]).sample(QUERIES, rng)
    return database, data.labels[train], queries, data.labels[validation]


def scores(model, queries, labels):
    """Accuracy, and the log loss at the best of many scales."""
    distances = model.image_to_class_distances(queries)
    nearest = distances.min(axis=1, keepdims=True)
    own = np.searchsorted(model.classes_, labels)
    logits = (nearest - distances) / np.mean(distances - nearest)
    losses = [
        np.mean(np.log(np.exp(scale * logits).sum(axis=1)) - scale * logits[np.arange(len(own)), own])
        for scale in np.geomspace(0.1, 20, 40)
    ]
    return [float(np.mean(distances.argmin(axis=1) == own)), float(min(losses))]


def rivals(part, seed):
    database, y, queries, labels = part
    return {title: scores(make(seed).fit(database, y), queries, labels) for title, make in RIVALS.items()}


def coded(part, changes, seed):
    """The scores at every length, the objective, and the seconds of one thread that learning took."""
    database, y, queries, labels = part
    started = time.thread_time()
    changes = dict(changes)
    whitening = changes.pop("whitening", PatchCBID.whitening)
    coder = PatchCBID(**{"random_state": seed, **changes})
    coder.whitening = whitening  # no parameter: it goes with the ridge
    coder.fit(database, y)
    found = {"seconds": time.thread_time() - started, "bits": coder.n_bits_, "objective": coder.objective_[-1]}
    for length in LENGTHS:
        if length <= coder.n_bits_:
            model = NBNNClassifier(coder=coder.truncate(length)).fit(database, y)
            found[str(length)] = scores(model, queries, labels)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=max(SETS.values()), help="at most so many of each set")
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    arguments = parser.parse_args()
    results = load("patch_study", [])
    done = {(row["set"], row["draw"], row["what"]) for row in results}
    with threadpool_limits(1):
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
