"""OpenCV, which comes with an extra."""

from typing import Any

__all__ = ["opencv"]


def opencv() -> Any:
    """The module ``cv2``, imported when it is first needed."""
    try:
        import cv2
    except ImportError as error:
        raise ImportError("work on images needs OpenCV, of the extra 'images': pip install 'cbid[images]'") from error
    return cv2
