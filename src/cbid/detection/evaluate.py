"""Detection rate against false positives per image, as in the Caltech pedestrian benchmark.

Dollar, Wojek, Schiele and Perona (2012): "Pedestrian detection: an evaluation of the state of the art".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_real
from cbid.detection.boxes import Annotation, Boxes, Detections, areas, intersections, overlaps, with_aspect
from cbid.evaluation import log_average_detection_rate
from cbid.evaluation.metrics import REFERENCE_FPPI

HIT, FALSE, IGNORED = 1, 0, -1
_HEIGHT_RATIO = 1.25  # detections smaller than min_height by up to this factor still count


@dataclass(frozen=True)
class FalsePositive:
    """A false detection: the number of its photograph, its box (4,) and its score."""

    image: int
    box: NDArray[np.float64]
    score: float


@dataclass(frozen=True)
class DetectionCurve:
    """Detection rate and false positives per image (fppi) at each falling threshold.

    ``thresholds``, ``fppi`` and ``detection_rate`` have shape (n,); ``false_positives`` come with the highest score
    first.
    """

    thresholds: NDArray[np.float64]
    fppi: NDArray[np.float64]
    detection_rate: NDArray[np.float64]
    n_images: int
    n_objects: int
    false_positives: list[FalsePositive]

    @property
    def miss_rate(self) -> NDArray[np.float64]:
        """1 - detection rate, (n,)."""
        return 1 - self.detection_rate

    def rates_at(self, fppi: NDArray[np.float64] = REFERENCE_FPPI) -> NDArray[np.float64]:
        """Return the detection rate at the last point with at most ``fppi`` false positives per image, or 0."""
        places = np.searchsorted(self.fppi, fppi, side="right")
        return np.concatenate([[0.0], self.detection_rate])[places]

    def log_average_detection_rate(self) -> float:
        """Return the mean detection rate at nine values of fppi, 10^-2 to 1 in equal ratios."""
        return log_average_detection_rate(self.fppi, self.detection_rate)

    def log_average_miss_rate(self) -> float:
        """Return the geometric mean of the miss rates at the same points, the figure of the Caltech benchmark."""
        return float(np.exp(np.log(np.maximum(1 - self.rates_at(), 1e-10)).mean()))


def match(found: Detections, truth: Annotation, *, overlap: float = 0.5) -> NDArray[np.int8]:
    """Return HIT, FALSE or IGNORED for each detection (n,), by the rule of the Caltech and COCO evaluations.

    Detections are matched by falling score, ties in their order. Each takes the free object with the largest
    intersection over union of at least ``overlap``. A detection without such an object is ignored if at least
    ``overlap`` of its area lies in an ignored object; an ignored object takes any number of detections.
    """
    check_real("overlap", overlap, 0, 1, open_below=True)
    verdicts = np.full(len(found), FALSE, np.int8)
    objects = truth.boxes[~truth.ignore]
    union = overlaps(found.boxes, objects)
    inside = intersections(found.boxes, truth.boxes[truth.ignore]) / areas(found.boxes)[:, None]
    ignored = np.any(inside >= overlap, axis=1).tolist()
    free = np.ones(len(objects), bool)
    for i in np.argsort(-found.scores, kind="stable"):
        candidates = np.where(free, union[i], -1.0)
        best = int(candidates.argmax()) if len(candidates) else -1
        if best >= 0 and candidates[best] >= overlap:
            verdicts[i], free[best] = HIT, False
        elif ignored[i]:
            verdicts[i] = IGNORED
    return verdicts


def evaluate(
    found: Sequence[Detections],
    truth: Sequence[Annotation],
    *,
    overlap: float = 0.5,
    aspect: float | None = None,
    min_height: float = 0.0,
) -> DetectionCurve:
    """Evaluate detections against annotations.

    Parameters
    ----------
    found, truth
        One for each photograph, in the same order.
    overlap
        Least intersection over union of a hit.
    aspect
        Width / height that boxes of detections and objects get first (``with_aspect``); 0.41 for pedestrians.
        Regions that the annotation ignores keep their width.
    min_height
        Lower objects are ignored, and so are detections lower than min_height / 1.25. An object that is ignored for
        its height gets the aspect too.
    """
    if len(found) != len(truth):
        raise ValueError(f"found has {len(found)} photographs, truth has {len(truth)}; expected the same number")
    if not truth:
        raise ValueError("found and truth are empty; expected at least one photograph")
    check_real("min_height", min_height, 0)
    judged = []
    n_objects = 0
    for number, (detections, annotation) in enumerate(zip(found, truth)):
        if not np.isfinite(detections.scores).all():
            raise ValueError(f"the scores of photograph {number} hold NaN or infinity")
        tall = _heights(detections.boxes) >= min_height / _HEIGHT_RATIO
        kept = Detections(with_aspect(detections.boxes[tall], aspect), detections.scores[tall])
        small = _heights(annotation.boxes) < min_height
        regions = np.where(annotation.ignore[:, None], annotation.boxes, with_aspect(annotation.boxes, aspect))
        wanted = Annotation(regions, annotation.ignore | small)
        n_objects += int(np.sum(~wanted.ignore))
        verdicts = match(kept, wanted, overlap=overlap)
        judged.append((kept.scores, verdicts, np.full(len(kept), number), detections.boxes[tall]))
    if n_objects == 0:
        raise ValueError("no photograph has an object that counts; expected at least one")
    columns = [np.concatenate(parts) for parts in zip(*judged)]
    order = np.argsort(-columns[0], kind="stable")
    scores, verdicts, images, boxes = (column[order] for column in columns)
    wrong = np.flatnonzero(verdicts == FALSE)
    # Detections of equal score pass a threshold together: only the last of them is a point.
    last = np.flatnonzero(np.diff(scores, append=-np.inf))
    return DetectionCurve(
        thresholds=scores[last],
        fppi=np.cumsum(verdicts == FALSE)[last] / len(truth),
        detection_rate=np.cumsum(verdicts == HIT)[last] / n_objects,
        n_images=len(truth),
        n_objects=n_objects,
        false_positives=[FalsePositive(int(images[i]), boxes[i], float(scores[i])) for i in wrong],
    )


def _heights(boxes: Boxes) -> NDArray[np.float64]:
    return np.asarray(boxes[:, 3] - boxes[:, 1])
