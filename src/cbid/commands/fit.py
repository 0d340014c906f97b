"""``cbid fit``: from a folder of images to a project that can be searched."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cbid.commands.options import SUFFIX, JobsOption, JsonOption, QuietOption, echo, echo_json, one_of, resumable
from cbid.commands.results import accuracy_table

__all__ = ["default_project", "fit", "summary", "tell_fit"]


def _checked_descriptor(descriptor: str) -> str | None:
    from cbid.project.descriptors import DESCRIPTORS, ONNX

    if descriptor.startswith(ONNX) and descriptor != ONNX:
        return descriptor
    return one_of(descriptor, [*DESCRIPTORS, f"{ONNX}FILE"])


def _checked_coder(coder: str | None) -> str | None:
    from cbid.project.learning import CODERS

    return one_of(coder, CODERS)


def _checked_kernel(kernel: str | None) -> str | None:
    return one_of(kernel, ("rbf", "none"))


def fit(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SRC", help="A folder of class folders, a list file (path, label), .npy, .npz or parquet."
        ),
    ],
    descriptor: Annotated[
        str,
        typer.Option(
            "--descriptor",
            "-d",
            callback=_checked_descriptor,
            help="hog, gist, phog, centrist, pixels, or onnx:FILE.",
        ),
    ] = "hog",
    n_bits: Annotated[int, typer.Option("--bits", "-b", min=1, help="Bits of a code.")] = 128,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", show_default=False, help=f"The project (default: SRC{SUFFIX}).")
    ] = None,
    coder: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            callback=_checked_coder,
            help="A coder of cbid.coders (default: CBID; without labels, ITQ).",
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            callback=_checked_kernel,
            help="CBID: rbf or none (default: rbf, and none for vectors and networks).",
        ),
    ] = None,
    held_out: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share of each class that is kept for measuring.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same codes.")] = 0,
    vectors: Annotated[str | None, typer.Option(show_default=False, help="Parquet: the column of vectors.")] = None,
    labels: Annotated[str | None, typer.Option(show_default=False, help="Parquet: the column of labels.")] = None,
    ids: Annotated[str | None, typer.Option(show_default=False, help="Parquet: the column of ids.")] = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Learn codes for images, index them, and measure them on a part that is held out.

    Run it again when images have come or gone: only new ones are read. It may be interrupted at any time; the same
    command goes on where it stopped.

    Example: cbid fit photos/ --descriptor hog --bits 128 --out photos.cbid
    """
    from cbid.coders import CBID
    from cbid.data import open_source
    from cbid.project import Project

    chosen: Any = coder
    if kernel is not None:
        if coder not in (None, "CBID"):
            raise typer.BadParameter(f"it belongs to CBID, not to {coder}", param_hint="'--kernel'")
        chosen = CBID(n_bits=n_bits, kernel=None if kernel == "none" else kernel, random_state=seed, n_jobs=jobs)
    columns: dict[str, Any] = {
        name: value for name, value in (("vectors", vectors), ("labels", labels), ("ids", ids)) if value
    }
    opened: Any = open_source(source, on_error="skip", **columns) if columns else source
    path = out if out is not None else default_project(source)
    with (
        resumable(),
        Project.fit(
            path,
            opened,
            descriptor=descriptor,
            n_bits=n_bits,
            coder=chosen,
            held_out=held_out,
            n_jobs=jobs,
            seed=seed,
            progress=not quiet and not as_json,
        ) as project,
    ):
        if as_json:
            echo_json(summary(project))
        elif not quiet:
            tell_fit(project)
            echo()
            echo(f"cbid search IMAGE -p {project.path}    finds the images most like one")
            echo(f"cbid report -p {project.path}          writes all of this as a page")
            echo(f"cbid serve {project.path}              opens a page to search with")


def default_project(source: Path) -> Path:
    """In the current folder: photos.cbid for the folder photos, v1.2.cbid for v1.2, list.cbid for list.txt."""
    name = source.resolve()
    return Path(f"{name.name if name.is_dir() else name.stem}{SUFFIX}")


def summary(project: Any) -> dict[str, Any]:
    """All that a program may want to know of a fit."""
    return {
        "project": str(project.path),
        "up_to_date": project.was_up_to_date,
        "images": len(project),
        "classes": project.classes,
        "n_bits": project.n_bits,
        "lengths": project.lengths,
        "settings": project.settings,
        "fit": project.last_fit,
        "evaluation": project.evaluation,
    }


def tell_fit(project: Any) -> None:
    """What a fit has made, in words."""
    last = project.last_fit
    images = last["images"]
    parts = f"{images['train']:,} learned from, {images['held-out']:,} held out"
    if images["added"]:
        parts += f", {images['added']:,} only indexed"
    echo(f"{project.path}: {len(project):,} images, {len(project.classes)} classes ({parts})")
    if project.was_up_to_date:
        echo(f"nothing has changed since it was fitted, {last['ended']}")
        return
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in last["seconds"].items())
    echo(f"{last['read']:,} images were read; {seconds}")
    echo()
    echo(accuracy_table(project.evaluation))
