"""Mean average precision on Scene-15 in four ways: over all test images or the first 1,000 of the given split, with
equal distances shared out (tie-aware) or in the order of the training rows, here that of the classes.

    python -m benchmarks.scene15_ranking

The first 1,000 are, but for three, of five classes, whose training rows come first: so both choices flatter a method,
and short or unsupervised codes, whose distances tie or whose classes overlap, most of all. Figures told in one way
say nothing about those in another. Default settings, plain Hamming distance, five seeds; 5-NN accuracy beside them.
"""

import numpy as np

from benchmarks import data
from benchmarks.learner_accuracy import SEEDS, LinearSDH
from benchmarks.results import store
from benchmarks.scoring import neighbour_accuracy
from cbid import CBID
from cbid.coders import ITQ
from cbid.evaluation import mean_average_precision

FIRST = 1000


def ordered_average_precision(test, yt, train, y):
    """Mean average precision where of equal distances the smaller row comes first; bits in -1/+1."""
    total = 0.0
    for start in range(0, len(test), 500):
        part = slice(start, start + 500)
        order = np.argsort(-(test[part].astype(np.float32) @ train.T.astype(np.float32)), axis=1, kind="stable")
        relevant = y[order] == yt[part, None]
        precision = np.cumsum(relevant, axis=1) / np.arange(1, len(y) + 1)
        total += float(((precision * relevant).sum(axis=1) / relevant.sum(axis=1)).sum())
    return total / len(test)


def ways(train, y, test, yt):
    found = {"5-NN": neighbour_accuracy(train, y, test, yt)}
    for name, n in (("all", len(test)), (f"first {FIRST:,}", FIRST)):
        found[f"{name}, shared"] = mean_average_precision(test[:n], yt[:n], train, y)
        found[f"{name}, ordered"] = ordered_average_precision(test[:n], yt[:n], train, y)
    return found


def main():
    results = {"itq": [], "sdh linear": [], "cbid": []}
    for seed in SEEDS:
        X, y, Xt, yt = data.scene15("test", seed)
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
        for method, make, lengths in (("itq", ITQ, (32, 64)), ("sdh linear", LinearSDH, (32, 64, 128))):
            found = {}
            for length in lengths:
                coder = make(n_bits=length, random_state=seed).fit(X, y)
                found[length] = ways(coder.transform(X), y, coder.transform(Xt), yt)
            results[method].append(found)
        coder = CBID(n_bits=256, random_state=seed).fit(X, y)
        train, test = coder.transform(X), coder.transform(Xt)
        results["cbid"].append({t: ways(train[:, :t], y, test[:, :t], yt) for t in (16, 32, 64, 128, 256)})
    for method, fits in results.items():
        for length in fits[0]:
            cells = (f"{way} {np.mean([fit[length][way] for fit in fits]):.4f}" for way in fits[0][length])
            print(f"{method:10s} {length:4d} bits  ", "   ".join(cells), flush=True)
    store("scene15_ranking", results)


if __name__ == "__main__":
    main()
