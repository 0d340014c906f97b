"""Independent slow implementations of detection's computations."""

import numpy as np


def iou(a, b):
    """Intersection over union of two boxes, by plain arithmetic."""
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    shared = width * height
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def inside(a, b):
    """Share of box a that lies in b."""
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    return width * height / ((a[2] - a[0]) * (a[3] - a[1]))


def counts_at(found, truth, threshold, overlap):
    """Hits and false positives among the detections of at least that score, matched again for that threshold."""
    hits = false = 0
    for detections, annotation in zip(found, truth):
        kept = [(s, k) for k, s in enumerate(detections.scores) if s >= threshold]
        taken = set()
        for _, k in sorted(kept, key=lambda pair: (-pair[0], pair[1])):
            box = detections.boxes[k]
            free = [
                (iou(box, g), -j)
                for j, g in enumerate(annotation.boxes)
                if not annotation.ignore[j] and j not in taken and iou(box, g) >= overlap
            ]
            if free:
                taken.add(-max(free)[1])
                hits += 1
            elif not any(inside(box, g) >= overlap for j, g in enumerate(annotation.boxes) if annotation.ignore[j]):
                false += 1
    return hits, false


def suppressed(boxes, scores, overlap, measure):
    """Indices that suppression keeps: repeatedly the best of the rest."""
    left, kept = list(range(len(boxes))), []
    while left:
        best = max(left, key=lambda i: (scores[i], -i))
        kept.append(best)

        def shares(i, best=best):
            if measure == "iou":
                return iou(boxes[i], boxes[best])
            return max(inside(boxes[i], boxes[best]), inside(boxes[best], boxes[i]))

        left = [i for i in left if i != best and not shares(i) > overlap]
    return kept


def random_boxes(rng, n, size=100):
    """Boxes with whole corners, many of which overlap."""
    corner = rng.integers(0, size, (n, 2))
    return np.hstack([corner, corner + rng.integers(5, size // 2, (n, 2))]).astype(float)
