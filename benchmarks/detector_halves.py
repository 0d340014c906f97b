"""What codes bring to the detector when their settings are chosen on other photographs than they are measured on.

The test photographs are halved in the order of their names, so that neighbouring shots of one scene stay together. On
each half every C of the verifier's SVM and every weight of its score is measured; ``choices`` then takes the best of
one half and reads its figure off the other, both ways. All coders get the same grid, and so does the control that
says what a second SVM on the HOG vectors themselves would bring, without any code.

Detectors, candidates and bits are those of ``cbid reproduce detection``; learned there, they are found in its cache.
Finished settings are kept in the raw results, so an interrupted run continues.

    python -m benchmarks.detector_halves CACHE [--methods NAME ...] [--bits 256 1024 ...] [--seeds 0 1 2]
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.results import add_line, load_lines
from cbid.detection import evaluate
from cbid.detection.verifier import fit_svm
from cbid.paper import detection
from cbid.paper.base import Context

SET = "inria_person"
CONTROL = "HOG itself"
PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
WEIGHTS = (0.25, 0.5, 0.75, 1.0)
WHOLE: dict = {"set": SET} | dict.fromkeys(detection.SIZES)  # all photographs and windows


def halves(n: int) -> tuple[range, range]:
    return range(n // 2), range(n // 2, n)


def rates(found, scores, truth) -> list[float]:
    """Log-average detection rate on each half."""
    answers = [windows.detections(new) for windows, new in zip(found, scores)]
    return [
        evaluate(
            [answers[i] for i in half], [truth[i] for i in half], **detection.PROTOCOL
        ).log_average_detection_rate()
        for half in halves(len(found))
    ]


def values_of(method: str, bits: int | None, X, y, seed: int, work: Path):
    """The function that gives what the SVM sees of HOG vectors."""
    if method == CONTROL:
        return lambda V: np.asarray(V, np.float32)
    settings = {"set": SET, "method": method, "bits": bits, "repeat": seed}
    coder = detection.coders_of([settings], X, y, work)[method, bits]
    return lambda V: coder.transform(V).astype(np.float32) / np.float32(np.sqrt(bits))


def run(cache: Path, methods: list[str], lengths: list[int], seeds: list[int]) -> None:
    done = {(row["seed"], row["method"], row["bits"], row["C"]) for row in stored()}
    test = detection.open_annotated(SET)
    truth = list(test.annotations)
    for seed in seeds:
        work = detection.work_folder(WHOLE, seed, Context(None, cache))
        detector, X, y = detection.learned(WHOLE | {"repeat": seed}, Context(None, cache), work)
        found = [detection.candidates(detector, test, i, work) for i in range(len(test))]
        if (seed, detection.BASELINE, None, None) not in done:
            keep(seed, detection.BASELINE, None, None, {"0": rates(found, [w.scores for w in found], truth)})
        cuts = np.cumsum([len(windows.scores) for windows in found])[:-1]
        features = np.concatenate([windows.features for windows in found])
        wanted = [(m, b) for m in methods for b in (lengths if m != CONTROL else [None])]
        for method, bits in wanted:
            todo = [C for C in PENALTIES if (seed, method, bits, C) not in done]
            if not todo:
                continue
            values = values_of(method, bits, X, y, seed, work)
            train, asked = values(X), values(features)
            for C in todo:
                coef, intercept = fit_svm(train, y, C=C, random_state=seed)
                new = np.split(asked @ coef + intercept, cuts)
                by_weight = {
                    str(weight): rates(
                        found, [weight * s + (1 - weight) * w.scores for s, w in zip(new, found)], truth
                    )
                    for weight in WEIGHTS
                }
                keep(seed, method, bits, C, by_weight)


def keep(seed, method, bits, C, by_weight) -> None:
    row = {"seed": seed, "method": method, "bits": bits, "C": C, "rates_of_halves_by_weight": by_weight}
    add_line("detector_halves", row)
    print(seed, method, bits, C, {w: [round(100 * r, 1) for r in both] for w, both in by_weight.items()}, flush=True)


def stored() -> list[dict]:
    return load_lines("detector_halves")


def choices(rows: list[dict]) -> dict:
    """{(method, bits): {seed: [(chosen (C, weight), gain on the other half) of both ways]}}."""
    by_seed = defaultdict(dict)
    for row in rows:
        for weight, both in row["rates_of_halves_by_weight"].items():
            by_seed[row["method"], row["bits"], row["seed"]][row["C"], float(weight)] = both
    base = {seed: next(iter(v.values())) for (m, _, seed), v in by_seed.items() if m == detection.BASELINE}
    found = defaultdict(dict)
    for (method, bits, seed), grid in by_seed.items():
        if method == detection.BASELINE or len(grid) < len(PENALTIES) * len(WEIGHTS):
            continue
        found[method, bits][seed] = []
        for own, other in ((0, 1), (1, 0)):
            best = max(grid, key=lambda setting: grid[setting][own])
            found[method, bits][seed].append((best, 100 * (grid[best][other] - base[seed][other])))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path, help="--cache of cbid reproduce")
    names = [*detection.CODERS, *detection.RIVALS, CONTROL]
    parser.add_argument("--methods", nargs="+", default=names, choices=names)
    parser.add_argument("--bits", nargs="+", type=int, default=[256, 1024])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    with threadpool_limits(1):
        run(given.cache, given.methods, given.bits, given.seeds)
    for (method, bits), seeds in choices(stored()).items():
        gains = np.array([np.mean([gain for _, gain in both]) for both in seeds.values()])
        print(f"{method}, {bits} bits: {gains.mean():+.1f} ± {gains.std():.1f} points, {len(gains)} seeds")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
