"""Where does every coder stand on classes that it did not learn?

The experiment "unseen" of ``cbid reproduce`` on Scene-15 embeddings, 64 bits, every coder at its defaults and in its
linear form: unseen-class retrieval, retrieval of learned classes, neighbour recall, and transfer to Caltech-101.
``python -m benchmarks.rivals_report`` writes the tables into docs/rivals.md.

    python -m benchmarks.rivals_unseen [--seeds 5] [--methods ITQ SDH]
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.results import add_line, load_lines
from cbid.paper.base import Context, Results, Row
from cbid.paper.unseen import EXPERIMENT, METHODS, TRANSFER, UNSEEN, figure_table

NAME = "rivals_unseen"
SETTINGS = ("protocol", "set", "searched", "method", "repeat", "bits", "train")


def complete(protocol):
    """Return the stored results of a protocol for the repeats that every method has: others are not comparable."""
    found = lines().where(protocol=protocol)
    counts = {repeat: len(found.where(repeat=repeat)) for repeat in found.distinct("repeat")}
    most = max(counts.values(), default=0)
    return Results([row for row in found if counts[row["repeat"]] == most])


def lines():
    """Return the stored results as those of an experiment."""
    rows = []
    for line in load_lines(NAME):
        settings = {k: v for k, v in line.items() if k in SETTINGS}
        rows.append(Row(settings, {k: v for k, v in line.items() if k not in SETTINGS}, 0.0))
    return Results(rows)


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=None, choices=list(METHODS))
    given = parser.parse_args()
    stored = [row.settings for row in lines()]
    context = Context(None, Path(tempfile.gettempdir()) / "cbid-benchmarks")
    for settings in EXPERIMENT.cells(("scene15", "caltech101"), False):
        wanted = given.methods is None or settings["method"] in given.methods
        if settings["set"] == "scene15" and settings["repeat"] < given.seeds and wanted and settings not in stored:
            for cell, result in EXPERIMENT.run([settings], context):
                add_line(NAME, {**cell, **result})
    for protocol in (UNSEEN, TRANSFER):
        print(f"\n{protocol}")
        for row in figure_table(complete(protocol))[1]:
            print(f"{row[0]:36}" + "".join(f"{value:>8}" for value in row[1:]))


if __name__ == "__main__":
    main()
