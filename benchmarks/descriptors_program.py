"""The descriptors of ``cbid fit`` on photographs: accuracy of raw vectors and of codes on held-out images.

The default of the program should be within a point of the best. Caltech-101 (up to 30 images of each class, without
the background) and Scene-15 (100 of each class), with the program's defaults: 128 bits, a fifth of each class held
out.

Run as ``CBID_DATA=... python -m benchmarks.descriptors_program``. Raw results: results/descriptors_program.json.
"""

import os
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.results import store
from cbid.data import ImageFolder
from cbid.project import Project
from cbid.project.models import default_descriptor

DESCRIPTORS = ("hog", "centrist", "efficientnet")
SETS = {"caltech101": 30, "scene15": 100}  # the largest number of images of a class
LEFT_OUT = "BACKGROUND_Google"


def chosen(root, most):
    """Return the first images of each class, by a fixed draw."""
    images = ImageFolder(root, on_error="skip")
    rng = np.random.default_rng(0)
    rows = [
        rng.permutation(np.flatnonzero(images.labels == i))[:most]
        for i, name in enumerate(images.classes)
        if name != LEFT_OUT
    ]
    return images.take(np.sort(np.concatenate(rows)))


def measure(images, descriptor, folder):
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        project = Project.fit(folder / descriptor, images, descriptor=descriptor, n_jobs=1)
    with project:
        measured = project.evaluation
        return {
            "descriptor": descriptor,
            "values": measured["raw"]["bytes"] // 4,
            "images": len(project),
            "queries": measured["n_queries"],
            "raw": measured["raw"]["accuracy"],
            "codes": {entry["n_bits"]: entry["weighted"]["accuracy"] for entry in measured["codes"]},
            "coder": project.settings["coder"],
            "seconds": project.last_fit["seconds"] | {"all": time.perf_counter() - begun},
        }


def main():
    data = Path(os.environ["CBID_DATA"])
    results = {"default": default_descriptor(), "sets": {}}
    for name, most in SETS.items():
        images = chosen(data / name / "images", most)
        rows = []
        with tempfile.TemporaryDirectory() as folder:
            for descriptor in DESCRIPTORS:
                rows.append(measure(images, descriptor, Path(folder)))
                print(name, {key: rows[-1][key] for key in ("descriptor", "raw", "codes")}, flush=True)
        results["sets"][name] = rows
        store("descriptors_program", results)


if __name__ == "__main__":
    main()
