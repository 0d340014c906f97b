"""Every method and C-BID on three data sets: python -m benchmarks.rivals [--data NAME ...] [--methods NAME ...].

Scene-15 embeddings (EfficientNet-Lite0, PCA-256; 100 training images a class), Fashion-MNIST pixels (PCA-64; 2,000
training images, 5,000 queries), Caltech-101 (GIST, PCA-256; 15 training and at most 20 test images a class, 102
classes). The seed draws the split (seed 0 of Scene-15 is the given one) and is the coder's. Splits and vectors are
the same for all.

C-BID has nothing set, in a second row ``likeness=0``. Each other method picks one of at most four settings
(benchmarks/rival_methods.py) by the mean of 5-NN accuracy and mean
average precision at 32 bits on validation splits, drawn from what is not tested at seed 0; then it runs at every
length and seed. Figures are those of benchmarks/scoring.py, by plain Hamming distance (C-BID and multidimensional
spectral hashing: weighted). Times are seconds of
processor time in one thread.

Results go to benchmarks/results/rivals/NAME.jsonl, one line for each cell as it is done; what is there is not run
again.
"""

import argparse
import json
import time
import warnings

import faiss
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.results import FOLDER
from benchmarks.rival_methods import METHODS, MOST_SETTINGS
from benchmarks.scoring import figures, hamming_rows
from cbid import CBID
from cbid.coders import Coder
from cbid.coders.rivals.common import CodeLengthError

LENGTHS = (16, 32, 64, 128, 256)
CHOSEN_AT = 32
SHOWN = ("knn", "map", "p10", "svm", "fit_s")
RESULTS = FOLDER / "rivals"


def scene15(part, seed):
    return data.scene15("random" if part == "test" and seed else part, seed)


# How to load each, and how many validation splits are averaged: the smaller ones are noisy.
DATA = {"scene15": (scene15, 3), "fashion": (data.fashion_mnist, 1), "caltech101": (data.caltech101, 3)}


class Results:
    """The lines of one data set, by kind, method, length and seed."""

    def __init__(self, name):
        self.path = RESULTS / f"{name}.jsonl"
        self.lines = [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def find(self, **wanted):
        return [line for line in self.lines if all(line.get(key) == value for key, value in wanted.items())]

    def forget(self, titles, kind=None):
        """Drop the lines of these methods, all or those of one kind."""
        self.lines = [line for line in self.lines if line["method"] not in titles or kind not in (None, line["kind"])]
        if self.path.exists():
            self.path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))

    def add(self, line):
        RESULTS.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self.lines.append(line)


def translated(settings, X):
    """Settings as the coder takes them: gamma in the units of X."""
    if "gamma" not in settings:
        return settings
    return {**settings, "gamma": settings["gamma"] / float(X.var(axis=0, dtype=np.float64).sum())}


