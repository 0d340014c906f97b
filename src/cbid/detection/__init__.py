"""Objects in photographs: a sliding window, verification by codes, and the usual evaluation."""

from cbid.detection.annotated import AnnotatedImages, AnnotationError, open_annotated, read_coco, training_images
from cbid.detection.boxes import Annotation, Detections
from cbid.detection.detector import SlidingWindowDetector
from cbid.detection.evaluate import DetectionCurve, evaluate
from cbid.detection.many import detect_all
from cbid.detection.suppression import suppress
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
    "open_annotated",
    "read_coco",
    "suppress",
    "training_images",
]
