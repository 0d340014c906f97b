"""Figures and curves of docs/detection.md from the raw results: python -m benchmarks.detector_report.

benchmarks/results/detection.jsonl are the lines of ``cbid reproduce detection``.
"""

from collections import Counter

import numpy as np

from benchmarks import detector_halves
from benchmarks.detector_halves import CONTROL
from benchmarks.report import ROOT, raw, table
from benchmarks.results import FOLDER
from cbid.detection.drawing import draw_curves
from cbid.paper.detection import EXPERIMENT, PUBLISHED_GAIN, PUBLISHED_MISS, curve_of, table_of, title_of
from cbid.paper.raw import RawResults

TARGET = ROOT / "docs" / "detection.md"
PICTURE = ROOT / "docs" / "pictures" / "detection_curves.png"
MARKS = "<!-- figures: written by python -m benchmarks.detector_report -->\n", "<!-- end of figures -->\n"
SET = "inria_person"


def figures(results):
    title, head, rows = table_of(results, SET)
    return f"""## What was measured

{title}; {len(results.distinct("repeat"))} seeds (`cbid reproduce detection`). 200 photographs without people were at
hand for training; the published baseline had 1,218 and a log-average miss rate near {PUBLISHED_MISS} %. The paper
reports a gain of {PUBLISHED_GAIN} points by 3,780 bits of C-BID.

{table(head, rows)}
![detection rate against false positives per image](pictures/detection_curves.png)

{chosen_elsewhere()}
{scanning()}"""


def chosen_elsewhere():
    """Gains with the verifier's C and weight chosen on the other half of the photographs."""
    rows = []
    for (method, bits), seeds in detector_halves.choices(detector_halves.stored()).items():
        gains = [np.mean([gain for _, gain in both]) for both in seeds.values()]
        (C, weight), _ = Counter(setting for both in seeds.values() for setting, _ in both).most_common(1)[0]
        name = method if bits is None else f"{method}, {bits:,} bits"
        told = f"{np.mean(gains):+.1f} ({', '.join(f'{g:+.1f}' for g in gains)})"
        rows.append((np.mean(gains), [name, told, f"C {C:g}, weight {weight:g}"]))
    rows.sort(key=lambda row: -row[0])
    penalties, weights = (
        ", ".join(f"{v:g}" for v in vs) for vs in (detector_halves.PENALTIES, detector_halves.WEIGHTS)
    )
    return f"""### Settings chosen on other photographs

The photographs are halved in the order of their names. C of the verifier's SVM ({penalties}) and the
weight of its score ({weights}) are chosen on one half and measured on the other, both ways, for
every method alike (`python -m benchmarks.detector_halves`). "{CONTROL}" is the control: a second SVM on the very HOG
vectors, with the same extra windows, and no code.

{table(["verified by", "gain, points (each seed)", "chosen most often"], [row for _, row in rows])}"""


def scanning():
    speed = raw("detector_speed")["results"]
    return f"""A photograph of 640 x 480 pixels, {speed["windows"]:,} windows, in one thread:
**{speed["times_as_fast"]:.0f} times as fast** as calling the descriptor for each window
(`python -m benchmarks.detector_speed`).
"""


def main():
    results = RawResults(FOLDER / "detection.jsonl").results(EXPERIMENT.cells((SET,), False))
    draw_curves({title_of(row.settings): curve_of(row) for row in results.where(repeat=0)}, PICTURE)
    before, rest = TARGET.read_text().split(MARKS[0])
    TARGET.write_text(before + MARKS[0] + figures(results) + MARKS[1] + rest.split(MARKS[1])[1])
    print("written: docs/detection.md and docs/pictures/detection_curves.png")


if __name__ == "__main__":
    main()
