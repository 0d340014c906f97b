"""``cbid detect``: find objects in photographs; ``cbid detect fit`` trains a detector."""

import json
import os
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from cbid.commands.options import JobsOption, JsonOption, QuietOption, echo_result, echo_skipped, open_photographs
from cbid.text import printable

if TYPE_CHECKING:
    from cbid.data import ImageSet


def detect(
    detector: Annotated[
        Path, typer.Argument(metavar="DETECTOR", help="A detector of cbid detect fit or SlidingWindowDetector.save.")
    ],
    source: Annotated[
        Path, typer.Argument(metavar="SRC", help="A photograph, a folder of photographs, or a list file.")
    ],
    threshold: Annotated[float, typer.Option(help="Lowest score to report.")] = 0.0,
    draw: Annotated[Path | None, typer.Option(help="Write the photographs with boxes to this folder.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON to this file.")] = None,
    n_jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find objects in photographs. Boxes are left, top, right, bottom in pixels.

    Example: cbid detect faces.detector holiday/ --draw boxes/ --out faces.json
    """
    import numpy as np

    from cbid.data.decode import reason_of
    from cbid.detection import Detections, SlidingWindowDetector
    from cbid.detection.detector import detect_all
    from cbid.detection.drawing import draw_detections, write_picture
    from cbid.storage.atomic import whole_file

    _check_outputs(out, draw)
    model = SlidingWindowDetector.load(detector)
    images = open_photographs(source)
    targets = None if draw is None else _drawing_paths(draw, images)
    found: list[dict[str, Any]] = []
    failures = [{"image": printable(name), "reason": reason} for name, reason in images.problems]
    for i, result in detect_all(model, images, n_jobs=n_jobs, verbose=int(not as_json)):
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
    finally:  # print the result even if the disk is full
        echo_result(content, _as_text(content), as_json=as_json)
    if not found:
        raise RuntimeError(f"no photograph in {printable(source)} could be searched")


def fit_detector(
    positives: Annotated[
        Path,
        typer.Argument(metavar="POSITIVES", help="A folder of pictures of the object, each of the window's size."),
    ],
    negatives: Annotated[
        Path, typer.Argument(metavar="NEGATIVES", help="A folder of photographs without the object.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The detector file to write.")],
    window: Annotated[
        str, typer.Option(metavar="HxW", help="Height and width of the window in pixels, multiples of --cell.")
    ] = "128x64",
    border: Annotated[int, typer.Option(min=0, help="Pixels of the window around the object.")] = 16,
    cell: Annotated[int, typer.Option(min=1, help="Side of the cells of HOG in pixels.")] = 8,
    step: Annotated[int, typer.Option(min=1, help="Pixels between windows of the scan.")] = 4,
    n_rounds: Annotated[int, typer.Option(min=0, help="Rounds of hard-negative mining.")] = 2,
    n_bits: Annotated[
        int, typer.Option("--n-bits", "-b", min=0, help="Length of the codes that verify windows; 0 means none.")
    ] = 128,
    random_state: Annotated[int, typer.Option("--random-state", min=0, help="Seed.")] = 0,
    n_jobs: JobsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train a detector from pictures of an object and photographs without it.

    Example: cbid detect fit faces/ landscapes/ --window 24x24 --border 0 --cell 4 --out faces.detector
    """
    from cbid.detection import CBIDVerifier, SlidingWindowDetector

    _check_outputs(out, None)
    detector = SlidingWindowDetector(
        window=_window(window),
        border=border,
        cell=cell,
        step=step,
        n_rounds=n_rounds,
        verifier=CBIDVerifier(n_bits=n_bits) if n_bits else None,
        n_jobs=n_jobs,
        verbose=int(not quiet and not as_json),
        random_state=random_state,
    )
    objects, photographs = open_photographs(positives), open_photographs(negatives)
    echo_skipped([*objects.problems, *photographs.problems])
    detector.fit(objects, photographs)
    detector.save(out)
    answer = {
        "detector": str(out),
        "positives": len(objects),
        "negatives": len(photographs),
        "mined": detector.n_mined_,
    }
    text = f"{out}: {len(objects):,} pictures of the object, {sum(detector.n_mined_):,} hard windows without it"
    echo_result(answer, text, as_json=as_json, quiet=quiet)


def _window(text: str) -> tuple[int, int]:
    height, _, width = text.lower().partition("x")
    if not (height.isdecimal() and width.isdecimal()):
        raise typer.BadParameter(
            f"{text!r}: expected height and width in pixels, such as 128x64", param_hint="--window"
        )
    return int(height), int(width)


class DetectGroup(TyperGroup):
    """``cbid detect fit ...`` trains; any other ``cbid detect ...`` detects."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the name of the command that detects, unless another one is given."""
        if args and args[0] not in (*self.commands, "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def _check_outputs(out: Path | None, draw: Path | None) -> None:
    """Reject paths that cannot be written before the work starts."""
    if out is not None and out.is_dir():
        raise typer.BadParameter(f"--out={printable(out)}: is a folder; expected a file")
    if out is not None and not out.parent.is_dir():
        raise typer.BadParameter(f"--out={printable(out)}: the folder {printable(out.parent)} does not exist")
    if draw is not None and draw.exists() and not draw.is_dir():
        raise typer.BadParameter(f"--draw={printable(draw)}: is a file; expected a folder")


def _drawing_paths(folder: Path, images: "ImageSet") -> list[Path]:
    """Return a PNG path under the folder for each photograph; all paths differ.

    A name keeps its suffix before .png (a.jpg.png). No path leaves the folder, and none overwrites a photograph.
    """
    sources = {_file_identity(path) for i in range(len(images)) if (path := images.path(i)) is not None} - {None}
    targets: list[Path] = []
    taken: set[str] = set()
    for name in images.names:
        inner = PurePath(os.path.normpath(printable(name)))
        inner = PurePath(*(part for part in inner.parts if part not in (inner.anchor, "..")))
        stem = inner.with_suffix("") if inner.suffix.lower() == ".png" else inner
        target, number = f"{stem}.png", 1
        while target.lower() in taken:  # some file systems ignore case
            number += 1
            target = f"{stem}-{number}.png"
        taken.add(target.lower())
        existing = _file_identity(folder / target)
        if existing is not None and existing in sources:
            raise ValueError(
                f"--draw={printable(folder)}: would overwrite the photograph {printable(folder / target)}; "
                "choose another folder"
            )
        targets.append(folder / target)
    return targets


def _file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file, or None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _as_text(content: dict[str, Any]) -> str:
    lines = []
    for entry in content["images"]:
        lines.append(f"{entry['image']}: {len(entry['boxes'])} found")
        for box, score in zip(entry["boxes"], entry["scores"]):
            lines.append("  {:8.1f} {:8.1f} {:8.1f} {:8.1f}".format(*box) + f"   score {score:.2f}")
    lines += [f"{failure['image']}: skipped, {failure['reason']}" for failure in content["failures"]]
    return "\n".join(lines)
