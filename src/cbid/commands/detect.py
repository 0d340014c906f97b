"""``cbid detect``: objects in a photograph, or in all photographs of a folder."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cbid.data import ImageFolder, ImageSet, open_source
from cbid.data.decode import reason_of
from cbid.data.names import printable
from cbid.detection import Detections, SlidingWindowDetector
from cbid.detection.drawing import draw_detections, write_picture
from cbid.detection.many import detect_all
from cbid.files import whole_file

__all__ = ["detect"]


def detect(
    detector: Annotated[Path, typer.Argument(help="A detector that SlidingWindowDetector.save wrote.")],
    source: Annotated[Path, typer.Argument(help="A photograph, a folder of photographs, or a list file.")],
    threshold: Annotated[float, typer.Option(help="Least score of what is shown.")] = 0.0,
    draw: Annotated[Path | None, typer.Option(help="A folder for the photographs with boxes drawn.")] = None,
    out: Annotated[Path | None, typer.Option(help="A file for the JSON.")] = None,
    jobs: Annotated[int, typer.Option(help="Photographs at a time; -1 is one for each core.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Find objects; boxes are left, top, right, bottom in pixels."""
    model = SlidingWindowDetector.load(detector)
    images = _photographs(source)
    found: list[dict[str, Any]] = []
    failures = [{"image": printable(name), "reason": reason} for name, reason in images.problems]
    for i, result in detect_all(model, images, n_jobs=jobs, verbose=int(not as_json)):
        name = printable(images.names[i])
        if isinstance(result, Exception):
            failures.append({"image": name, "reason": reason_of(result)})
            continue
        kept = result.scores >= threshold
        shown = Detections(result.boxes[kept], result.scores[kept])
        found.append({"image": name, "boxes": np.round(shown.boxes, 1).tolist(), "scores": shown.scores.tolist()})
        if draw is not None:
            _draw(draw, name, images, i, shown)
    content = {"detector": printable(detector), "threshold": threshold, "images": found, "failures": failures}
    if out is not None:
        with whole_file(out) as temporary:
            temporary.write_text(json.dumps(content, indent=1) + "\n")
    typer.echo(json.dumps(content, indent=1) if as_json else _text(content))
    if not found:
        raise RuntimeError(f"no photograph of {printable(source)} could be searched")


def _photographs(source: Path) -> ImageSet:
    opened = ImageFolder(source, labelled=False, on_error="skip") if source.is_dir() else open_source(source)
    if not isinstance(opened, ImageSet):
        raise ValueError(f"{printable(source)} holds vectors; give a photograph, or a folder of them")
    return opened


def _draw(folder: Path, name: str, images: ImageSet, i: int, found: Detections) -> None:
    """The photograph with boxes, under the same name with the ending .png."""
    path = folder / Path(os.path.basename(name) if os.path.isabs(name) else name).with_suffix(".png")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_picture(path, draw_detections(images.read(i), found))


def _text(content: dict[str, Any]) -> str:
    lines = []
    for entry in content["images"]:
        lines.append(f"{entry['image']}: {len(entry['boxes'])} found")
        for box, score in zip(entry["boxes"], entry["scores"]):
            lines.append("  {:8.1f} {:8.1f} {:8.1f} {:8.1f}".format(*box) + f"   score {score:.2f}")
    lines += [f"{failure['image']}: left out, {failure['reason']}" for failure in content["failures"]]
    return "\n".join(lines)
