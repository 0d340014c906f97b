"""Writes the figures of docs/descriptors.md from the raw results: ``python -m benchmarks.descriptors_report``."""

import json
import re
import statistics
from pathlib import Path

import numpy as np

from benchmarks.results import FOLDER

TARGET = Path(__file__).parent.parent / "docs" / "descriptors.md"
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.S)


def raw(name):
    return json.loads((FOLDER / f"{name}.json").read_text())["results"]


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def scene15():
    rows = []
    for name, found in raw("scene15_descriptors").items():
        accuracy = 100 * np.array([split["accuracy"] for split in found["splits"]])
        published = "" if found["published"] is None else f"{100 * found['published']:.1f}"
        rows.append([name, f"{accuracy.mean():.1f} ± {accuracy.std():.1f}", published])
    return table(["", "accuracy, %", "published"], rows)


def study(name):
    rows = [
        [
            f"`{title}`" if "(" in title else title,
            row["values"],
            f"{100 * np.mean(row['accuracy'][row['chosen']]):.1f}",
        ]
        for title, row in raw("descriptor_study")[name].items()
    ]
    return table(["", "values", "validation accuracy, %"], rows)


def census():
    rows = [
        [title, f"{100 * np.mean(row['accuracy'][row['chosen']]):.1f}"] for title, row in raw("census_study").items()
    ]
    return table(["spatial PACT, RBF kernel", "validation accuracy, %"], rows)


def speed():
    found = raw("descriptor_speed")
    rows = []
    for name, row in found["HOG against scikit-image, one thread"].items():
        micro = {way: 1e6 * statistics.median(times) / row["images"] for way, times in row["seconds"].items()}
        rows.append([name, *(f"{micro[way]:,.0f}" for way in micro), f"{row['times faster, hard']:.1f}"])
    hog = table(
        ["µs an image", "`skimage.feature.hog`", "hard votes", "trilinear votes", "times as fast, hard votes"], rows
    )
    rows = [
        [name, f"{row['images a second, one thread']:,.0f}", f"{row['times faster with 2 threads']:.2f}"]
        for name, row in found["two threads"].items()
    ]
    return f"{hog}\n{table(['', 'images a second, one thread', 'times as fast with two'], rows)}"


FIGURES = {
    "scene15": scene15,
    "study_daimler": lambda: study("daimler"),
    "study_scene15": lambda: study("scene15"),
    "census": census,
    "speed": speed,
}


def document():
    """The page with the figures of the stored results."""
    return BLOCK.sub(lambda m: f"{m[1]}{FIGURES[m[2]]()}{m[3]}", TARGET.read_text())


def main():
    TARGET.write_text(document())


if __name__ == "__main__":
    main()
