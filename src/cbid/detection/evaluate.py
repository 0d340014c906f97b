"""Detection rate against false positives per image, as the Caltech pedestrian benchmark measures them.

Dollar, Wojek, Schiele and Perona (2012): "Pedestrian detection: an evaluation of the state of the art".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_real
from cbid.detection.boxes import Annotation, Boxes, Detections, with_aspect
from cbid.detection.matching import FALSE, HIT, match
from cbid.evaluation import log_average_detection_rate

__all__ = ["REFERENCE_FPPI", "DetectionCurve", "FalsePositive", "evaluate"]

REFERENCE_FPPI = np.logspace(-2, 0, 9)  # false positives per image at which the averages look
_TALLER = 1.25  # what is so much smaller than the least height that is asked for may still be meant for it


@dataclass(frozen=True)
class FalsePositive:
    """A detection where there is nothing: the number of its photograph, its box (4,) and its score."""

    image: int
    box: NDArray[np.float64]
    score: float


@dataclass(frozen=True)
class DetectionCurve:
    """One point for each threshold, falling: detections of at least that score count.

    thresholds, fppi, detection_rate: (n,). fppi is the number of false positives per image.
    false_positives: the worst first.
    """

    thresholds: NDArray[np.float64]
    fppi: NDArray[np.float64]
    detection_rate: NDArray[np.float64]
    n_images: int
    n_objects: int
    false_positives: list[FalsePositive]

    @property
    def miss_rate(self) -> NDArray[np.float64]:
        return 1 - self.detection_rate

    def rates_at(self, fppi: NDArray[np.float64] = REFERENCE_FPPI) -> NDArray[np.float64]:
        """Detection rate at the last point with no more false positives per image; 0 where there is none."""
        places = np.searchsorted(self.fppi, fppi, side="right")
        return np.concatenate([[0.0], self.detection_rate])[places]

    def log_average_detection_rate(self) -> float:
        """Mean of the detection rates at nine numbers of false positives per image, 10^-2 to 1 in equal ratios."""
        return log_average_detection_rate(self.fppi, self.detection_rate)

    def log_average_miss_rate(self) -> float:
        """Geometric mean of the miss rates there, the figure of the Caltech benchmark."""
        return float(np.exp(np.log(np.maximum(1 - self.rates_at(), 1e-10)).mean()))


def evaluate(
    found: Sequence[Detections],
    truth: Sequence[Annotation],
    *,
    overlap: float = 0.5,
    aspect: float | None = None,
    min_height: float = 0.0,
) -> DetectionCurve:
    """The curve of a detector over photographs.

    Parameters
    ----------
    found, truth
        One for each photograph, in the same order.
    overlap
        Intersection over union from which a detection counts as a hit.
    aspect
        Width / height to which boxes are brought first (``with_aspect``), those of detections and of objects; 0.41
        for pedestrians. Regions that the annotation has ignored stay as they are: a crowd is as wide as it is.
    min_height
        Objects less high are ignored, and so are detections of less than that over 1.25 (0.8 of it). The aspect
        leaves heights alone, and an object ignored for its height alone is brought to the aspect too.
    """
    if len(found) != len(truth):
        raise ValueError(f"there are detections of {len(found)} photographs and annotations of {len(truth)}")
    if not truth:
        raise ValueError("found and truth are empty; at least one photograph is needed")
    check_real("min_height", min_height, 0)
    scores, verdicts, images, boxes = [], [], [], []
    n_objects = 0
    for number, (detections, annotation) in enumerate(zip(found, truth)):
        if not np.isfinite(detections.scores).all():
            raise ValueError(f"the detections of photograph {number} have scores that are not finite")
        tall = _heights(detections.boxes) >= min_height / _TALLER
        kept = Detections(with_aspect(detections.boxes[tall], aspect), detections.scores[tall])
        small = _heights(annotation.boxes) < min_height
        regions = np.where(annotation.ignore[:, None], annotation.boxes, with_aspect(annotation.boxes, aspect))
        wanted = Annotation(regions, annotation.ignore | small)
        n_objects += int(np.sum(~wanted.ignore))
        scores.append(kept.scores)
        verdicts.append(match(kept, wanted, overlap=overlap))
        images.append(np.full(len(kept), number))
        boxes.append(detections.boxes[tall])
    if n_objects == 0:
        raise ValueError("no photograph has an object that counts; a detection rate needs at least one")
    joined = (np.concatenate(parts) for parts in (scores, verdicts, images, boxes))
    return _curve(*joined, n_images=len(truth), n_objects=n_objects)


def _curve(
    scores: NDArray[np.float64],
    verdicts: NDArray[np.int8],
    images: NDArray[np.int64],
    boxes: Boxes,
    *,
    n_images: int,
    n_objects: int,
) -> DetectionCurve:
    order = np.argsort(-scores, kind="stable")
    scores, verdicts, images, boxes = scores[order], verdicts[order], images[order], boxes[order]
    false = [FalsePositive(int(images[i]), boxes[i], float(scores[i])) for i in np.flatnonzero(verdicts == FALSE)]
    # Detections of one score are above a threshold together: only the last of them is a point.
    last = np.flatnonzero(np.diff(scores, append=-np.inf))
    return DetectionCurve(
        thresholds=scores[last],
        fppi=np.cumsum(verdicts == FALSE)[last] / n_images,
        detection_rate=np.cumsum(verdicts == HIT)[last] / n_objects,
        n_images=n_images,
        n_objects=n_objects,
        false_positives=false,
    )


def _heights(boxes: Boxes) -> NDArray[np.float64]:
    return np.asarray(boxes[:, 3] - boxes[:, 1])
