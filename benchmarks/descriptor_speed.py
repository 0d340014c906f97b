"""How fast the global descriptors are: HOG compared with scikit-image's in a loop, all with one and two threads.

    python -m benchmarks.descriptor_speed

The images are cuts of the photographs inside scikit-image, in memory. All ways of a comparison run in turns.
`results/descriptor_speed.json` keeps every time, in seconds for all images. One thread against scikit-image is
measured in time of the processor, so that other work on the machine does not count; two threads by the clock.

- "scikit-image": a list comprehension over `skimage.feature.hog` with the same cells and blocks; its votes are hard.
- "cbid": `transform`.
"""

import statistics
import time

import numpy as np
from skimage import data as photographs
from skimage.feature import hog

from benchmarks.results import store
from benchmarks.timing import ratio, timed
from cbid.descriptors import CENTRIST, GIST, HOG, HaarFeatures, PyramidHOG


def cuts(n, height, width, *, color=False):
    """n cuts of gray or colour photographs."""
    rng = np.random.default_rng(0)
    whole = (
        [photographs.astronaut(), photographs.coffee(), photographs.rocket()]
        if color
        else [photographs.camera(), photographs.brick(), photographs.grass(), photographs.moon()]
    )
    found = []
    for i in range(n):
        image = whole[i % len(whole)]
        y, x = (rng.integers(0, length - cut + 1) for length, cut in zip(image.shape, (height, width)))
        found.append(np.ascontiguousarray(image[y : y + height, x : x + width]))
    return found


def against_skimage():
    sets = {
        "gray windows of 128 x 64": cuts(400, 128, 64),
        "colour windows of 128 x 64": cuts(400, 128, 64, color=True),
        "gray photographs of 320 x 240": cuts(40, 240, 320),
    }
    rows = {}
    for name, images in sets.items():
        axis = None if images[0].ndim == 2 else -1
        times = timed(
            {
                "scikit-image": lambda images=images, axis=axis: [
                    hog(image, cells_per_block=(2, 2), channel_axis=axis) for image in images
                ],
                "cbid, hard votes": lambda images=images: HOG(voting="hard").transform(images),
                "cbid, trilinear votes": lambda images=images: HOG().transform(images),
            },
            clock=time.thread_time,
        )
        rows[name] = {
            "images": len(images),
            "seconds": times,
            "times faster, hard": ratio(times, "scikit-image", "cbid, hard votes"),
            "times faster, trilinear": ratio(times, "scikit-image", "cbid, trilinear votes"),
        }
    return rows


def two_threads():
    photos = cuts(256, 240, 320)
    jobs = {
        "HOG, windows of 128 x 64": (HOG, cuts(4000, 128, 64)),
        "HOG, photographs of 320 x 240": (HOG, photos * 4),
        "PyramidHOG": (PyramidHOG, photos * 2),
        "HaarFeatures, 19 x 19": (HaarFeatures, cuts(1000, 19, 19)),
        "GIST": (GIST, photos[:96]),
        "CENTRIST": (CENTRIST, photos * 2),
    }
    rows = {}
    for name, (kind, images) in jobs.items():
        times = timed(
            {f"{n} threads": lambda n=n, kind=kind, images=images: kind(n_jobs=n).transform(images) for n in (1, 2)}
        )
        rows[name] = {
            "images": len(images),
            "seconds": times,
            "images a second, one thread": len(images) / statistics.median(times["1 threads"]),
            "times faster with 2 threads": ratio(times, "1 threads", "2 threads"),
        }
    return rows


def main():
    results = {"HOG against scikit-image, one thread": against_skimage(), "two threads": two_threads()}
    for rows in results.values():
        for name, row in rows.items():
            print(name, {k: round(v, 2) for k, v in row.items() if k != "seconds"}, flush=True)
    store("descriptor_speed", results)


if __name__ == "__main__":
    main()
