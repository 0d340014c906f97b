"""docs/nbnn.md from the raw results of ``cbid reproduce patches``, benchmarks/nbnn_place.py and nbnn_times.py."""

import json
from pathlib import Path

import numpy as np

from benchmarks import nbnn_place
from benchmarks.nbnn_times import SETS, lines
from benchmarks.report import raw, table
from benchmarks.results import FOLDER
from benchmarks.sift_study import DATABASE
from benchmarks.sift_study import QUERIES as ASKED
from cbid.paper.base import Results
from cbid.paper.patches import EXPERIMENT, METHODS, PLACE_METHODS, QUERIES
from cbid.paper.raw import RawResults

PAGE = Path(__file__).parent.parent / "docs" / "nbnn.md"
TITLES = {"caltech101-five": "Caltech-101, five classes", "scene15": "Scene-15"}
DRAWS = 5
PLAIN = {
    "faiss": "every distance as a product in faiss (flat search)",
    "scipy": "every distance by scipy's cdist",
    "numpy": "every distance as a product in numpy",
}

HEAD = f"""# NBNN: accuracy, room and time

Table 1 of the paper, on the two of its four data sets that are at hand. Accuracies are the lines of `cbid reproduce
patches` (`benchmarks/results/patches.jsonl`) and, for what place does, of `python -m benchmarks.nbnn_place`; times
are those of `python -m benchmarks.nbnn_times`; this page is made of them by `python -m benchmarks.nbnn_report`.

- **Protocol.** As in the paper: images of at most 150 pixels, dense SIFT at four scales, 10 training and 25 test
  images a class, five draws. All methods have the same draws and descriptors, {{descriptors}} an image on average.
- **Queries.** All training patches are kept. A test image asks with {QUERIES} of its patches, drawn at random, the
  same for all methods; the bag of words has them all. What more of them would change is told below.
- **Settings.** Best bin first: one tree, 500 comparisons. LSH: 25 tables of 20 functions, bins of 0.25. Bag of
  words: 600 words in 20 cells, three features for each count, linear SVM. C-BID: `PatchCBID(location=1)`, learned
  once at 128 bits for each draw; 16 and 32 bits are its prefixes. It was chosen on other images than those tested
  (`benchmarks/patch_study.py`). Place is where in the image a patch lies: two more values for the hyperplanes, and
  none in the codes. Since the rivals do without, one row leaves it out, and two give it to exact NBNN (on Scene-15,
  where that takes long, in two draws) and to ITQ; these three were run on another machine, where bits come out a
  little different.
- **Time.** Seconds of one thread for a whole image and one class, coding included, describing and building left out;
  all methods in one run. The published times are of a Core i7 930.
"""


def percent(values):
    return f"{100 * np.mean(values):.1f} ({100 * np.std(values):.1f})" if len(values) else "-"


def accuracy_table(found):
    head = ["", *(f"{TITLES[name]}: {whose}" for name in SETS for whose in ("ours", "published")), "bytes an image"]
    rows = []
    for method in found.distinct("method"):
        about = (METHODS | PLACE_METHODS)[method]
        row = [about.title]
        for name in SETS:
            of = found.measured("accuracy", set=name, method=method)
            theirs = about.published and about.published.accuracy[name]
            few = f", {len(of)} draws" if 0 < len(of) < DRAWS else ""
            row += [percent(of) + few, f"{theirs[0]:.1f} ({theirs[1]:.1f})" if theirs else "-"]
        of = found.where(method=method)
        row.append(f"{np.mean([line['bytes'] for line in of]):,.0f}")
        if method != "bow":
            row[-1] += f" ({np.mean([line['bytes'] / line['patches'] for line in of]):.0f} a patch)"
        rows.append(row)
    return table(head, rows)


def time_table(found):
    times = {line["method"]: line["per_image_and_class"] for line in found}
    head = [
        "",
        "seconds",
        "times as fast as exact NBNN on faiss",
        "as the plain scan (scipy)",
        "published seconds",
        "published ratio",
    ]
    rows = []
    for method, seconds in times.items():
        about = (METHODS | PLACE_METHODS).get(method)
        theirs = about.published.seconds if about and about.published else None
        rows.append(
            [
                about.title if about else PLAIN[method],
                f"{seconds:.2g}",
                f"{times['faiss'] / seconds:.3g}" if "faiss" in times else "-",
                f"{times['scipy'] / seconds:.3g}" if "scipy" in times else "-",
                f"{theirs:g}" if theirs else "-",
                f"{78.8 / theirs:.0f}" if theirs else "-",
            ]
        )
    return table(head, rows)


