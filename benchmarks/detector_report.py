"""Figures and curves of docs/detection.md from the raw results: python -m benchmarks.detector_report.

docs/evidence/raw/detection.jsonl.gz has the lines of ``cbid reproduce detection``.
"""

from benchmarks.report import ROOT, raw, table
from cbid.detection.drawing import draw_curves
from cbid.paper.base import Results
from cbid.paper.detection import EXPERIMENT, PUBLISHED_MISS, curve_of, table_of, title_of
from cbid.paper.raw import RawResults
from cbid.paper.verification import CONTROL, PENALTIES, PUBLISHED_GAINS, WEIGHTS, clean_table

TARGET = ROOT / "docs" / "detection.md"
PICTURE = ROOT / "docs" / "pictures" / "detection_curves.png"
MARKS = "<!-- figures: written by python -m benchmarks.detector_report -->\n", "<!-- end of figures -->\n"
SET = "inria_person"


def figures(results):
    drawn = Results([row for row in results if "thresholds" in row.result])
    title, head, rows = table_of(drawn, SET)
    return f"""## What was measured

{title}; {len(results.distinct("repeat"))} seeds (`cbid reproduce detection`). 200 photographs without people were at
hand for training; the published baseline had 1,218 and a log-average miss rate near {PUBLISHED_MISS} %. The paper
reports a gain of {PUBLISHED_GAINS[SET]} points by 3,780 bits of C-BID.

{table(head, rows)}
![detection rate against false positives per image](pictures/detection_curves.png)

{chosen_elsewhere(results)}
{scanning()}"""


def chosen_elsewhere(results):
    """Gains with the verifier's C and weight chosen on the other half of the photographs."""
    _, head, rows = clean_table(results)
    penalties, weights = (", ".join(f"{v:g}" for v in vs) for vs in (PENALTIES, WEIGHTS))
    return f"""### Settings chosen on other photographs

The photographs are halved in the order of their names. C of the verifier's SVM ({penalties}) and the
weight of its score ({weights}) are chosen on one half and measured on the other, both ways, for
every method alike. "{CONTROL}" is the control: a second SVM on the very HOG vectors, with the same extra windows, and
no code.

{table(head, rows)}"""


def scanning():
    speed = raw("detector_speed")["results"]
    return f"""A photograph of 640 x 480 pixels, {speed["windows"]:,} windows, in one thread:
**{speed["times_as_fast"]:.0f} times as fast** as calling the descriptor for each window
(`python -m benchmarks.detector_speed`).
"""


def stored():
    """Return the raw results, also those of code lengths that later runs leave out."""
    raw_results = RawResults.of(EXPERIMENT, ROOT / "docs" / "evidence")
    whole = [row for row in raw_results.read().values() if row["photographs"] is None]
    methods = [c["method"] for c in EXPERIMENT.cells((SET,), False)]
    return Results(sorted(whole, key=lambda r: (methods.index(r["method"]), r["bits"] or 0, r["repeat"])))


def document():
    """Return docs/detection.md."""
    before, rest = TARGET.read_text().split(MARKS[0])
    return before + MARKS[0] + figures(stored()) + MARKS[1] + rest.split(MARKS[1])[1]


def main():
    rows = [row for row in stored().where(repeat=0) if "thresholds" in row.result]
    draw_curves({title_of(row.settings): curve_of(row) for row in rows}, PICTURE)
    TARGET.write_text(document())
    print("written: docs/detection.md and docs/pictures/detection_curves.png")


if __name__ == "__main__":
    main()
