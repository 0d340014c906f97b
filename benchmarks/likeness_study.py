"""How many class bits should a code with bits of likeness have, and with which weight?

128 bits put together by hand: the first class bits of ``CBID(likeness=0)`` and the bits of likeness of
``CBID(likeness=0.9)``; a class bit weighs 1 to 4 times as much as a bit of likeness. On validation splits alone:

- unseen: a third of the learned classes is kept from learning, as ``benchmarks.unseen_classes --validation`` does.
  mAP of these and of the learned classes, and the distance to the best concatenation with ITQ at equal seen mAP;
- learned: all classes are learned (the sets of docs/rivals.md): mAP and 5-NN, and those of class bits alone.

    python -m benchmarks.likeness_study run [--seeds 4] [--unseen scene15 caltech101] [--learned scene15 fashion]
    python -m benchmarks.likeness_study table
"""

import argparse
from collections import defaultdict

import numpy as np

from benchmarks.results import add_line, load_lines
from benchmarks.rivals import DATA
from benchmarks.unseen_classes import PARTS, WEIGHTS, frontier, split
from cbid import CBID
from cbid.coders import ITQ
from cbid.evaluation import average_precision
from cbid.paper.unseen import code_distances, nearest_class

NAME = "likeness_study"
BITS = 128
CLASS_BITS = (16, 32, 48, 64, 96)
HEAVIER = (1, 1.5, 2, 3, 4)  # weight of a class bit in units of a bit of likeness


def both_kinds(X, y, everything):
    """Return class bits and bits of likeness of samples, learned from X and y."""
    by_class = CBID(n_bits=BITS, likeness=0).fit(X, y).transform(everything)
    alike = CBID(n_bits=BITS + 32, likeness=0.9).fit(X, y)
    return by_class.astype(np.float32), alike.transform(everything)[:, alike.kinds_ == 1].astype(np.float32)


def grid(by_class, alike, measure, counts=CLASS_BITS, heavier=HEAVIER):
    """Return [class bits, weight, figures...] of each mixture; ``measure`` takes bits and weights."""
    found = []
    for count in counts:
        bits = np.hstack([by_class[:, :count], alike[:, : BITS - count]])
        for weight in heavier:
            weights = np.r_[np.full(count, float(weight)), np.ones(bits.shape[1] - count)]
            found.append([count, weight, *measure(bits, weights)])
    return found


def unseen(name, seed):
    """Return the grid of mixtures, and that of concatenations with ITQ."""
    X, y, train, test, queries, database = split(name, seed, validation=True)
    test = np.random.default_rng(seed).permutation(test)[:400]

    def measure(bits, weights):
        pairs = ((queries, database), (test, train))
        return [
            float(np.nanmean(average_precision(code_distances(bits[a], bits[b], weights), y[a][:, None] == y[b])))
            for a, b in pairs
        ]

    by_class, alike = both_kinds(X[train], y[train], X)
    rivals = [[0, 1, *measure(bits, np.ones(BITS))] for bits in (by_class, _itq(X, train, BITS))]
    for count in (int(part * BITS) for part in PARTS):
        rivals += grid(by_class, _itq(X, train, BITS - count), measure, (count,), WEIGHTS)
    return {"mixtures": grid(by_class, alike, measure), "rivals": rivals}


def _itq(X, train, n_bits):
    return ITQ(n_bits=n_bits).fit(X[train]).transform(X).astype(np.float32)


def learned(name, seed):
    """Return the grid of mixtures, and the figures of class bits alone."""
    X, y, Xt, yt = DATA[name][0]("validation", seed)
    some = np.random.default_rng(seed).permutation(len(Xt))[:500]

    def measure(bits, weights):
        D = code_distances(bits[len(X) :], bits[: len(X)], weights)
        ap = average_precision(D, yt[some][:, None] == y).mean()
        return [float(ap), float(np.mean(nearest_class(D, y) == yt[some]))]

    by_class, alike = both_kinds(X, y, np.vstack([X, Xt[some]]))
    return {"mixtures": grid(by_class, alike, measure), "class bits": measure(by_class, np.ones(BITS))}


def table():
    """Print means over the seeds."""
    groups = defaultdict(list)
    for line in load_lines(NAME):
        groups[line["kind"], line["set"]].append(line)
    for (kind, name), lines in sorted(groups.items()):
        mean = np.mean([line["mixtures"] for line in lines], axis=0)
        print(f"\n{kind}, {name}, {len(lines)} seeds; class bits, then for each weight {HEAVIER}:")
        if kind == "unseen":
            rivals = np.mean([line["rivals"] for line in lines], axis=0)
            points = [(seen, found) for *_, found, seen in rivals]
            print("  unseen mAP / seen mAP, distance to the concatenations")
            cells = [f"{u:.3f} / {s:.3f} {u - frontier(points, s):+.3f}" for *_, u, s in mean]
        else:
            ap, knn = np.mean([line["class bits"] for line in lines], axis=0)
            print(f"  mAP / 5-NN; class bits alone {ap:.3f} / {knn:.3f}")
            cells = [f"{a:.3f} / {b:.3f}" for *_, a, b in mean]
        for row, count in enumerate(CLASS_BITS):
            print(f"  {count:4}  " + "   ".join(cells[row * len(HEAVIER) : (row + 1) * len(HEAVIER)]))


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--unseen", nargs="*", default=["scene15", "caltech101"])
    parser.add_argument("--learned", nargs="*", default=["scene15", "fashion"])
    given = parser.parse_args()
    if given.command == "run":
        stored = {(line["kind"], line["set"], line["seed"]) for line in load_lines(NAME)}
        for kind, names, run in (("unseen", given.unseen, unseen), ("learned", given.learned, learned)):
            for name in names:
                for seed in range(given.seeds):
                    if (kind, name, seed) not in stored:
                        add_line(NAME, {"kind": kind, "set": name, "seed": seed, **run(name, seed)})
    table()


if __name__ == "__main__":
    main()
