"""How the verifier's settings were chosen: on held-out training photographs of INRIA, never on test photographs.

    python -m benchmarks.detector_study [--folds ...] [--jobs N] [--work FOLDER]

A third of the windows is held out (neighbours in the list stay together: mirrored copies, people of one photograph),
and a third of the photographs without people; a detector is learned from the rest. The score of a setting is the mean
share of held-out windows above the thresholds at which the held-out photographs give 10^-2 to 1 false positives per
640 x 480 pixels, at nine points. Held-out windows are seen where they were annotated, not where a scan would find
them: the score serves to compare settings, and is no detection rate.

Raw results: benchmarks/results/detector_study.json.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.detector import WORK
from benchmarks.results import FOLDER, store
from cbid import CBID
from cbid.coders import ITQ, LSH, SDH
from cbid.detection import CBIDVerifier, SlidingWindowDetector, training_images
from cbid.detection.evaluate import REFERENCE_FPPI

FOLDS = 3
PIXELS = 640 * 480
CS = (0.03, 0.3, 3.0)
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
CODERS = {
    "CBID(n_bits=256)": lambda: CBID(n_bits=256),
    "LSH(n_bits=256)": lambda: LSH(n_bits=256),
    "ITQ(n_bits=256)": lambda: ITQ(n_bits=256),
    "SDH(n_bits=256)": lambda: SDH(n_bits=256),
    "CBID(n_bits=1024)": lambda: CBID(n_bits=1024),
    "LSH(n_bits=1024)": lambda: LSH(n_bits=1024),
}


def fold_of(fold, n_jobs, work):
    """Rows to learn from, held-out windows, and candidates in held-out photographs with their scores and pixels."""
    path = work / f"fold{fold}.npz"
    if not path.exists():
        windows, photographs = training_images("inria_person")
        out_windows = np.arange(len(windows)) * FOLDS // len(windows) == fold
        out_photographs = np.arange(len(photographs)) % FOLDS == fold
        detector = SlidingWindowDetector(n_jobs=n_jobs)
        X, y = detector.fit_svm(windows[~out_windows], photographs[~out_photographs])
        positive = np.array([detector.layout().describe(image) for image in windows[out_windows]])
        pixels, found = 0, []
        for image in photographs[out_photographs]:
            pixels += image.shape[0] * image.shape[1]
            found.append(detector.candidates(image))
        np.savez(
            path,
            X=X,
            y=y,
            positive=positive,
            positive_scores=positive @ detector.coef_ + detector.intercept_,
            negative=np.concatenate([part.features for part in found]),
            negative_scores=np.concatenate([part.scores for part in found]),
            pixels=pixels,
        )
    with np.load(path) as stored:
        return dict(stored)


def mean_rate(positive, negative, pixels):
    """Share of positive scores above the thresholds of nine numbers of false positives per ``PIXELS``."""
    allowed = np.floor(REFERENCE_FPPI * pixels / PIXELS).astype(int)
    ordered = np.append(np.sort(negative)[::-1], np.full(allowed.max() + 1, -np.inf))
    return float(np.mean([np.mean(positive > ordered[count]) for count in allowed]))


def study(fold, n_jobs, work):
    """One line for each coder, C and weight."""
    data = fold_of(fold, n_jobs, work)
    pixels = int(data["pixels"])
    for name, make in CODERS.items():
        started = time.process_time()
        verifier = CBIDVerifier(coder=make()).fit(data["X"], data["y"])
        seconds = time.process_time() - started
        for C in CS:
            verifier.set_params(C=C).fit_svm(data["X"], data["y"])
            positive, negative = (verifier.decision_function(data[part]) for part in ("positive", "negative"))
            for weight in WEIGHTS:
                p, n = (
                    weight * codes + (1 - weight) * data[f"{part}_scores"]
                    for codes, part in ((positive, "positive"), (negative, "negative"))
                )
                yield {
                    "fold": fold,
                    "coder": name,
                    "C": C,
                    "weight": weight,
                    "rate": mean_rate(p, n, pixels),
                    "seconds": seconds,
                }
            print(fold, name, C, f"{seconds:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folds", type=int, nargs="*", default=range(FOLDS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", type=Path, default=WORK)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    FOLDER.mkdir(exist_ok=True)
    with threadpool_limits(1):
        store("detector_study", [line for f in arguments.folds for line in study(f, arguments.jobs, arguments.work)])


if __name__ == "__main__":
    main()
