"""Draw boxes on photographs, sheets of false positives, and curves."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_integer
from cbid.data.images import as_rgb, opencv, resize, to_uint8
from cbid.detection.boxes import Annotation, Boxes, Detections, check_boxes
from cbid.detection.evaluate import HIT, IGNORED, DetectionCurve, FalsePositive, match
from cbid.evaluation.metrics import REFERENCE_FPPI
from cbid.extras import missing_extra
from cbid.storage.atomic import whole_file

Image = NDArray[np.uint8]
Color = tuple[int, int, int]

HIT_COLOR, FALSE_COLOR, MISSED_COLOR, IGNORED_COLOR = (0, 158, 115), (213, 94, 0), (240, 228, 66), (150, 150, 150)
_STYLES = ("-", "--", ":", "-.")


def draw_boxes(image: NDArray[Any], boxes: Boxes, color: Color = HIT_COLOR, *, thickness: int = 2) -> Image:
    """Return a copy of the photograph (RGB, uint8) with the boxes drawn."""
    cv2 = opencv()
    drawn = np.ascontiguousarray(as_rgb(to_uint8(image))).copy()
    for left, top, right, bottom in np.rint(check_boxes(boxes)).astype(int).tolist():
        cv2.rectangle(drawn, (left, top), (right - 1, bottom - 1), color, thickness)
    return drawn


def draw_detections(
    image: NDArray[Any], found: Detections, truth: Annotation | None = None, *, overlap: float = 0.5
) -> Image:
    """Draw detections on a photograph, with ``truth`` in colours.

    Green: hits. Orange: false positives. Yellow: missed objects. Gray: ignored objects and detections.
    """
    if truth is None:
        return draw_boxes(image, found.boxes)
    verdicts = match(found, truth, overlap=overlap)
    # An object is missed if none of the hits matches it.
    hits = Detections(found.boxes[verdicts == HIT], found.scores[verdicts == HIT])
    objects = truth.boxes[~truth.ignore]
    missed = [not np.any(match(hits, Annotation(box[None]), overlap=overlap) == HIT) for box in objects]
    drawn = draw_boxes(image, truth.boxes[truth.ignore], IGNORED_COLOR, thickness=1)
    drawn = draw_boxes(drawn, found.boxes[verdicts == IGNORED], IGNORED_COLOR)
    drawn = draw_boxes(drawn, objects[np.array(missed, bool)], MISSED_COLOR)
    drawn = draw_boxes(drawn, found.boxes[(verdicts != HIT) & (verdicts != IGNORED)], FALSE_COLOR)
    return draw_boxes(drawn, hits.boxes, HIT_COLOR)


def crop(image: NDArray[Any], box: NDArray[np.floating]) -> Image:
    """Return the part of the photograph in a box, RGB; outside the photograph its edge is repeated."""
    pixels = as_rgb(to_uint8(image))
    left, top, right, bottom = np.rint(box).astype(int).tolist()
    rows = np.clip(np.arange(top, max(bottom, top + 1)), 0, pixels.shape[0] - 1)
    columns = np.clip(np.arange(left, max(right, left + 1)), 0, pixels.shape[1] - 1)
    return pixels[np.ix_(rows, columns)]


def false_positive_sheet(
    images: Sequence[NDArray[Any]],
    worst: Sequence[FalsePositive],
    *,
    columns: int = 8,
    size: tuple[int, int] = (128, 64),
) -> Image:
    """Return a picture of the false positives side by side, each resized to ``size``."""
    check_integer("columns", columns, 1)
    if not worst:
        raise ValueError("worst is empty; expected at least one false positive")
    rows = -(-len(worst) // columns)
    sheet = np.full((rows * size[0], min(columns, len(worst)) * size[1], 3), 255, np.uint8)
    for i, wrong in enumerate(worst):
        top, left = (i // columns) * size[0], (i % columns) * size[1]
        sheet[top : top + size[0], left : left + size[1]] = resize(crop(images[wrong.image], wrong.box), size)
    return sheet


def draw_curves(curves: Mapping[str, DetectionCurve], path: str | os.PathLike[str]) -> None:
    """Plot detection rate against false positives per image, with log-averages, to an image file."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("drawing curves", "plots") from error

    figure = Figure(figsize=(6, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    plot_curves(curves, figure.add_subplot())
    figure.savefig(path, dpi=110)


def plot_curves(curves: Mapping[str, DetectionCurve], axes: Any) -> None:
    """Plot the curves on axes of matplotlib."""
    for number, (name, curve) in enumerate(curves.items()):
        # Start at the left edge, where the rate may be 0.
        x = np.concatenate([[1e-4], np.maximum(curve.fppi, 1e-4)])
        y = np.concatenate([curve.rates_at(np.array([1e-4])), curve.detection_rate])
        label = f"{name}: {100 * curve.log_average_detection_rate():.1f} %"
        axes.step(x, y, where="post", label=label, linestyle=_STYLES[number % 4])
    axes.set(
        xscale="log",
        xlim=(REFERENCE_FPPI[0] / 2, 10),
        ylim=(0, 1),
        xlabel="false positives per image",
        ylabel="detection rate",
    )
    axes.grid(True, which="both", alpha=0.3)
    for text in axes.legend(title="log-average detection rate", fontsize="small").get_texts():
        text.set_parse_math(False)  # names are no formulas


def write_picture(path: str | os.PathLike[str], image: NDArray[Any]) -> None:
    """Write an RGB image atomically, in the format of the file name extension."""
    from PIL import Image as Pillow

    kind = Pillow.registered_extensions().get(os.path.splitext(path)[1].lower())
    if kind is None:
        raise ValueError(f"path={os.fspath(path)!r}: expected an extension such as .png or .jpg")
    with whole_file(path) as temporary:
        Pillow.fromarray(np.asarray(image, np.uint8)).save(temporary, format=kind)