def unlike_published(accuracies, asked):
    """What is known of exact NBNN where it is more than three points off its published figure: by
    benchmarks/sift_study.py, by exact NBNN with place on the same draws, and by more patches that ask."""
    of = {json.dumps(row["changes"]): 100 * np.mean(row["accuracy"]) for row in raw("sift_study")["results"]}
    base, whole, more, again = (
        of[key] for key in ("{}", '{"components": 128}', '{"database": 4000}', '{"jpeg": 82}')
    )
    best = max(value for key, value in of.items() if not any(w in key for w in ("location", "database"))) - base
    placed = accuracies.where(set="scene15", method="placed")
    draws = [row["repeat"] for row in placed]
    without, with_place = (
        [100 * accuracies.measured("accuracy", set="scene15", method=m, repeat=r).mean() for r in draws]
        for m in ("exact", "placed")
    )
    first = 100 * accuracies.measured("accuracy", set="scene15", method="exact", repeat=0).mean()
    twice = 100 * next(line["accuracy"] for line in asked if (line["set"], line["method"], line["queries"])
                       == ("scene15", "exact", 2 * QUERIES))  # fmt: skip
    published = METHODS["exact"].published.accuracy["scene15"][0]
    above = [
        100 * accuracies.measured("accuracy", set="caltech101-five", method=m).mean()
        - about.published.accuracy["caltech101-five"][0]
        for m, about in METHODS.items()
        if about.published
    ]
    return f"""
## Exact NBNN beside its published figures

**Scene-15.** It is below its published figure, and so is PCA, while C-BID is at its own. A possible reason is place:
in the paper that introduced NBNN a patch's place in the image is part of its distance, and with it ours reaches
{np.mean(with_place):.1f} % ({len(draws)} draws; {np.mean(without):.1f} without), where {published:.1f} is published.
Whether the published runs had it is not told, and on Caltech-101 it takes ours farther away. What else we tried
explains less. On validation images
(`python -m benchmarks.sift_study`: {DATABASE:,} descriptors of an image in the database, {ASKED} that ask) all 128
values of SIFT give {whole:.1f} %, and their first 40 principal components {base:.1f}: the last values do harm. Four
times as many descriptors in the database bring {more - base:.1f} points. No other size, blur, window or border of
the patches, and no treatment of those without contrast, brings more than {best:.1f}. That the photographs at hand
are copies stored as JPEG again is no reason: another such round changes nothing ({again:.1f} %). Twice as many
patches that ask bring nothing ({first:.1f} % with {QUERIES}, {twice:.1f} with {2 * QUERIES}, first draw).

**Caltech-101.** Every method of the paper is above its published figure on the five classes, by {min(above):.1f} to
{max(above):.1f} points, exact NBNN by {above[list(METHODS).index("exact")]:.1f}; so what differs is common to all of
them, descriptors or images, and none of the comparisons rests on it.
"""


def main():
    found = lines()
    table_cells = RawResults(FOLDER / "patches.jsonl").results(EXPERIMENT.cells(SETS, False))
    accuracies = Results([*table_cells, *nbnn_place.RAW.results(nbnn_place.cells())])
    patches = [row["patches"] for row in accuracies if "patches" in row.result]
    text = HEAD.format(descriptors=f"{np.mean(patches):,.0f}")
    text += "\n## Accuracy and room\n\nPercent of the test images: mean over the draws (standard deviation).\n\n"
    text += accuracy_table(accuracies)
    minutes = sum(row.seconds for row in table_cells) / 60
    text += f"\nAll cells of the table (the rows of place left out) took {minutes:.0f} minutes of one core.\n"
    timed = [line for line in found if line["kind"] == "time"]
    if timed:
        queries, rows = timed[0]["queries"], timed[0]["rows"]
        text += (
            f"\n## Time\n\nImages of {', '.join(f'{n:,}' for n in queries)} patches; {rows:,} training patches in "
        )
        text += "five classes.\n\n" + time_table(timed)
    checked = [line for line in found if line["kind"] == "queries"]
    if checked:
        counts = sorted({line["queries"] for line in checked})
        text += "\n## How many patches must ask\n\nAccuracy on the first draw, by the number of patches of a test "
        text += "image that ask.\n\n"
        cells = {(line["set"], line["method"], line["queries"]): f"{100 * line['accuracy']:.1f}" for line in checked}
        rows = [
            [f"{TITLES[name]}: {METHODS[method].title}", *(cells.get((name, method, n), "-") for n in counts)]
            for name in SETS
            for method in ("exact", "cbid128")
        ]
        text += table(["", *counts], rows)
    text += unlike_published(accuracies, checked)
    PAGE.write_text(text)
    print(f"{PAGE.name} written")


if __name__ == "__main__":
    main()
