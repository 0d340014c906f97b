"""How fast local descriptors are, compared with a loop over OpenCV's SIFT at the same points.

    python -m benchmarks.local_speed

The images are cuts of the photographs inside scikit-image, 150 x 112 pixels. All sides of a comparison run one after
the other in each repeat; `results/local_speed.json` keeps the time of every repeat, in seconds for an image.

- "opencv": for each image and scale one call of `cv2.SIFT.compute` with keypoints made beforehand, in one thread.
  Each scale has its own SIFT, whose base blur is that of the scale; the values are the same as ours.
- "cbid": `transform`, with 1 and 2 threads.

One thread is compared by the processor's time, which other work on the machine does not change; two threads by the
clock.
"""

import json
import statistics
import time
from functools import partial

import cv2
import numpy as np
from skimage import data as photographs

from benchmarks.results import FOLDER, store
from cbid.descriptors import DenseSIFT, KernelDescriptors
from cbid.descriptors._grid import frames_of, grids

N_IMAGES, FEW, REPEATS = 128, 16, 5
GRIDS = {
    "four scales, step 2 (the defaults)": {},
    "one scale, step 8": {"sides": (16,), "step": 8},
}


def cuts():
    """Cuts (n, 112, 150) of gray and colour photographs, at half size."""
    rng = np.random.default_rng(0)
    whole = [photographs.camera(), photographs.coins(), photographs.moon(), photographs.page()]
    whole += [
        cv2.cvtColor(image(), cv2.COLOR_RGB2GRAY)
        for image in (photographs.astronaut, photographs.coffee, photographs.chelsea)
    ]
    whole = [image for image in whole if image.shape[0] > 230 and image.shape[1] > 305]
    found = []
    for i in range(N_IMAGES):
        image = whole[i % len(whole)]
        y, x = (rng.integers(0, length - cut) for length, cut in zip(image.shape, (224, 300)))
        found.append(cv2.resize(image[y : y + 224, x : x + 300], (150, 112), interpolation=cv2.INTER_AREA))
    return np.stack(found)


def opencv_loop(images, descriptor):
    """A function that describes all images by OpenCV alone, at the points and with the blur of the descriptor."""
    scales = []
    for grid in grids(images.shape[1:], descriptor.sides, descriptor.step, inside=True):
        width = grid.side / 4
        points = [cv2.KeyPoint(float(x), float(y), width / 1.5, 0.0, 0.0, 0) for x, y, _ in frames_of([grid])]
        blur = 0.5 if descriptor.magnification is None else width / descriptor.magnification
        scales.append((cv2.SIFT_create(sigma=blur), points))
    return lambda: [sift.compute(image, points)[1] for image in images for sift, points in scales]


def timed(sides):
    """Seconds for an image of each side, {name: (run, images)}: by the clock, and of the processor."""
    times = {name: {"clock": [], "processor": []} for name in sides}
    for run, _ in sides.values():
        run()  # compiled, and in the caches
    for _ in range(REPEATS):
        for name, (run, n_images) in sides.items():
            clock, processor = time.perf_counter(), time.process_time()
            run()
            times[name]["clock"].append((time.perf_counter() - clock) / n_images)
            times[name]["processor"].append((time.process_time() - processor) / n_images)
    return times


def ratio(times, slow, fast, kind):
    """The median over repeats of slow / fast, each within one repeat."""
    return statistics.median(s / f for s, f in zip(times[slow][kind], times[fast][kind]))


def compared(make, images, opencv=None):
    """One row: a descriptor by 1 and 2 threads, and OpenCV's loop over fewer images if it has one."""
    sides = {} if opencv is None else {"opencv": (opencv, FEW)}
    sides["1 thread"] = (lambda: make(None).transform(images), len(images))
    sides["2 threads"] = (lambda: make(2).transform(images), len(images))
    times = timed(sides)
    row = {"descriptors an image": len(make(None).describe(images[0])[0]), "seconds": times}
    if opencv is not None:
        row["opencv / 1 thread"] = ratio(times, "opencv", "1 thread", "processor")
    row["1 thread / 2 threads"] = ratio(times, "1 thread", "2 threads", "clock")
    return row


def section():
    """The stored results as a part of docs/benchmarks.md."""
    lines = [
        "## Local descriptors",
        "",
        "Images of 150 x 112 pixels; milliseconds an image, median. OpenCV: a bare loop over `cv2.SIFT.compute` at",
        "the same points, scales and blur, one thread.",
        "",
        "| | descriptors an image | OpenCV | cbid, 1 thread | OpenCV / cbid | gain of a second thread |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in json.loads((FOLDER / "local_speed.json").read_text())["results"].items():
        seconds = {side: statistics.median(times["processor"]) for side, times in row["seconds"].items()}
        cells = [name, f"{row['descriptors an image']:,}"]
        cells += [f"{1000 * seconds[side]:.1f}" if side in seconds else "" for side in ("opencv", "1 thread")]
        cells += [f"{row['opencv / 1 thread']:.1f} times" if "opencv" in seconds else ""]
        lines.append("| " + " | ".join([*cells, f"{row['1 thread / 2 threads']:.2f} times"]) + " |")
    return "\n".join(lines) + "\n"


def main():
    cv2.setNumThreads(1)
    images = cuts()
    rows = {}
    for name, changes in GRIDS.items():
        loop = opencv_loop(images[:FEW], DenseSIFT(**changes))
        rows[f"DenseSIFT, {name}"] = compared(partial(sift, changes), images, loop)
    for kernel in ("gradient", "shape", "colour"):
        rows[f"KernelDescriptors, {kernel}"] = compared(partial(match_kernel, kernel), images)
    store("local_speed", rows)
    print(section())


def sift(changes, n_jobs):
    return DenseSIFT(**changes, n_jobs=n_jobs)


def match_kernel(kernel, n_jobs):
    return KernelDescriptors(kernel=kernel, n_jobs=n_jobs)


if __name__ == "__main__":
    main()
