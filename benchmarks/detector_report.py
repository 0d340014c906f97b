"""Figures and curves of docs/detection.md from the raw results: python -m benchmarks.detector_report.

benchmarks/results/detection.jsonl are the lines of ``cbid reproduce detection``.
"""

from benchmarks.report import ROOT, raw, table
from benchmarks.results import FOLDER
from cbid.detection.drawing import draw_curves
from cbid.experiments.detection import EXPERIMENT, PUBLISHED_GAIN, PUBLISHED_MISS, curve_of, table_of, title_of
from cbid.experiments.raw import RawResults

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

{scanning()}"""


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