def cells(method, settings, split, lengths, seed):
    """Yields (length, line) for each length the method can give; a line without figures has the reason."""
    X, y, Xt, yt = split
    if method.searches:
        for length in lengths:
            found = method.make(X, Xt, length, **settings)
            if found is None:
                yield length, {"absent": "its codes do not come in this size"}
                continue
            scores = figures(found.rows, y, yt, *(found.features or ()))
            yield length, {**scores, **costs(found.n_bytes, found.fit_seconds, found.encode_seconds)}
        return
    params = {**method.fixed, **translated(settings, X)}
    if "random_state" in method.make().get_params():
        params["random_state"] = seed
    if params.get("likeness") == 0:  # one fit gives every length; with likeness a callback costs more than a fit
        fits = prefixes(params, X, y, lengths)
    else:
        fits = ((length, *fitted(method.make, {**params, "n_bits": length}, X, y)) for length in lengths)
    for length, coder, seconds in fits:
        if not isinstance(coder, Coder):
            yield length, {"absent": coder}
            continue
        start = time.process_time()
        train, test = coder.transform(X), coder.transform(Xt)
        encoding = (time.process_time() - start) / (len(X) + len(Xt))
        weights = coder.weights_ if method.weighted else None
        scores = figures(hamming_rows(train, test, weights), y, yt, train.astype(float), test.astype(float))
        yield length, {**scores, **costs(-(-coder.n_bits_ // 8), seconds, encoding), "n_bits": coder.n_bits_}


def costs(n_bytes, fit_seconds, encode_seconds):
    return {"bytes": n_bytes, "fit_s": round(fit_seconds, 4), "encode_us": round(1e6 * encode_seconds, 3)}


def fitted(make, params, X, y):
    """A coder and the seconds it took, or the reason why the method has none of that length."""
    start = time.process_time()
    try:
        coder = make(**params).fit(X, y)
    except CodeLengthError as error:
        if make().n_bits is None:  # as many as there are; they stand in the column of the next length
            most = make(**{**params, "n_bits": None}).fit(X, y).n_bits_
            if most not in LENGTHS and params["n_bits"] == min(t for t in LENGTHS if t > most):
                return fitted(make, {**params, "n_bits": most}, X, y)
        return str(error), 0.0
    return coder, time.process_time() - start


def prefixes(params, X, y, lengths):
    """C-BID at each length, with the seconds after which it had that many bits."""
    start, seconds = time.process_time(), {}

    def note(coder):
        seconds[coder.n_bits_] = time.process_time() - start

    whole = CBID(**params, n_bits=max(lengths), callback=note).fit(X, y)
    for length in lengths:
        if length <= whole.n_bits_:
            yield length, whole.truncate(length), seconds[length]
        else:
            yield length, f"learning ended at {whole.n_bits_} bits", 0.0


def choose(name, title, method, results):
    """The settings that served best on the validation splits. Those tried before are not tried again; if another one
    is best now, the cells of the last choice are forgotten."""
    offered = method.settings_for(name)
    if len(offered) > MOST_SETTINGS:
        raise ValueError(f"{title} has {len(offered)} settings; all have at most {MOST_SETTINGS}")
    if len(offered) == 1:
        return offered[0]
    known = results.find(kind="choice", method=title)
    tried = [row for row in known[0]["tried"] if row["settings"] in offered] if known else []
    if len(tried) < len(offered):
        splits = [DATA[name][0]("validation", seed) for seed in range(DATA[name][1])]
        for settings in offered:
            if settings not in [row["settings"] for row in tried]:
                tried.append({"settings": settings, **on_validation(method, settings, splits)})
    best = max(tried, key=lambda row: row["knn"] + row["map"])["settings"]
    if not known or known[0]["tried"] != tried:
        results.forget([title], None if known and known[0]["chosen"] != best else "choice")
        results.add({"kind": "choice", "method": title, "chosen": best, "tried": tried})
    return best


def on_validation(method, settings, splits):
    """The mean of both figures over the splits, the number of each its seed."""
    lines = [validated(method, settings, split, seed) for seed, split in enumerate(splits)]
    return {key: float(np.mean([line[key] for line in lines])) for key in ("knn", "map")}


def validated(method, settings, split, seed):
    ((_, line),) = cells(method, settings, split, (CHOSEN_AT,), seed)
    if "absent" in line:  # LDA-sign of few classes, which comes in one length only
        ((_, line),) = cells(method, settings, split, (min(LENGTHS),), seed)
    return line


def run(name, titles, seeds, lengths, rerun=False):
    results = Results(name)
    if rerun:
        results.forget(titles)
    chosen = {title: choose(name, title, METHODS[title], results) for title in titles}
    for seed in range(seeds):
        split = None
        for title in titles:
            method = METHODS[title]
            wanted = lengths if title != "float vectors" else lengths[:1]
            missing = [t for t in wanted if not results.find(kind="cell", method=title, bits=t, seed=seed)]
            if not missing or seed >= method.seeds:
                continue
            split = split or DATA[name][0]("test", seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that learning ended early: the line shows it
                for length, line in cells(method, chosen[title], split, missing, seed):
                    results.add({"kind": "cell", "method": title, "bits": length, "seed": seed, **line})
                    shown = " ".join(
                        f"{k} {v:.3f}" for k, v in line.items() if k in ("knn", "map", "p10", "svm", "fit_s")
                    )
                    print(f"{name} {seed} {title:26s} {length:4d}  {shown or line['absent']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--lengths", nargs="+", type=int, choices=LENGTHS, default=list(LENGTHS))
    parser.add_argument("--seeds", type=int, default=5, help="how many of the seeds 0, 1, ...")
    parser.add_argument("--rerun", action="store_true", help="remove the results of these methods first")
    chosen = parser.parse_args()
    faiss.omp_set_num_threads(1)
    with threadpool_limits(1):
        for name in chosen.data:
            try:
                run(name, chosen.methods, chosen.seeds, chosen.lengths, chosen.rerun)
            except data.Absent as reason:
                print(f"{name}: skipped, {reason}")


if __name__ == "__main__":
    main()
