"""docs/nbnn.md from the raw results of benchmarks/nbnn_table.py."""

from pathlib import Path

import numpy as np

from benchmarks.nbnn_table import QUERIES, SETS, lines
from cbid.experiments.patch_methods import METHODS

PAGE = Path(__file__).parent.parent / "docs" / "nbnn.md"
TITLES = {"caltech101-five": "Caltech-101, five classes", "scene15": "Scene-15"}
DRAWS = 5
PLAIN = {"scipy": "every distance by scipy's cdist", "numpy": "every distance as a product in numpy"}

HEAD = f"""# NBNN: accuracy, room and time

Made by `python -m benchmarks.nbnn_report` from `benchmarks/results/nbnn_table.jsonl`; `python -m
benchmarks.nbnn_table` runs what is missing. This is Table 1 of the paper, on the two of its four data sets that are
at hand.

- **Protocol.** As in the paper: images of at most 150 pixels, dense SIFT at four scales, 10 training and 25 test
  images a class, five draws. All methods have the same draws and descriptors, {{descriptors}} an image on average.
- **Queries.** All training patches are kept. A test image asks with {QUERIES} of its patches, drawn at random, the
  same for all methods; the bag of words has them all. What more of them would change is told below.
- **Settings.** Best bin first: one tree, 500 comparisons. LSH: 25 tables of 20 functions, bins of 0.25. Bag of
  words: 600 words in 20 cells, three features for each count, linear SVM. C-BID: `PatchCBID(location=1)`, learned
  once at 128 bits for each draw; 16 and 32 bits are its prefixes. It was chosen on other images than those tested
  (`benchmarks/patch_study.py`). Place is where in the image a patch lies: two more values for the hyperplanes, and
  none in the codes. Since the rivals do without, one row leaves it out, and one gives it to exact NBNN.
- **Time.** Seconds of one thread for a whole image and one class, coding included, describing and building left out;
  all methods in one run. The published times are of a Core i7 930.
"""


def percent(values):
    return f"{100 * np.mean(values):.1f} ({100 * np.std(values):.1f})" if len(values) else "-"


def table(head, rows):
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells) + "\n"


def accuracy_table(found):
    head = ["", *(f"{TITLES[name]}: {whose}" for name in SETS for whose in ("ours", "published")), "bytes an image"]
    rows = []
    for method, about in METHODS.items():
        if not any(line["method"] == method for line in found):
            continue
        row = [about.title]
        for name, published in zip(SETS, ("caltech", "scene")):
            of = [line["accuracy"] for line in found if line["method"] == method and line["set"] == name]
            theirs = getattr(about.published, published, None)
            few = f", {len(of)} draws" if 0 < len(of) < DRAWS else ""
            row += [percent(of) + few, f"{theirs[0]:.1f} ({theirs[1]:.1f})" if theirs else "-"]
        stored = [line["storage"] / line["descriptors"] for line in found if line["method"] == method]
        per_image = [line["storage"] for line in found if line["method"] == method]
        row.append(f"{np.mean(per_image):,.0f}" + ("" if method == "bow" else f" ({np.mean(stored):.0f} a patch)"))
        rows.append(row)
    return table(head, rows)


def time_table(found):
    times = {line["method"]: line["per_image_and_class"] for line in found}
    head = [
        "",
        "seconds",
        "times as fast as exact NBNN",
        "as the plain scan (scipy)",
        "published seconds",
        "published ratio",
    ]
    rows = []
    for method, seconds in times.items():
        about = METHODS.get(method)
        theirs = about.published.seconds if about and about.published else None
        rows.append(
            [
                about.title if about else PLAIN[method],
                f"{seconds:.2g}",
                f"{times['exact'] / seconds:.3g}",
                f"{times['scipy'] / seconds:.3g}" if "scipy" in times else "-",
                f"{theirs:g}" if theirs else "-",
                f"{78.8 / theirs:.0f}" if theirs else "-",
            ]
        )
    return table(head, rows)


def main():
    found = lines()
    accuracies = [line for line in found if line["kind"] == "accuracy"]
    text = HEAD.format(descriptors=f"{np.mean([line['descriptors'] for line in accuracies]):,.0f}")
    text += "\n## Accuracy and room\n\nPercent of the test images: mean over the draws (standard deviation).\n\n"
    text += accuracy_table(accuracies)
    learned = [line["fit_seconds"] for line in found if line["kind"] == "learning"]
    if learned:
        text += f"\nC-BID was learned in {np.mean(learned):.0f} seconds of one core.\n"
    timed = [line for line in found if line["kind"] == "time"]
    if timed:
        queries, rows = timed[0]["queries"], timed[0]["rows"]
        text += (
            f"\n## Time\n\nImages of {', '.join(f'{n:,}' for n in queries)} patches; {rows:,} training patches in "
        )
        text += "five classes.\n\n" + time_table(timed)
    checked = [line for line in found if line["kind"] == "queries"]
    if checked:
        counts = list(dict.fromkeys(str(line["queries"]) for line in checked))
        text += "\n## How many patches must ask\n\nAccuracy on the first draw, codes of 128 bits, by the number of "
        text += "patches of a test image that ask.\n\n"
        cells = {(line["set"], str(line["queries"])): f"{100 * line['accuracy']:.1f}" for line in checked}
        text += table(["", *counts], [[TITLES[s], *(cells.get((s, n), "-") for n in counts)] for s in SETS])
    PAGE.write_text(text)
    print(f"{PAGE.name} written")


if __name__ == "__main__":
    main()
