"""Figures and curves of docs/detection.md from the raw results: python -m benchmarks.detector_report."""

import numpy as np

from benchmarks.detector import BASELINE
from benchmarks.report import ROOT, raw, table
from benchmarks.results import FOLDER
from cbid.detection import DetectionCurve
from cbid.detection.drawing import draw_curves

TARGET = ROOT / "docs" / "detection.md"
PICTURE = ROOT / "docs" / "pictures" / "detection_curves.png"
MARKS = "<!-- figures: written by python -m benchmarks.detector_report -->\n", "<!-- end of figures -->\n"


def curve_of(run, n_images):
    """The curve from the scores of hits and of false positives."""
    scores = np.concatenate([run["hits"], run["false_positives"]])
    is_hit = np.arange(len(scores)) < len(run["hits"])
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.diff(scores[order], append=-np.inf))
    return DetectionCurve(
        thresholds=scores[order][last],
        fppi=np.cumsum(~is_hit[order])[last] / n_images,
        detection_rate=np.cumsum(is_hit[order])[last] / run["objects"],
        n_images=n_images,
        n_objects=run["objects"],
        false_positives=[],
    )


def by_method(results):
    """The runs of each method, by seed."""
    found = {}
    for run in results["runs"]:
        found.setdefault(run["method"], []).append(run)
    return found


def spread(values):
    deviation = f" ± {100 * np.std(values):.1f}" if len(values) > 1 else ""
    return f"{100 * np.mean(values):.1f}{deviation}"


def figures():
    results = raw("detector")["results"]
    runs = by_method(results)
    base = {run["seed"]: run["log_average_detection_rate"] for run in runs[BASELINE]}
    rows = []
    for method, found in runs.items():
        gains = [100 * (run["log_average_detection_rate"] - base[run["seed"]]) for run in found]
        gain = f"{np.mean(gains):+.1f} ({', '.join(f'{g:+.1f}' for g in gains)})"
        rows.append(
            [
                method if method == BASELINE else f"+ {method}",
                spread([run["log_average_detection_rate"] for run in found]),
                "" if method == BASELINE else gain,
                spread([run["log_average_miss_rate"] for run in found]),
            ]
        )
    head = ["", "log-average detection rate, %", "gain, points (each seed)", "log-average miss rate, %"]
    return f"""## What was measured

INRIA, {results["photographs"]} of the 288 test photographs, {runs[BASELINE][0]["objects"]} people, seeds:
{len(runs[BASELINE])} of 3 (`benchmarks/detector.py`). 200 photographs without people were
at hand for training; the published baseline had 1,218 and a log-average miss rate near 46 %. The paper reports a gain
of 5.28 points by 3,780 bits of C-BID.

{table(head, rows)}
![detection rate against false positives per image](pictures/detection_curves.png)

{scanning()}"""


def scanning():
    if not (FOLDER / "detector_speed.json").exists():
        return ""  # measured apart, by python -m benchmarks.detector --speed
    speed = raw("detector_speed")["results"]
    return f"""A photograph of 640 x 480 pixels, {speed["windows"]:,} windows, in one thread:
**{speed["times_as_fast"]:.0f} times as fast** as calling the descriptor for each window.
"""


def main():
    results = raw("detector")["results"]
    first = {method: found[0] for method, found in by_method(results).items()}
    draw_curves({method: curve_of(run, results["photographs"]) for method, run in first.items()}, PICTURE)
    before, rest = TARGET.read_text().split(MARKS[0])
    TARGET.write_text(before + MARKS[0] + figures() + MARKS[1] + rest.split(MARKS[1])[1])
    print("written: docs/detection.md and docs/pictures/detection_curves.png")


if __name__ == "__main__":
    main()
