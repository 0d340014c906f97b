"""Which detections of one photograph are hits, by the rule of the Caltech and COCO evaluations."""

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_real
from cbid.detection.boxes import Annotation, Detections, areas, intersections, overlaps

__all__ = ["FALSE", "HIT", "IGNORED", "match"]

HIT, FALSE, IGNORED = 1, 0, -1


def match(found: Detections, truth: Annotation, *, overlap: float = 0.5) -> NDArray[np.int8]:
    """HIT, FALSE or IGNORED for each detection, (n,).

    Detections take their turn by falling score, ties in their order. Each takes the object, not yet taken, with the
    largest intersection over union of at least ``overlap``. One that finds no such object but lies in an ignored one
    (the shared part is at least ``overlap`` of the detection itself) is ignored; any number may lie there.
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
