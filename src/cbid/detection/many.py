"""A detector over many photographs: in parallel, in their order; one that fails does not stop the others."""

from collections.abc import Iterator
from typing import Any

from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from cbid.data.image_sets import as_image_set
from cbid.descriptors.parallel import ordered_map
from cbid.detection.boxes import Detections
from cbid.detection.detector import SlidingWindowDetector
from cbid.progress import image_progress

__all__ = ["detect_all"]


def detect_all(
    detector: SlidingWindowDetector, images: Any, *, n_jobs: int | None = None, verbose: int = 0
) -> Iterator[tuple[int, Detections | ValueError | OSError]]:
    """(i, what was found in image i) for all images: arrays, paths or an ``ImageSet``.

    In the place of what was found stands the error of an image that cannot be read or is smaller than the window.
    """
    photographs = as_image_set(images)

    def search(i: int) -> Detections | ValueError | OSError:
        try:
            return detector.detect(photographs.read(i))
        except (ValueError, OSError) as error:
            return error

    tasks = ((i, (i,)) for i in range(len(photographs)))
    with (
        threadpool_limits(1, user_api="blas"),
        image_progress(len(photographs), "photographs", shown=bool(verbose)) as advance,
    ):
        for i, found in ordered_map(search, tasks, effective_n_jobs(n_jobs), threads=True):
            advance(1)
            if found is not None:
                yield i, found
