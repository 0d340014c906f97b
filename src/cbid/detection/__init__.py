"""Detect objects in photographs: a sliding window, verification by codes, evaluation."""

from importlib import import_module
from typing import Any

from cbid.detection.boxes import AnnotatedImages, Annotation, AnnotationError, Detections, read_coco, suppress
from cbid.detection.detector import SlidingWindowDetector, detect_all
from cbid.detection.evaluate import DetectionCurve, evaluate
from cbid.detection.verifier import CBIDVerifier

__all__ = [
    "AnnotatedImages",
    "Annotation",
    "AnnotationError",
    "CBIDVerifier",
    "DetectionCurve",
    "Detections",
    "SlidingWindowDetector",
    "detect_all",
    "evaluate",
    "read_coco",
    "suppress",
]

# Names that 0.1.0 had here.
_MOVED = dict.fromkeys(("open_annotated", "training_images"), "cbid.paper.detection")


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        return getattr(import_module(_MOVED[name]), name)
    raise AttributeError(f"module 'cbid.detection' has no attribute {name!r}")
