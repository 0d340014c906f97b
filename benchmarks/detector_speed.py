"""How fast a photograph is scanned: python -m benchmarks.detector_speed.

Accuracy is measured by ``cbid reproduce detection``. Raw results: benchmarks/results/detector_speed.json.
"""

import time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.results import store
from cbid.detection import SlidingWindowDetector
from cbid.detection.scan import Scanner


def speed():
    """Seconds of processor time, one thread: 640 x 480 pixels scanned, and windows described one by one."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (480, 640, 3), dtype=np.uint8)
    scanner = Scanner(SlidingWindowDetector().layout(), border=0)
    layout, margin = scanner.layout, scanner.layout.margin
    coef = rng.standard_normal(layout.n_features)
    descriptor = layout.descriptor()
    height, width = (side + 2 * margin for side in layout.window)
    with threadpool_limits(1):
        descriptor.describe(image[:height, :width])
        scanner.scan(image, coef, 0.0, np.inf)  # compiled
        dense = []
        for _ in range(3):
            started = time.thread_time()
            scanner.scan(image, coef, 0.0, np.inf)
            dense.append(time.thread_time() - started)
        best = scanner.scan(image, coef, 0.0, -np.inf, 1)
        n, top = 0, -np.inf
        started = time.thread_time()
        for size in scanner.shapes(image.shape):
            scaled = scanner.scaled(image, size)
            for y in range(0, size[0] - layout.window[0] + 1, scanner.step):
                for x in range(0, size[1] - layout.window[1] + 1, scanner.step):
                    values = descriptor.describe(scaled[y : y + height, x : x + width])
                    score = float(values @ coef)
                    if score > top:
                        top, highest = score, values
                    n += 1
        alone = time.thread_time() - started
    worst = float(np.abs(highest - best.features[0]).max())
    return {
        "windows": n,
        "scan_seconds": float(np.median(dense)),
        "one_by_one_seconds": alone,
        "times_as_fast": alone / float(np.median(dense)),
        "largest_difference_of_the_best_window": worst,
    }


def main():
    store("detector_speed", speed())


if __name__ == "__main__":
    main()
