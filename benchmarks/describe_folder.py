"""10,000 image files through a descriptor: peak memory, what a cache saves, and what kill -9 loses.

    python -m benchmarks.describe_folder [files]

The files are JPEGs of 160 x 120 pixels made for the purpose, one in a hundred of them damaged; the descriptor brings
each to 32 x 32 gray pixels (4 kB of values). Every run is a process of its own, to measure its peak memory.
Claims: memory does not grow with the number of files; a killed run loses at most the chunk that it was filling (256
images) and the images at work (20 ms of them), and the values after any number of kills are those of a run that was
not killed.
"""

import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.results import store
from cbid.data.images import as_gray, to_float
from cbid.descriptors import Descriptor, DescriptorCache, describe

N_FILES, KILLS = 10_000, 8


class Thumbnail(Descriptor):
    """32 x 32 gray pixels; one byte in the file ``log`` for each image described."""

    _NOT_SETTINGS = frozenset({"log"})

    def __init__(self, *, log=None):
        self.log = log

    def _check_params(self):
        pass

    def describe(self, image):
        import cv2

        if self.log is not None:
            file = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, b".")
            os.close(file)
        return cv2.resize(to_float(as_gray(image)), (32, 32), interpolation=cv2.INTER_AREA).ravel()


def make_files(folder, n):
    """n JPEGs in ten class folders, each a smooth picture of its own; every hundredth is cut off."""
    for i in range(n):
        rng = np.random.default_rng(i)
        corners = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        buffer = io.BytesIO()
        corners.resize((160, 120), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=85)
        path = folder / f"class {i % 10}" / f"{i:06d}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(buffer.getvalue()[: 700 if i % 100 == 99 else None])


def run(folder, cache, out, log):
    """Describe all files; print the time, the peak memory and the counts."""
    began = time.perf_counter()
    described = describe(folder, Thumbnail(log=log or None), on_error="skip", cache=cache or None, out=out or None)
    report = {
        "seconds": round(time.perf_counter() - began, 2),
        "peak MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "described": len(described.values),
        "failures": len(described.failures),
        "values MB": round(described.values.nbytes / 2**20, 1),
    }
    print(json.dumps(report), flush=True)


def start(folder, cache="", out="", log=""):
    command = [sys.executable, "-m", "benchmarks.describe_folder", "--run", folder, cache, out, log]
    return subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)


def result(*arguments):
    with start(*arguments) as process:
        return json.loads(process.stdout.read())


def killed(folder, place, n, rng):
    """Runs killed at random moments: how many images each had described in vain."""
    cache, log = place / "killed", place / "log"
    lost, stored, logged = [], 0, 0
    for _ in range(KILLS):
        with start(folder, cache, "", log) as process:
            target = logged + rng.integers(1, n // (KILLS + 1))
            while process.poll() is None and (not log.exists() or log.stat().st_size < target):
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
        before, stored = stored, len(DescriptorCache(cache).open(Thumbnail())) if cache.exists() else 0
        before_log, logged = logged, log.stat().st_size
        lost.append((logged - before_log) - (stored - before))
    last = result(folder, cache, place / "resumed.npy", log)
    again = log.stat().st_size - logged
    return {
        "kills": KILLS,
        "lost images": lost,
        "stored before the last run": stored,
        "last run": last,
        "described by the last run": again,
    }


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else N_FILES
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        for name, count in (("tenth", n // 10), ("all", n)):
            (place / name).mkdir()
            make_files(place / name, count)
        rows = {
            "a tenth of the files": result(place / "tenth", place / "cache of a tenth", place / "tenth.npy"),
            "all files": result(place / "all", place / "cache", place / "all.npy"),
            "all files, from the cache": result(place / "all", place / "cache", place / "again.npy"),
            "all files, without a cache": result(place / "all", "", place / "plain.npy"),
        }
        rows["killed"] = killed(place / "all", place, n, np.random.default_rng(0))
        files = [np.load(place / f"{name}.npy") for name in ("all", "again", "plain", "resumed")]
        rows["values are equal"] = all(np.array_equal(files[0], other) for other in files[1:])
    for name, row in rows.items():
        print(name, row)
    store("describe_folder", {"files": n, **rows})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(*sys.argv[2:])
    else:
        main()
