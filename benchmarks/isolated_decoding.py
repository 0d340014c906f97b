"""What does decoding in separate processes cost on a folder of good images?

    python -m benchmarks.isolated_decoding [--images 600] [--rounds 5]

Describes folders of JPEG files of three sizes with HOG, as ``cbid fit`` does (with thumbnails), in the calling
process and in separate processes, in turn. Reported: wall-clock time and processor time of all processes,
the smallest of the rounds, which other load on the machine disturbs least. Starting the processes is not counted: it
takes a fifth of a second, once.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.results import store
from cbid.data import open_source
from cbid.data.isolated import DecodeLimits, _idle
from cbid.descriptors import describe
from cbid.project.intake import _thumbnail
from cbid.project.models import make_descriptor

SIZES = {"64 x 64": (64, 64), "320 x 240": (240, 320), "1280 x 960": (960, 1280)}


def processor_seconds():
    """Of this process and of the decoding processes."""
    total = sum(os.times()[:2])
    for worker in _idle:
        with open(f"/proc/{worker._process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def folder_of(folder, shape, n):
    rng = np.random.default_rng(0)
    for i in range(n):
        small = rng.integers(0, 256, (shape[0] // 8, shape[1] // 8, 3), dtype=np.uint8)
        path = folder / "ab"[i % 2] / f"{i}.jpg"
        path.parent.mkdir(exist_ok=True, parents=True)
        Image.fromarray(small).resize(shape[::-1], Image.Resampling.BICUBIC).save(path, quality=90)
    return open_source(folder)


def main():
    """Measure and store."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = []
    for name, shape in SIZES.items():
        n = options.images if shape[0] < 500 else options.images // 5
        with tempfile.TemporaryDirectory() as folder:
            images = folder_of(Path(folder), shape, n)
            for n_jobs in (1, 2):
                for round in range(-1, options.rounds):
                    for isolated in (False, True):
                        limits = DecodeLimits() if isolated else None
                        begun = time.perf_counter(), processor_seconds()
                        describe(images, make_descriptor("hog"), n_jobs=n_jobs, extra=_thumbnail, limits=limits)
                        spent = time.perf_counter() - begun[0], processor_seconds() - begun[1]
                        if round >= 0:  # the first round compiles, and starts the processes
                            rows.append({"size": name, "images": n, "n_jobs": n_jobs, "isolated": isolated,
                                         "seconds": spent[0], "processor_seconds": spent[1]})  # fmt: skip
    for name in SIZES:
        for n_jobs in (1, 2):
            here = [row for row in rows if row["size"] == name and row["n_jobs"] == n_jobs]
            line = f"{name:12} n_jobs={n_jobs}"
            for what in ("seconds", "processor_seconds"):
                plain, apart = (min(r[what] for r in here if r["isolated"] == isolated) for isolated in (False, True))
                line += f"   {what}: {plain:.3f} -> {apart:.3f} ({apart / plain - 1:+.0%})"
            print(line)
    store("isolated_decoding", {"rows": rows})


if __name__ == "__main__":
    main()
