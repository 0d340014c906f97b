"""Accuracy of the default settings on test splits: 5-NN accuracy / mean average precision, plain Hamming, five seeds.

- Scene-15 embeddings: one fit of 256 bits read at its prefixes, on the given split (the seed is the coder's) and on
  five random splits of the same size (the seed draws the split); and the same in the RBF form.
- Fashion-MNIST, 2,000 training images, RBF form, against supervised discrete hashing with 1,000 anchors, with
  the kernel width that served it best on validation splits; the seed draws the split, too.
- Fashion-MNIST, 10,000 training images, linear form, 128 bits, against 5-NN on the raw PCA-64 features.
Mean average precision is over the training set, tie-aware (cbid.evaluation.metrics).
"""

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from benchmarks import data
from benchmarks.results import store
from benchmarks.scoring import prefix_scores, scores
from cbid import CBID
from cbid.coders import ITQ, SDH

SEEDS = range(5)
SDH_WIDTHS = (1.0, 3.0, 6.0)  # multiples of 1 / (2 total variance), tried on validation splits


def raw_accuracy(X, y, Xt, yt):
    return KNeighborsClassifier(5).fit(X, y).score(Xt, yt)


def scene(part="test"):
    result = {"raw": [], "cbid": [], "cbid rbf": [], "itq": []}
    for s in SEEDS:
        split = data.scene15(part, s)
        X, y, Xt, yt = split
        coders = {length: ITQ(n_bits=length, random_state=s).fit(X) for length in (32, 64)}
        result["itq"].append(
            {length: scores(coder.transform(X), y, coder.transform(Xt), yt) for length, coder in coders.items()}
        )
        for method, kernel in (("cbid", None), ("cbid rbf", "rbf")):
            coder = CBID(n_bits=256, kernel=kernel, random_state=s).fit(*split[:2])
            result[method].append(prefix_scores(coder, split, (16, 32, 64, 128, 256)))
        result["raw"].append(raw_accuracy(*split))
    return result


def scene_random():
    return scene("random")


def sdh_scores(split, length, width, seed):
    X, y, Xt, yt = split
    gamma = width / (2 * float(X.var(axis=0).sum()))
    coder = SDH(n_bits=length, gamma=gamma, random_state=seed).fit(X, y)
    return scores(coder.transform(X), y, coder.transform(Xt), yt)


def fashion_rbf():
    held_out = [data.fashion_mnist("validation", s, n_test=3000) for s in range(2)]
    tried = {w: [sdh_scores(d, 32, w, s) for s, d in enumerate(held_out)] for w in SDH_WIDTHS}
    width = max(tried, key=lambda w: np.mean(tried[w]))
    result = {"sdh widths on validation": tried, "sdh width": width, "cbid": [], "sdh": [], "raw": []}
    for s in SEEDS:
        split = data.fashion_mnist("test", s)
        coder = CBID(n_bits=64, kernel="rbf", random_state=s).fit(*split[:2])
        result["cbid"].append(prefix_scores(coder, split, (16, 32, 64)))
        result["sdh"].append({length: sdh_scores(split, length, width, s) for length in (16, 32, 64)})
        result["raw"].append(raw_accuracy(*split))
    return result


def fashion_linear():
    result = {"cbid": [], "raw": []}
    for s in SEEDS:
        split = data.fashion_mnist("test", s, n_train=10_000)
        result["cbid"].append(prefix_scores(CBID(n_bits=128, random_state=s).fit(*split[:2]), split, (32, 64, 128)))
        result["raw"].append(raw_accuracy(*split))
    return result


def show(name, fits):
    table = {length: np.array([fit[length] for fit in fits]) for length in fits[0]}
    cells = (
        f"{length}: {v[:, 0].mean():.4f} ± {v[:, 0].std():.4f} / {v[:, 1].mean():.4f} ± {v[:, 1].std():.4f}"
        for length, v in table.items()
    )
    print(f"  {name:8s}", "   ".join(cells), flush=True)


def main():
    results = {}
    for name, run in (
        ("scene15", scene),
        ("scene15, random splits", scene_random),
        ("fashion 2,000, RBF", fashion_rbf),
        ("fashion 10,000", fashion_linear),
    ):
        try:
            results[name] = run()
        except data.Absent as reason:
            print(f"{name}: left out, {reason}")
            continue
        print(f"{name}: raw 5-NN {np.mean(results[name]['raw']):.4f}")
        for method in ("cbid", "cbid rbf", "sdh", "itq"):
            if method in results[name]:
                show(method, results[name][method])
    store("learner_accuracy", results)


if __name__ == "__main__":
    main()
