"""Which settings of dense SIFT serve exact NBNN: the study behind the defaults of ``DenseSIFT``.

    python -m benchmarks.sift_study

Scene-15, training images of the given split only: 10 images a class as the database, 25 others as queries, four
draws. The longest side is 150 pixels. To keep the study short, an image gives 1,000 descriptors to the database and
60 queries, drawn at random, all projected onto the first 40 principal components of the database; so the accuracies
compare settings and are lower than those of whole images. An image's class is the one whose descriptors lie nearest
to its own, by the sum of squared distances. `results/sift_study.json` keeps the accuracy of every draw; settings
that it has already are not run again.
"""

import io
import json

import faiss
import numpy as np
from PIL import Image

from benchmarks.results import load, store
from cbid.descriptors import DenseSIFT
from cbid.paper.sets import open_set
from cbid.paper.sets.base import per_class

DRAWS, DATABASE, QUERIES, COMPONENTS = 4, 1000, 60, 40
CHANGES = [
    {},
    {"magnification": None},
    {"magnification": 6.0},
    {"magnification": 3.0},
    {"window": None},
    {"root": True},
    {"low_contrast": "drop"},
    {"border": "mirror"},
    {"border": "zero"},
    {"step": 4},
    {"sides": (12, 16, 24, 32)},
    {"sides": (16, 32, 48, 64)},
    {"sides": (24, 32, 40, 56)},
    {"sides": (8, 12, 16, 24)},
    {"sides": (16,)},
    {"location": 0.5},
    {"location": 1.0},
    # Of the study, not of the descriptor: why whole images, all 128 values, give less.
    {"components": 128},
    {"database": 4000},
    {"components": 128, "low_contrast": "drop", "contrast": 0.02},
    {"sides": (12, 16, 24, 32), "low_contrast": "drop"},
    {"components": 128, "sides": (12, 16, 24, 32), "low_contrast": "drop"},
    # The files are JPEG of quality 82 already, made of JPEG files: what does it do to make such files once more?
    {"jpeg": 82},
    {"components": 128, "jpeg": 82},
]


def stored_again(image, quality):
    """The image after another round as a JPEG file."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


def bag(descriptor, image, location, most, rng):
    """At most ``most`` descriptors of an image that are not zero, with their place in it times ``location``."""
    values, frames, (h, w) = descriptor.describe(image)
    rows = np.flatnonzero(values.any(axis=1))
    rows = rng.permutation(rows)[:most]
    if not location:
        return values[rows]
    places = frames[rows, :2] / np.float32([w, h])
    return np.hstack([values[rows], np.float32(location) * places])


def principal_components(rows, n):
    mean = rows.mean(axis=0)
    _, vectors = np.linalg.eigh(np.cov((rows - mean).T))
    basis = vectors[:, ::-1][:, :n].astype(np.float32)
    return lambda part: np.ascontiguousarray((part - mean) @ basis)


def accuracy(scenes, draw, changes):
    """Of exact NBNN on one draw."""
    changes = dict(changes)
    location, quality = changes.pop("location", 0.0), changes.pop("jpeg", None)
    components, most, asked = (
        changes.pop(name, default)
        for name, default in (("components", COMPONENTS), ("database", DATABASE), ("queries", QUERIES))
    )
    descriptor = DenseSIFT(**changes)

    def opened(i):
        return scenes.images[i] if quality is None else stored_again(scenes.images[i], quality)

    rng = np.random.default_rng(draw)
    split = scenes.split_by(per_class(10, 25, given=True), draw)
    labels = scenes.labels
    classes = np.unique(labels)
    database = [
        np.concatenate([bag(descriptor, opened(i), location, most, rng) for i in rows])
        for rows in (split.train[labels[split.train] == c] for c in classes)
    ]
    project = principal_components(np.concatenate(database), components)
    queries = [bag(descriptor, opened(i), location, asked, rng) for i in split.validation]
    together = project(np.concatenate(queries))
    nearest = np.stack([faiss.knn(together, project(rows), 1)[0][:, 0] for rows in database], axis=1)
    starts = np.cumsum([0, *map(len, queries[:-1])])
    found = classes[np.add.reduceat(nearest, starts).argmin(axis=1)]
    return float(np.mean(found == labels[split.validation]))


def section():
    """The stored results as a part of docs/benchmarks.md."""
    lines = [
        "### Settings of dense SIFT, by exact NBNN on validation images",
        "",
        f"Scene-15, {DRAWS} draws from the training images: 10 a class as the database, 25 as queries; {DATABASE:,}",
        f"descriptors of an image in the database, {QUERIES} of a query, {COMPONENTS} principal components.",
        "",
        "| changed from the defaults | accuracy |",
        "|---|---|",
    ]
    for row in load("sift_study"):
        changes = ", ".join(f"{name}={value}" for name, value in row["changes"].items()) or "**the defaults**"
        lines.append(f"| {changes} | {np.mean(row['accuracy']):.3f} ± {np.std(row['accuracy']):.3f} |")
    return "\n".join(lines) + "\n"


def main():
    faiss.omp_set_num_threads(1)
    scenes = open_set("scene15")
    rows = load("sift_study", [])
    done = [row["changes"] for row in rows]
    for changes in CHANGES:
        plain = json.loads(json.dumps(changes))
        if plain in done:
            continue
        found = [accuracy(scenes, draw, changes) for draw in range(DRAWS)]
        print(f"{np.mean(found):.3f}  {changes}", flush=True)
        rows.append({"changes": plain, "accuracy": found})
        store("sift_study", rows)


if __name__ == "__main__":
    main()
