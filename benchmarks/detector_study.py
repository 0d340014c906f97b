"""How the verifier's settings were chosen: on held-out training photographs of INRIA, never on test photographs.

    python -m benchmarks.detector_study [--folds ...] [--jobs N] [--work FOLDER]

A third of the windows is held out (neighbours in the list stay together: mirrored copies, people of one photograph),
and a third of the photographs without people; a detector is learned from the rest. Every held-out window is scanned
as a small photograph with one person in it, so that people are met where a scan meets them, not where they were
annotated. The score of a setting is the mean share of people found at the thresholds at which the held-out
photographs give 10^-2 to 1 false positives per 640 x 480 pixels, at nine points.

Raw results: benchmarks/results/detector_study.json.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.results import FOLDER, store
from cbid import CBID
from cbid.coders import ITQ, LSH, SDH
from cbid.detection import Annotation, CBIDVerifier, Detections, SlidingWindowDetector
from cbid.detection.boxes import with_aspect
from cbid.detection.evaluate import HIT, REFERENCE_FPPI, match
from cbid.paper.detection import training_images

WORK = Path(tempfile.gettempdir()) / "cbid-detector"
FOLDS = 3
PIXELS = 640 * 480
ASPECT = 0.41
UPSAMPLE = 1.25  # of held-out windows, so that a scan may find their people larger, too
CS = (0.03, 0.3, 3.0)
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
CODERS = {
    "CBID(n_bits=256)": lambda: CBID(likeness=0, kernel="linear", n_bits=256),
    'CBID(n_bits=256, hits="nearest")': lambda: CBID(likeness=0, kernel="linear", n_bits=256, hits="nearest"),
    'CBID(n_bits=256, kernel="rbf")': lambda: CBID(likeness=0, n_bits=256, kernel="rbf"),
    "LSH(n_bits=256)": lambda: LSH(n_bits=256),
    "ITQ(n_bits=256)": lambda: ITQ(n_bits=256),
    "SDH(n_bits=256)": lambda: SDH(n_bits=256),
    "SDH(n_bits=1024)": lambda: SDH(n_bits=1024),
    "LSH(n_bits=1024)": lambda: LSH(n_bits=1024),
}


def fold_of(fold, n_jobs, work):
    """Rows X, y to learn from; candidates in held-out windows (with the object each found) and in photographs."""
    path = work / f"fold{fold}.npz"
    if not path.exists():
        windows, photographs = training_images("inria_person")
        out_windows = np.arange(len(windows)) * FOLDS // len(windows) == fold
        out_photographs = np.arange(len(photographs)) % FOLDS == fold
        detector = SlidingWindowDetector(n_jobs=n_jobs)
        X, y = detector.fit_svm(windows[~out_windows], photographs[~out_photographs])
        detector.upsample = UPSAMPLE
        people = [hits(detector, image) for image in windows[out_windows]]
        detector.upsample = 1.0
        pixels, others = 0, []
        for image in photographs[out_photographs]:
            pixels += image.shape[0] * image.shape[1]
            others.append(detector.candidates(image))
        np.savez(
            path,
            X=X,
            y=y,
            n_people=len(people),
            pixels=pixels,
            people=np.concatenate([part.features for part in people]),
            people_scores=np.concatenate([part.scores for part in people]),
            others=np.concatenate([part.features for part in others]),
            others_scores=np.concatenate([part.scores for part in others]),
        )
    with np.load(path) as stored:
        return dict(stored)


def hits(detector, image):
    """The candidate of a held-out window that finds its person, or None."""
    found = detector.candidates(image)
    border = detector.border
    person = np.array([[border, border, image.shape[1] - border, image.shape[0] - border]], float)
    seen = Detections(with_aspect(found.boxes, ASPECT), np.asarray(found.scores, np.float64))
    return found.take(match(seen, Annotation(with_aspect(person, ASPECT))) == HIT)


def mean_rate(people, others, n_people, pixels):
    """Share of people above the thresholds of nine numbers of false positives per ``PIXELS``."""
    allowed = np.floor(REFERENCE_FPPI * pixels / PIXELS).astype(int)
    ordered = np.append(np.sort(others)[::-1], np.full(allowed.max() + 1, -np.inf))
    return float(np.mean([np.sum(people > ordered[count]) / n_people for count in allowed]))


def study(fold, n_jobs, work):
    """One line for each coder, C and weight."""
    data = fold_of(fold, n_jobs, work)
    counts = int(data["n_people"]), int(data["pixels"])
    for name, make in CODERS.items():
        started = time.process_time()
        verifier = CBIDVerifier(coder=make()).fit(data["X"], data["y"])
        seconds = time.process_time() - started
        for C in CS:
            verifier.set_params(C=C).fit_svm(data["X"], data["y"])
            codes = {part: verifier.decision_function(data[part]) for part in ("people", "others")}
            for weight in WEIGHTS:
                scores = (weight * codes[part] + (1 - weight) * data[f"{part}_scores"] for part in codes)
                rate = mean_rate(*scores, *counts)
                line = {"fold": fold, "coder": name, "C": C, "weight": weight, "rate": rate, "seconds": seconds}
                print("  ".join(f"{value}" for value in line.values()), flush=True)
                yield line


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folds", type=int, nargs="*", default=range(FOLDS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", type=Path, default=WORK)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    FOLDER.mkdir(exist_ok=True)
    with threadpool_limits(1):
        lines = []
        for fold in arguments.folds:
            for line in study(fold, arguments.jobs, arguments.work):
                lines.append(line)
                store("detector_study", lines)


if __name__ == "__main__":
    main()
