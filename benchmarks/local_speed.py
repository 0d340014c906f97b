"""How fast local descriptors are, beside a bare loop over OpenCV's SIFT at the same points.

    python -m benchmarks.local_speed

The images are cuts of the photographs inside scikit-image, 150 x 112 pixels. All sides of a comparison run one after
the other in each repeat; `results/local_speed.json` keeps every time, in seconds for all images.

- "opencv": for each image and scale one call of `cv2.SIFT.compute` with keypoints made beforehand, in one thread.
  Each scale has its own SIFT, whose base blur is that of the scale; the values are the same as ours.
- "cbid": `transform`, with 1 and 2 threads. Kernel descriptors and their plain loop over `describe` likewise.
"""

import statistics
import time

import cv2
import numpy as np
from skimage import data as photographs

from benchmarks.results import store
from cbid.descriptors import DenseSIFT, KernelDescriptors
from cbid.descriptors._grid import frames_of, grids

N_IMAGES, REPEATS = 48, 5
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
        scales.append((cv2.SIFT_create(sigma=width / descriptor.magnification), points))
    return lambda: [sift.compute(image, points)[1] for image in images for sift, points in scales]


def timed(sides):
    """Seconds of each function of ``sides``, REPEATS of each, one after the other."""
    times = {name: [] for name in sides}
    for run in sides.values():
        run()  # compiled, and in the caches
    for _ in range(REPEATS):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return times


def ratio(times, slow, fast):
    """The median over repeats of slow / fast, each within one repeat."""
    return statistics.median(s / f for s, f in zip(times[slow], times[fast]))


def main():
    cv2.setNumThreads(1)
    images = cuts()
    rows = {}
    for name, changes in GRIDS.items():
        descriptor = DenseSIFT(**changes)
        times = timed(
            {
                "opencv, 1 thread": opencv_loop(images, descriptor),
                "cbid, 1 thread": lambda d=descriptor: d.transform(images),
                "cbid, 2 threads": lambda changes=changes: DenseSIFT(**changes, n_jobs=2).transform(images),
            }
        )
        rows[f"DenseSIFT, {name}"] = {
            "images": len(images),
            "descriptors an image": len(descriptor.describe(images[0])[0]),
            "seconds": times,
            "times faster than opencv": ratio(times, "opencv, 1 thread", "cbid, 1 thread"),
            "times faster with 2 threads": ratio(times, "cbid, 1 thread", "cbid, 2 threads"),
        }
    for kernel in ("gradient", "shape", "colour"):
        descriptor = KernelDescriptors(kernel=kernel)
        times = timed(
            {
                "bare loop, 1 thread": lambda d=descriptor: [d.describe(image) for image in images],
                "cbid, 1 thread": lambda d=descriptor: d.transform(images),
                "cbid, 2 threads": lambda kernel=kernel: KernelDescriptors(kernel=kernel, n_jobs=2).transform(images),
            }
        )
        rows[f"KernelDescriptors, {kernel}"] = {
            "images": len(images),
            "descriptors an image": len(descriptor.describe(images[0])[0]),
            "seconds": times,
            "times faster with 2 threads": ratio(times, "cbid, 1 thread", "cbid, 2 threads"),
        }
    for name, row in rows.items():
        print(name, {k: round(statistics.median(v), 3) for k, v in row["seconds"].items()}, end=" ")
        print({k: round(v, 2) for k, v in row.items() if k.startswith("times")})
    store("local_speed", rows)


if __name__ == "__main__":
    main()
