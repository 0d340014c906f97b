"""``cbid detect``: objects in a photograph, or in all photographs of a folder."""

import json
import os
from pathlib import Path, PurePath
from typing import Annotated, Any

import numpy as np
import typer

from cbid.commands.options import checked_jobs
from cbid.data import ImageFolder, ImageSet, open_source
from cbid.data.decode import reason_of
from cbid.data.names import printable
from cbid.detection import Detections, SlidingWindowDetector
from cbid.detection.detector import detect_all
from cbid.detection.drawing import draw_detections, write_picture
from cbid.storage.atomic import whole_file

__all__ = ["detect"]


def detect(
    detector: Annotated[Path, typer.Argument(help="A detector that SlidingWindowDetector.save wrote.")],
    source: Annotated[Path, typer.Argument(help="A photograph, a folder of photographs, or a list file.")],
    threshold: Annotated[float, typer.Option(help="Least score of what is shown.")] = 0.0,
    draw: Annotated[Path | None, typer.Option(help="A folder for the photographs with boxes drawn.")] = None,
    out: Annotated[Path | None, typer.Option(help="A file for the JSON.")] = None,
    jobs: Annotated[
        int, typer.Option(callback=checked_jobs, help="Photographs at a time; -1 is one for each core.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Find objects; boxes are left, top, right, bottom in pixels."""
    _check_call(out, draw)
    model = SlidingWindowDetector.load(detector)
    images = _photographs(source)
    targets = None if draw is None else _targets(draw, images)
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
        if targets is not None:
            targets[i].parent.mkdir(parents=True, exist_ok=True)
            write_picture(targets[i], draw_detections(images.read(i), shown))
    content = {"detector": printable(detector), "threshold": threshold, "images": found, "failures": failures}
    try:
        if out is not None:
            with whole_file(out) as temporary:
                temporary.write_text(json.dumps(content, indent=1) + "\n")
    finally:  # a full disk does not cost the answer
        typer.echo(json.dumps(content, indent=1) if as_json else _text(content))
    if not found:
        raise RuntimeError(f"no photograph of {printable(source)} could be searched")


def _photographs(source: Path) -> ImageSet:
    opened = ImageFolder(source, labelled=False, on_error="skip") if source.is_dir() else open_source(source)
    if not isinstance(opened, ImageSet):
        raise ValueError(f"{printable(source)} holds vectors; give a photograph, or a folder of them")
    return opened


def _check_call(out: Path | None, draw: Path | None) -> None:
    """What would fail only after all the work is told before it."""
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        what = "is a folder" if out.is_dir() else f"is in the folder {printable(out.parent)}, which is not there"
        raise typer.BadParameter(f"--out {printable(out)} {what}; give a file in a folder that is there")
    if draw is not None and draw.exists() and not draw.is_dir():
        raise typer.BadParameter(f"--draw {printable(draw)} is a file; give a folder")


def _targets(folder: Path, images: ImageSet) -> list[Path]:
    """Where each photograph is drawn: below the folder under its name, as PNG; no two of them in one place.

    A name keeps its own ending before .png (a.jpg.png), and has nothing that leads out of the folder.
    """
    sources = {_identity(path) for i in range(len(images)) if (path := images.path(i)) is not None} - {None}
    targets: list[Path] = []
    taken: set[str] = set()
    for name in images.names:
        inner = PurePath(os.path.normpath(printable(name)))
        inner = PurePath(*(part for part in inner.parts if part not in (inner.anchor, "..")))
        stem = inner.with_suffix("") if inner.suffix.lower() == ".png" else inner
        target, number = f"{stem}.png", 1
        while target.lower() in taken:  # some file systems do not tell A from a
            number += 1
            target = f"{stem}-{number}.png"
        taken.add(target.lower())
        if (there := _identity(folder / target)) is not None and there in sources:
            raise ValueError(
                f"--draw {printable(folder)} would write over {printable(folder / target)}, which is one of the "
                "photographs to be searched; give another folder"
            )
        targets.append(folder / target)
    return targets


def _identity(path: Path) -> tuple[int, int] | None:
    """The same for two paths of one file; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _text(content: dict[str, Any]) -> str:
    lines = []
    for entry in content["images"]:
        lines.append(f"{entry['image']}: {len(entry['boxes'])} found")
        for box, score in zip(entry["boxes"], entry["scores"]):
            lines.append("  {:8.1f} {:8.1f} {:8.1f} {:8.1f}".format(*box) + f"   score {score:.2f}")
    lines += [f"{failure['image']}: left out, {failure['reason']}" for failure in content["failures"]]
    return "\n".join(lines)
